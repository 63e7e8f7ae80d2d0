"""The surface: public names, registration, state-dict keys."""

import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoModel

import hf_depth
from hf_depth import DepthEncoderConfig, DepthEncoderForMaskedLM
from hf_depth.register import FAMILIES
from tests.conftest import TINY


def test_public_names_are_these() -> None:
    assert sorted(hf_depth.__all__) == [
        "DepthDecoderConfig",
        "DepthDecoderForCausalLM",
        "DepthDecoderForSequenceClassification",
        "DepthDecoderForTokenClassification",
        "DepthDecoderModel",
        "DepthEncoderConfig",
        "DepthEncoderForMaskedLM",
        "DepthEncoderForMultipleChoice",
        "DepthEncoderForPreTraining",
        "DepthEncoderForQuestionAnswering",
        "DepthEncoderForSequenceClassification",
        "DepthEncoderForTokenClassification",
        "DepthEncoderModel",
        "DepthError",
        "DepthPlan",
        "convert",
        "resize",
    ]
    assert all(hasattr(hf_depth, name) for name in hf_depth.__all__)


def test_verbs_stay_functions_after_their_packages_are_imported() -> None:
    import hf_depth.convert.bert
    import hf_depth.resize.stacks

    assert callable(hf_depth.convert)
    assert callable(hf_depth.resize)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="depht"):
        _ = hf_depth.depht


@pytest.mark.parametrize("config_class", FAMILIES)
def test_families_are_registered(config_class: type) -> None:
    config = AutoConfig.for_model(config_class.model_type, **TINY)
    assert type(config) is config_class
    assert type(AutoModel.from_config(config)) is FAMILIES[config_class][AutoModel]


def test_registering_twice_changes_nothing() -> None:
    hf_depth.register_families()
    assert type(AutoConfig.for_model("depth-encoder")) is DepthEncoderConfig


def test_weights_have_the_names_that_tools_look_for() -> None:
    names = set(DepthEncoderForMaskedLM(DepthEncoderConfig(**TINY, is_gated_act=True)).state_dict())
    attention = {f"self_attn.{part}_proj" for part in "qkvo"}
    layer = attention | {f"mlp.{part}_proj" for part in ("up", "gate", "down")} | {"self_attn_norm", "mlp_norm"}
    modules = {f"model.layers.{index}.{part}" for index in range(2) for part in layer}
    modules |= {"model.embed_norm", "head.dense", "head.norm", "lm_head"}
    tables = {"model.embed_tokens.weight", "model.embed_segments.weight"}
    assert names == {f"{module}.{leaf}" for module in modules for leaf in ("weight", "bias")} | tables


def test_python_started_in_a_source_folder_finds_all_parts(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    for name in ("hf_depth", "modeling", "recipes", "hub_cards"):
        (tmp_path / name).symlink_to(root / name)
    names = ["hf_depth.modeling.positions", "hf_depth.recipes.distill", "hf_depth.hub_cards"]
    code = f"import importlib; print([importlib.import_module(name).__file__ for name in {names}])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count(str(tmp_path)) == len(names)
