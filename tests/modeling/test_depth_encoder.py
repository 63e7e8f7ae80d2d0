"""The encoder family: padding, positions, attention implementations, saving, training."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, BertConfig, BertModel

from hf_depth import (
    DepthEncoderConfig,
    DepthEncoderForMaskedLM,
    DepthEncoderForMultipleChoice,
    DepthEncoderForSequenceClassification,
    DepthEncoderModel,
)
from tests.conftest import TINY, padded_batch, shake
from tests.training.heads import HEADS

POSITIONS = ["none", "learned", "sinusoidal", "sinusoidal_mixed", "rotary", "alibi", "bucketed"]
MODERN = {"norm": "rmsnorm", "norm_position": "pre", "is_gated_act": True, "num_key_value_heads": 2, "norm_eps": 1e-6}


def build(model_class: type = DepthEncoderModel, **settings: object) -> torch.nn.Module:
    return shake(model_class(DepthEncoderConfig(**{**TINY, **settings}))).eval()


def inputs_for(model_class: type, batch: dict) -> dict:
    if model_class is DepthEncoderForMultipleChoice:
        return {name: tensor.view(2, 2, -1) for name, tensor in batch.items()}
    return batch


def tensors(outputs: dict) -> list[torch.Tensor]:
    return [value for value in outputs.to_tuple() if torch.is_tensor(value)]


@pytest.mark.parametrize("settings", [{}, MODERN], ids=["post-layernorm", "pre-rmsnorm-gated-grouped"])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pooling", ["first_token", "mean"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(position: str, settings: dict, pooling: str, side: str) -> None:
    model = build(position=position, pooling=pooling, **settings)
    ids = torch.randint(3, 97, (1, 6))
    pads = torch.zeros(1, 4, dtype=torch.long)
    mask = torch.ones_like(ids)
    order = (lambda *pair: torch.cat(pair[::-1], 1)) if side == "left" else (lambda *pair: torch.cat(pair, 1))
    padded = model(order(ids, pads), attention_mask=order(mask, pads))
    alone = model(ids)
    real = padded.last_hidden_state[:, -6:] if side == "left" else padded.last_hidden_state[:, :6]
    torch.testing.assert_close(real, alone.last_hidden_state, atol=1e-5, rtol=0)
    torch.testing.assert_close(padded.pooler_output, alone.pooler_output, atol=1e-5, rtol=0)


@pytest.mark.parametrize("model_class", HEADS)
def test_padding_columns_change_no_head(model_class: type) -> None:
    model = build(model_class)
    batch = inputs_for(model_class, padded_batch())
    wider = {name: torch.nn.functional.pad(tensor, (0, 3)) for name, tensor in batch.items()}
    for narrow, wide in zip(tensors(model(**batch)), tensors(model(**wider)), strict=True):
        real = wide if wide.shape == narrow.shape else wide[:, :-3]
        torch.testing.assert_close(real, narrow, atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", [{}, MODERN], ids=["post", "pre"])
@pytest.mark.parametrize("position", POSITIONS)
def test_sdpa_equals_eager(position: str, settings: dict) -> None:
    model = build(position=position, **settings)
    batch = padded_batch()
    sdpa = model(**batch).last_hidden_state
    model.set_attn_implementation("eager")
    torch.testing.assert_close(model(**batch).last_hidden_state, sdpa, atol=1e-5, rtol=0)


@pytest.mark.heavy
@pytest.mark.parametrize("position", ["rotary", "alibi", "bucketed"])
def test_flex_equals_eager(position: str) -> None:
    model = build(position=position, num_attention_heads=2, head_dim=16)
    batch = padded_batch()
    kept = batch["attention_mask"] == 1
    with torch.no_grad():
        model.set_attn_implementation("flex_attention")
        flex = model(**batch).last_hidden_state
        model.set_attn_implementation("eager")
        torch.testing.assert_close(model(**batch).last_hidden_state[kept], flex[kept], atol=1e-5, rtol=0)


@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position", ["rotary", "alibi", "bucketed"])
def test_a_text_of_padding_alone_gives_no_nan(position: str, dtype: torch.dtype, attn_implementation: str) -> None:
    model = build(position=position).to(dtype)
    model.set_attn_implementation(attn_implementation)
    batch = padded_batch()
    batch["attention_mask"][2] = 0
    assert torch.isfinite(model(**batch).last_hidden_state).all()


@pytest.mark.parametrize("layers", [1, 96])
def test_depth_is_a_setting(layers: int) -> None:
    model = build(num_hidden_layers=layers, hidden_size=8, intermediate_size=8)
    outputs = model(torch.randint(3, 97, (1, 5)), output_hidden_states=True)
    assert len(model.layers) == layers
    assert len(outputs.hidden_states) == layers + 1
    assert torch.isfinite(outputs.last_hidden_state).all()


def test_layers_can_differ() -> None:
    model = build(per_layer_config={1: {"intermediate_size": 16, "is_gated_act": True, "num_key_value_heads": 1}})
    assert [layer.mlp.up_proj.out_features for layer in model.layers] == [64, 16]
    assert [layer.self_attn.k_proj.out_features for layer in model.layers] == [32, 8]
    assert torch.isfinite(model(**padded_batch()).last_hidden_state).all()


def test_sinusoids_are_those_of_the_paper() -> None:
    model = build(position="sinusoidal")
    table = model.embed_positions(torch.tensor([[0, 1, 7]]), torch.float32)[0]
    for row, position in enumerate([0, 1, 7]):
        for pair in (0, 3, 15):
            angle = torch.tensor(position / 10000 ** (2 * pair / 32))
            torch.testing.assert_close(table[row, 2 * pair], angle.sin())
            torch.testing.assert_close(table[row, 2 * pair + 1], angle.cos())


def test_mixed_sinusoids_are_a_softmax_of_mixed_sinusoids() -> None:
    model = build(position="sinusoidal_mixed")
    ids = torch.arange(5)[None]
    plain = super(type(model.embed_positions), model.embed_positions).forward(ids, torch.float32)
    expected = (plain @ model.embed_positions.mix.weight.T).softmax(-1)
    torch.testing.assert_close(model.embed_positions(ids, torch.float32), expected)


@pytest.mark.parametrize(("heads", "slopes"), [(8, [2.0**-n for n in range(1, 9)]), (3, [2**-4, 2**-8, 2**-2])])
def test_alibi_slopes_are_those_of_the_paper(heads: int, slopes: list[float]) -> None:
    model = build(position="alibi", hidden_size=24, num_attention_heads=heads)
    assert model.position_bias.slopes == pytest.approx(slopes)
    bias = model.position_bias((torch.arange(4) - torch.arange(4)[:, None])[None], torch.float32)
    torch.testing.assert_close(bias[0, 0, 0], -slopes[0] * torch.tensor([0.0, 1, 2, 3]))
    torch.testing.assert_close(bias, bias.transpose(-1, -2))


def test_buckets_are_those_of_t5() -> None:
    from transformers import T5Config, T5EncoderModel

    t5 = T5EncoderModel(T5Config(vocab_size=9, d_model=32, d_kv=8, d_ff=8, num_layers=1, num_heads=4))
    theirs = t5.encoder.block[0].layer[0].SelfAttention
    ours = build(position="bucketed").position_bias
    ours.table.weight.data.copy_(theirs.relative_attention_bias.weight)
    offset = torch.arange(300) - torch.arange(300)[:, None]
    assert ours(offset[None], torch.float32).equal(theirs.compute_bias(300, 300))


def test_rotary_turns_the_share_of_a_head_that_is_asked_for() -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    assert build(rope_parameters=rope).rotary_emb.inv_freq.shape == (2,)
    assert build(head_dim=3).rotary_emb.inv_freq.shape == (1,)


def test_a_text_longer_than_the_learned_table_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"65 tokens.*max_position_embeddings=64.*truncat"):
        build(position="learned")(torch.randint(3, 97, (1, 65)))


def test_segments_for_a_model_without_them_are_refused() -> None:
    with pytest.raises(ValueError, match="type_vocab_size=0"):
        build(type_vocab_size=0)(
            torch.ones(1, 3, dtype=torch.long), token_type_ids=torch.zeros(1, 3, dtype=torch.long)
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("position", POSITIONS)
def test_saving_and_loading_is_stable(position: str, tied: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    model = build(DepthEncoderForMaskedLM, position=position, tie_word_embeddings=tied, num_hidden_layers=3).to(dtype)
    model.save_pretrained(tmp_path / "first")
    loaded, info = AutoModelForMaskedLM.from_pretrained(tmp_path / "first", output_loading_info=True)
    loaded.save_pretrained(tmp_path / "second")
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second"))
    assert first == second
    assert (tmp_path / "first/config.json").read_text() == (tmp_path / "second/config.json").read_text()
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert len(loaded.model.layers) == 3
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    buffers = dict(loaded.named_buffers())
    assert all(
        buffer.equal(buffers[name])
        for name, buffer in build(DepthEncoderForMaskedLM, position=position).named_buffers()
    )
    batch = padded_batch()
    assert loaded(**batch).logits.equal(model(**batch).logits)


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("position", POSITIONS)
def test_activation_checkpointing_gives_the_same_gradients(position: str, use_reentrant: bool) -> None:
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        model = build(DepthEncoderForMaskedLM, position=position, hidden_dropout_prob=0.0).train()
        model.set_attn_implementation("eager")
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": use_reentrant})
        batch = padded_batch()
        model(**batch, labels=batch["input_ids"]).loss.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, plain in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], plain, atol=1e-6, rtol=1e-5)


def test_counts_equal_those_of_bert_at_every_depth() -> None:
    for layers in (1, 2, 4):
        ours = DepthEncoderModel(DepthEncoderConfig(position="learned", num_hidden_layers=layers, hidden_size=36))
        theirs = BertModel(BertConfig(num_hidden_layers=layers, hidden_size=36))
        assert ours.num_parameters() == theirs.num_parameters()


def test_automodel_takes_the_encoder_out_of_a_head(tmp_path: Path) -> None:
    model = build(DepthEncoderForSequenceClassification)
    model.save_pretrained(tmp_path)
    batch = padded_batch()
    loaded = AutoModel.from_pretrained(tmp_path)
    assert loaded(**batch).pooler_output.equal(model.model(**batch).pooler_output)
