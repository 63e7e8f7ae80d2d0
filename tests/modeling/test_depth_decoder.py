"""The decoder family: causality, caches, padding, positions, heads."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, StaticCache, T5Config, T5Model

from hf_depth import (
    DepthDecoderConfig,
    DepthDecoderForCausalLM,
    DepthDecoderForSequenceClassification,
    DepthDecoderForTokenClassification,
    DepthDecoderModel,
    DepthEncoderConfig,
)
from hf_depth.modeling.presets import PRESETS
from tests.conftest import TINY, padded_batch, shake

POSITIONS = ["none", "learned", "sinusoidal", "sinusoidal_mixed", "rotary", "alibi", "bucketed"]
MODERN = {"norm": "rmsnorm", "is_gated_act": True, "num_key_value_heads": 2, "qk_norm": True, "attention_bias": False}
HEADS = [
    DepthDecoderModel,
    DepthDecoderForCausalLM,
    DepthDecoderForSequenceClassification,
    DepthDecoderForTokenClassification,
]


def build(model_class: type = DepthDecoderForCausalLM, **settings: object) -> torch.nn.Module:
    return shake(model_class(DepthDecoderConfig(**{**TINY, "pad_token_id": 0, **settings}))).eval()


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"norm_position": "post"}, MODERN], ids=["gpt", "post", "modern"])
@pytest.mark.parametrize("position", POSITIONS)
def test_later_tokens_change_nothing(position: str, settings: dict) -> None:
    model = build(position=position, **settings)
    ids = torch.randint(3, 97, (2, 12))
    whole = model(ids).logits
    for length in (1, 2, 7, 11):
        assert_close(model(ids[:, :length]).logits, whole[:, :length])


@pytest.mark.parametrize("steps", [[12], [5, 1, 1, 5], [1, 11]], ids=str)
@pytest.mark.parametrize("position", POSITIONS)
def test_cached_equals_uncached(position: str, steps: list[int]) -> None:
    model = build(position=position)
    batch = padded_batch()
    whole = model(**batch).logits
    cache, seen, parts = None, 0, []
    for step in steps:
        outputs = model(
            batch["input_ids"][:, seen : seen + step], batch["attention_mask"][:, : seen + step], cache=cache
        )
        cache, seen = outputs.cache, seen + step
        parts.append(outputs.logits)
    kept = batch["attention_mask"] == 1
    assert_close(torch.cat(parts, 1)[kept], whole[kept])


@pytest.mark.parametrize("position", POSITIONS)
def test_padding_on_the_left_changes_nothing(position: str) -> None:
    model = build(position=position)
    ids = torch.randint(3, 97, (1, 6))
    pads = torch.zeros(1, 4, dtype=torch.long)
    mask = torch.cat((pads, torch.ones_like(ids)), 1)
    assert_close(model(torch.cat((pads, ids), 1), attention_mask=mask).logits[:, 4:], model(ids).logits)


@pytest.mark.parametrize("position", POSITIONS)
def test_sdpa_equals_eager(position: str) -> None:
    model = build(position=position, **MODERN)
    batch = padded_batch()
    kept = batch["attention_mask"] == 1
    sdpa = model(**batch).logits[kept]
    model.set_attn_implementation("eager")
    assert_close(model(**batch).logits[kept], sdpa)


@pytest.mark.parametrize("position", POSITIONS)
def test_generates_the_same_with_and_without_a_cache(position: str) -> None:
    model = build(position=position)
    batch = {name: tensor[1:] for name, tensor in padded_batch().items()}  # the texts that end at the last column
    settings = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    cached = model.generate(**batch, **settings)
    assert cached.equal(model.generate(**batch, **settings, use_cache=False))
    assert cached.equal(model.generate(**batch, **settings, cache_implementation="static", disable_compile=True))
    alone = model.generate(batch["input_ids"][:1, 5:], **settings)
    assert alone.equal(cached[:1, 5:])


@pytest.mark.parametrize("position", POSITIONS)
def test_texts_packed_into_a_row_do_not_see_each_other(position: str) -> None:
    model = build(position=position)
    texts = [torch.randint(3, 97, (1, length)) for length in (4, 7)]
    position_ids = torch.cat([torch.arange(4), torch.arange(7)])[None]
    packed = model(torch.cat(texts, 1), position_ids=position_ids, use_cache=False).logits
    assert_close(packed, torch.cat([model(text).logits for text in texts], 1))


def test_a_static_cache_equals_none() -> None:
    model = build()
    ids = torch.randint(3, 97, (2, 9))
    cache = StaticCache(config=model.config, max_cache_len=16)
    parts = [model(ids[:, :6], cache=cache).logits, *(model(ids[:, [i]], cache=cache).logits for i in range(6, 9))]
    assert_close(torch.cat(parts, 1), model(ids, use_cache=False).logits)


def test_no_cache_is_returned_where_none_is_wanted() -> None:
    assert build()(torch.randint(3, 97, (1, 3)), use_cache=False).cache is None


def test_logits_to_keep_keeps_the_last() -> None:
    model = build()
    ids = torch.randint(3, 97, (2, 9))
    assert_close(model(ids, logits_to_keep=2).logits, model(ids).logits[:, -2:])


def test_the_loss_is_that_of_the_next_tokens() -> None:
    model = build()
    ids = torch.randint(3, 97, (2, 9))
    outputs = model(ids, labels=ids)
    expected = torch.nn.functional.cross_entropy(outputs.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert_close(outputs.loss, expected)


def test_causal_buckets_are_those_of_a_t5_decoder() -> None:
    sizes = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    attention = T5Model(T5Config(num_layers=1, num_heads=4, d_model=32, d_kv=8, d_ff=8, vocab_size=9, **sizes))
    attention = attention.decoder.block[0].layer[0].SelfAttention
    ours = build(position="bucketed", **sizes).model.position_bias
    ours.table.weight.data.copy_(attention.relative_attention_bias.weight)
    offset = torch.arange(40) - torch.arange(40)[:, None]
    kept = offset <= 0
    assert_close(ours(offset[None], torch.float32)[..., kept], attention.compute_bias(40, 40)[..., kept])


@pytest.mark.parametrize("ids", [torch.ones(1, 9, dtype=torch.long), torch.ones(1, 8, dtype=torch.long)])
def test_more_tokens_than_learned_positions_are_refused(ids: torch.Tensor) -> None:
    model = build(position="learned", max_position_embeddings=8)
    with pytest.raises(ValueError, match="max_position_embeddings=8"):
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=2, pad_token_id=0)


def test_padding_takes_no_learned_position() -> None:
    model = build(position="learned", max_position_embeddings=8)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1, 1]])
    assert torch.isfinite(model(mask + 3, attention_mask=mask).logits).all()


@pytest.mark.parametrize("side", ["left", "right", "ids"])
def test_a_text_is_classified_by_its_last_token(side: str) -> None:
    model = build(DepthDecoderForSequenceClassification, num_labels=3)
    ids, pads = torch.randint(3, 97, (1, 6)), torch.zeros(1, 4, dtype=torch.long)
    order = slice(None, None, -1) if side == "left" else slice(None)
    padded, mask = (torch.cat(pair[order], 1) for pair in ((ids, pads), (torch.ones_like(ids), pads)))
    given = {} if side == "ids" else {"attention_mask": mask}
    assert_close(model(padded, **given).logits, model(ids).logits)


@pytest.mark.parametrize("model_class", HEADS)
def test_saves_and_loads_bit_for_bit(model_class: type, tmp_path: Path) -> None:
    model = build(model_class)
    model.save_pretrained(tmp_path)
    batch = padded_batch()
    assert model_class.from_pretrained(tmp_path)(**batch)[0].equal(model(**batch)[0])


def test_the_auto_class_makes_it() -> None:
    assert type(AutoModelForCausalLM.from_config(DepthDecoderConfig(**TINY))) is DepthDecoderForCausalLM


def test_checkpointing_changes_no_gradient() -> None:
    model = build(position="bucketed").train()
    ids = torch.randint(3, 97, (2, 9))
    grads = []
    for checkpointing in (False, True):
        if checkpointing:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        grads.append([parameter.grad.clone() for parameter in model.parameters()])
    for plain, checkpointed in zip(*grads, strict=True):
        assert_close(checkpointed, plain)


@pytest.mark.parametrize(
    ("name", "billions"), [("gpt2", 0.12444), ("gpt2-xl", 1.5576), ("gpt3-125m", 0.1252), ("gpt3-175b", 174.6)]
)
def test_presets_have_the_published_number_of_parameters(name: str, billions: float) -> None:
    with torch.device("meta"):
        model = DepthDecoderForCausalLM(DepthDecoderConfig.preset(name))
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e9 == pytest.approx(billions, rel=3e-4)


@pytest.mark.parametrize("config_class", [DepthEncoderConfig, DepthDecoderConfig])
def test_every_preset_is_a_config(config_class: type) -> None:
    for name in PRESETS[config_class.model_type]:
        assert config_class.preset(name, num_hidden_layers=2).num_hidden_layers == 2


def test_an_unknown_preset_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"gpt5.*gpt3-175b"):
        DepthDecoderConfig.preset("gpt5")
