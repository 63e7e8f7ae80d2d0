"""Surgery leaves a model of the same class whose layers are the planned copies and whose config is in step."""

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModel,
    BartConfig,
    BartModel,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
)

from hf_depth import DepthEncoderConfig, DepthEncoderForMaskedLM, DepthEncoderModel, DepthError, DepthPlan, resize
from hf_depth.resize import find_stacks
from tests.conftest import TINY, padded_batch, shake

SIX = {**TINY, "num_hidden_layers": 6}
DISTIL = {name: value for name, value in SIX.items() if name != "intermediate_size"}


def models() -> dict[str, torch.nn.Module]:
    built = {
        "family": DepthEncoderForMaskedLM(DepthEncoderConfig(**SIX)),
        "bert": BertForMaskedLM(BertConfig(**SIX)),
        "roberta": RobertaModel(RobertaConfig(**SIX)),
        "distilbert": DistilBertModel(DistilBertConfig(**DISTIL, hidden_dim=64)),
    }
    return {name: shake(model).eval() for name, model in built.items()}


@pytest.mark.parametrize("name", ["family", "bert", "roberta", "distilbert"])
def test_the_result_computes_what_skipping_the_layers_computes(name: str) -> None:
    model = models()[name]
    batch = padded_batch(model.config.pad_token_id)
    resized = resize(model, plan="0,2,5")
    (stack,) = find_stacks(model).values()
    kept = torch.nn.ModuleList(stack.layers[index] for index in (0, 2, 5))
    parent, _, attribute = stack.path.rpartition(".")
    setattr(model.get_submodule(parent), attribute, kept)
    assert resized(**batch)[0].equal(model(**batch)[0])


@pytest.mark.parametrize("name", ["family", "bert", "roberta", "distilbert"])
def test_a_resized_model_reloads_at_its_depth_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = models()[name]
    resized = resize(model, layers=3)
    resized.save_pretrained(tmp_path)
    loaded, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
    batch = padded_batch(model.config.pad_token_id)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert next(iter(find_stacks(loaded).values())).depth == loaded.config.num_hidden_layers == 3
    assert loaded(**batch)[0].equal(resized(**batch)[0])
    assert DepthPlan.from_dict(loaded.config.depth_plan) == DepthPlan.keep({"layers": [0, 2, 4]})


def test_a_stock_model_stays_stock() -> None:
    resized = resize(models()["bert"], layers=2, strategy="last")
    assert type(resized) is BertForMaskedLM
    assert type(resized.config) is BertConfig
    assert not hasattr(resized.config, "auto_map")


def test_weights_are_copies_and_the_source_is_left_alone() -> None:
    model = models()["family"]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    resized = resize(model, plan="1,1,4")
    pointers = [parameter.data_ptr() for parameter in (*model.parameters(), *resized.parameters())]
    assert len(set(pointers)) == len(pointers)
    with torch.no_grad():
        for parameter in resized.parameters():
            parameter.zero_()
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())
    assert model.config.num_hidden_layers == 6


def test_layer_indices_are_renumbered() -> None:
    resized = resize(models()["family"], plan="1,3,5")
    assert [layer.self_attn.layer_idx for layer in resized.model.layers] == [0, 1, 2]


def test_settings_of_single_layers_follow_their_layers() -> None:
    config = DepthEncoderConfig(**SIX, per_layer_config={2: {"intermediate_size": 16}, 3: {"intermediate_size": 8}})
    resized = resize(DepthEncoderModel(config), plan="0,2,+,5,3")
    widths = [layer.mlp.up_proj.out_features for layer in resized.layers]
    assert widths == [64, 16, 64, 64, 8]
    assert [resized.config.layer_config(index).intermediate_size for index in range(5)] == widths


