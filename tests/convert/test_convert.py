"""Converted models give the numbers of the stock ones, whole and padded, and refuse what they cannot say."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertConfig, BertForMaskedLM, BertModel, GPT2Config, GPT2LMHeadModel

from hf_depth import DepthEncoderModel, DepthError, convert
from hf_depth.convert import ARCHITECTURES
from hf_depth.register import auto_class_name
from tests.conftest import TINY, padded_batch, shake

CASES = [(kind, name) for kind, table in ARCHITECTURES.items() for name in table.heads]
VARIANTS = {
    "bert": {},
    "roberta": {"layer_norm_eps": 1e-5, "pad_token_id": 1, "hidden_act": "relu"},
    "distilbert": {"activation": "relu"},
}


def stock(kind: str, name: str, **settings: object) -> torch.nn.Module:
    model_class = getattr(transformers, name)
    sizes = dict(TINY)
    if kind == "distilbert":
        sizes["hidden_dim"] = sizes.pop("intermediate_size")
    labels = {} if "QuestionAnswering" in name else {"num_labels": 3}
    return shake(model_class(model_class.config_class(**{**sizes, **VARIANTS[kind], **labels, **settings}))).eval()


def batch_for(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    batch = padded_batch(model.config.pad_token_id)
    if getattr(model.config, "type_vocab_size", 0) > 1:
        batch["token_type_ids"] = (torch.arange(12).expand(4, -1) > 6).long()
    if "MultipleChoice" in type(model).__name__:
        return {key: tensor.view(2, 2, -1) for key, tensor in batch.items()}
    return batch


def assert_equal_outputs(ours: dict, theirs: dict) -> None:
    for name, expected in theirs.items():
        if torch.is_tensor(expected):
            torch.testing.assert_close(ours[name], expected, atol=1e-5, rtol=0)
    for state, expected in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        torch.testing.assert_close(state, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_numbers_are_those_of_the_stock_model(kind: str, name: str) -> None:
    model = stock(kind, name)
    converted = convert(model)
    batch = batch_for(model)
    assert_equal_outputs(converted(**batch, output_hidden_states=True), model(**batch, output_hidden_states=True))
    assert converted.config.id2label == model.config.id2label


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_numbers_are_those_of_the_stock_model_without_a_mask(kind: str) -> None:
    model = stock(kind, next(iter(ARCHITECTURES[kind].heads)))
    ids = padded_batch(model.config.pad_token_id)["input_ids"]
    torch.testing.assert_close(convert(model)(ids)[0], model(ids)[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_saves_in_the_familys_names_and_loads_bit_for_bit(kind: str, name: str, tmp_path: Path) -> None:
    model = stock(kind, name)
    converted = convert(model)
    converted.save_pretrained(tmp_path)
    auto = getattr(transformers, auto_class_name(type(converted)))
    loaded, info = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert "embed_tokens.weight" in {key.removeprefix("model.") for key in load_file(tmp_path / "model.safetensors")}
    batch = batch_for(model)
    assert all(
        ours.equal(theirs)
        for ours, theirs in zip(loaded(**batch).to_tuple(), converted(**batch).to_tuple(), strict=True)
        if torch.is_tensor(ours)
    )


def test_untied_heads_stay_untied() -> None:
    model = stock("bert", "BertForMaskedLM", tie_word_embeddings=False)
    converted = convert(model)
    assert converted.lm_head.weight is not converted.model.embed_tokens.weight
    assert converted.lm_head.weight.equal(model.cls.predictions.decoder.weight)


def test_weights_are_copied_and_mode_and_dtype_kept() -> None:
    model = stock("bert", "BertModel").to(torch.bfloat16).train()
    converted = convert(model)
    converted.embed_tokens.weight.data.zero_()
    assert model.embeddings.word_embeddings.weight.abs().sum() > 0
    assert converted.training
    assert converted.dtype == torch.bfloat16


def test_a_bare_model_without_a_pooler_converts_and_reloads(tmp_path: Path) -> None:
    model = shake(BertModel(BertConfig(**TINY), add_pooling_layer=False)).eval()
    converted = convert(model)
    converted.save_pretrained(tmp_path)
    _, info = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_real_minilm_weights_give_the_stock_numbers(minilm: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    texts = ["A whale is not a fish.", "Call me Ishmael. Some years ago, never mind how long precisely"]
    theirs = AutoModel.from_pretrained(minilm)
    ours = convert(minilm)
    assert type(ours) is DepthEncoderModel
    for side in ("left", "right"):
        batch = tokenizer(texts, padding=True, padding_side=side, return_tensors="pt")
        assert_equal_outputs(ours(**batch, output_hidden_states=True), theirs(**batch, output_hidden_states=True))


def test_a_path_converts_as_the_class_its_config_names(tmp_path: Path) -> None:
    model = stock("roberta", "RobertaForSequenceClassification")
    model.save_pretrained(tmp_path)
    batch = batch_for(model)
    torch.testing.assert_close(convert(str(tmp_path))(**batch).logits, model(**batch).logits, atol=1e-5, rtol=0)


def save_changed(folder: Path, change: object) -> None:
    """A saved BERT whose weights `change` edits in place."""
    stock("bert", "BertModel").save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("pooler.dense.bias"), r"missing: pooler\.dense\.bias"),
        (lambda weights: weights.update(adapter=torch.ones(1)), "unexpected: adapter"),
        (lambda weights: weights.update({"pooler.dense.bias": torch.ones(5)}), r"pooler\.dense\.bias"),
    ],
    ids=["missing", "unexpected", "misshaped"],
)
def test_weights_that_do_not_fit_are_an_error_that_names_them(change: object, message: str, tmp_path: Path) -> None:
    save_changed(tmp_path, change)
    with pytest.raises(DepthError, match=message):
        convert(tmp_path)


def test_weights_of_another_head_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pretraining = stock("bert", "BertForPreTraining")
    pretraining.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    transformers.utils.logging.enable_propagation()
    converted = convert(tmp_path)
    transformers.utils.logging.disable_propagation()
    assert "cls.seq_relationship.weight" in caplog.text
    batch = batch_for(pretraining)
    torch.testing.assert_close(converted(**batch).logits, pretraining(**batch).prediction_logits, atol=1e-5, rtol=0)


def test_an_unknown_architecture_is_refused_by_name() -> None:
    with pytest.raises(DepthError, match=r"GPT2LMHeadModel.*bert, roberta, distilbert"):
        convert(GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1, n_positions=8)))


def test_a_head_without_a_counterpart_is_refused_by_name() -> None:
    with pytest.raises(DepthError, match=r"BertForNextSentencePrediction.*BertForPreTraining"):
        convert(stock("bert", "BertForNextSentencePrediction"))


def test_a_decoder_setting_is_refused_by_name() -> None:
    with pytest.raises(DepthError, match="is_decoder=True"):
        convert(BertForMaskedLM(BertConfig(**TINY, is_decoder=True)))


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    BertConfig(**TINY, architectures=["BertModel"]).save_pretrained(tmp_path)
    with pytest.raises(DepthError, match=r"cannot be loaded.*model\.safetensors"):
        convert(tmp_path)


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DepthError, match="cannot be loaded"):
        convert(tmp_path / "nothing")


def test_truncated_weights_are_refused(tmp_path: Path) -> None:
    stock("bert", "BertModel").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DepthError, match="cannot be loaded"):
        convert(tmp_path)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    model = stock("bert", "BertModel")
    model.config.architectures = ["BertModel"]
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(DepthError, match=r"model\.safetensors"):
        convert(tmp_path)


def test_a_family_model_is_copied_as_it_is(tmp_path: Path) -> None:
    converted = convert(stock("bert", "BertModel"))
    converted.save_pretrained(tmp_path)
    batch = batch_for(converted)
    for again in (convert(converted), convert(tmp_path)):
        assert again is not converted
        assert again(**batch)[0].equal(converted(**batch)[0])