def test_a_fresh_layer_is_initialised_and_the_others_copied() -> None:
    model = models()["bert"]
    resized = resize(model, plan="0,+,5")
    layers = resized.bert.encoder.layer
    assert layers[0].state_dict()["output.dense.weight"].equal(model.bert.encoder.layer[0].output.dense.weight)
    assert layers[2].state_dict()["output.dense.weight"].equal(model.bert.encoder.layer[5].output.dense.weight)
    assert layers[1].output.dense.bias.abs().sum() == 0
    assert layers[1].output.dense.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_depth_can_grow() -> None:
    resized = resize(models()["family"], plan="0-5,5,5")
    assert resized.config.num_hidden_layers == len(resized.model.layers) == 8


def test_dtype_mode_missing_pooler_and_frozen_weights_are_kept() -> None:
    model = BertModel(BertConfig(**SIX), add_pooling_layer=False).to(torch.bfloat16).train()
    model.embeddings.requires_grad_(False)
    model.encoder.layer[4].requires_grad_(False)
    resized = resize(model, plan="0,4")
    assert resized.pooler is None
    assert resized.dtype == torch.bfloat16
    assert resized.training
    assert not resized.embeddings.word_embeddings.weight.requires_grad
    assert [layer.output.dense.weight.requires_grad for layer in resized.encoder.layer] == [True, False]


def test_a_family_model_reloads_through_automodel(tmp_path: Path) -> None:
    resized = resize(DepthEncoderModel(DepthEncoderConfig(**SIX)).eval(), layers=1)
    resized.save_pretrained(tmp_path)
    batch = padded_batch()
    assert AutoModel.from_pretrained(tmp_path)(**batch).pooler_output.equal(resized(**batch).pooler_output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"plan": "0,6"}, r"6.*layers.*0-5"),
        ({"layers": 0}, "0"),
        ({"layers": 7}, "7"),
        ({"layers": -1}, "-1"),
        ({}, "either layers or a plan"),
        ({"layers": 3, "plan": "0"}, "either layers or a plan"),
        ({"plan": ""}, "empty"),
        ({"plan": DepthPlan.keep({"decoder": [0]})}, r"decoder.*layers"),
        ({"layers": {"decoder": 1}}, r"decoder.*layers"),
        ({"layers": 3, "strategy": "luck"}, r"luck.*even"),
        ({"layers": 3, "hidden_size": 128}, r"hidden_size=128"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(DepthError, match=message):
        resize(models()["bert"], **arguments)


def test_a_model_cut_by_hand_is_refused() -> None:
    model = models()["bert"]
    model.bert.encoder.layer = model.bert.encoder.layer[:3]
    with pytest.raises(DepthError, match=r"num_hidden_layers=6.*3 layers"):
        resize(model, layers=2)


def test_what_is_no_transformers_model_is_refused() -> None:
    with pytest.raises(DepthError, match=r"Linear.*unwrap"):
        resize(torch.nn.Linear(2, 2), layers=1)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda: LlamaModel(LlamaConfig(**TINY)), {"layers": ("layers", "num_hidden_layers", 2)}),
        (
            lambda: GPT2Model(GPT2Config(vocab_size=9, n_embd=8, n_layer=3, n_head=2, n_positions=8)),
            {"layers": ("h", "n_layer", 3)},
        ),
        (
            lambda: BartModel(BartConfig(vocab_size=9, d_model=16, encoder_layers=2, decoder_layers=3)),
            {"encoder": ("encoder.layers", "encoder_layers", 2), "decoder": ("decoder.layers", "decoder_layers", 3)},
        ),
        (
            lambda: T5Model(T5Config(vocab_size=9, d_model=8, d_kv=4, num_layers=2, num_decoder_layers=3)),
            {"encoder": ("encoder.block", "num_layers", 2), "decoder": ("decoder.block", "num_decoder_layers", 3)},
        ),
    ],
    ids=["llama", "gpt2", "bart", "t5"],
)
def test_stacks_are_found_in_any_architecture(model: object, expected: dict) -> None:
    found = {name: (stack.path, stack.depth_field, stack.depth) for name, stack in find_stacks(model()).items()}
    assert found == expected
