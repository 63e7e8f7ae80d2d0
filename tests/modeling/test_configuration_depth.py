"""The config takes what a model can be built from, and refuses the rest by the names of the fields."""

import pytest
from huggingface_hub.errors import StrictDataclassError

from hf_depth import DepthEncoderConfig


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_hidden_layers": 0}, ["num_hidden_layers"]),
        ({"hidden_size": "32"}, ["hidden_size"]),
        ({"norm": "batchnorm"}, ["norm"]),
        ({"num_attention_heads": 7}, ["hidden_size", "num_attention_heads", "head_dim"]),
        ({"num_key_value_heads": 5}, ["num_attention_heads", "num_key_value_heads"]),
        ({"num_key_value_heads": 0}, ["num_key_value_heads"]),
        ({"hidden_act": "gulp"}, ["hidden_act"]),
        ({"pooler_act": "gulp"}, ["pooler_act"]),
        ({"position": "learned", "rope_parameters": {"rope_type": "default"}}, ["rope_parameters", "position"]),
        ({"position": "rotary", "head_dim": 1}, ["position", "head_dim"]),
        ({"position": "learned", "rope_theta": 5e5}, ["rope_theta", "position"]),
        ({"position": "learned", "head_dim": 0}, ["head_dim"]),
        ({"norm_eps": -1.0}, ["norm_eps"]),
        ({"classifier_dropout": 2.0}, ["classifier_dropout"]),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 2.0}},
            ["rope_parameters", "head_dim"],
        ),
        (
            {"head_dim": 3, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            ["rope_type", "head_dim"],
        ),
        ({"position": "sinusoidal", "hidden_size": 33, "num_attention_heads": 3}, ["position", "hidden_size"]),
        ({"position": "alibi", "position_offset": 2}, ["position_offset", "position"]),
        ({"position": "learned", "positions_from": "pad_token"}, ["positions_from", "position_offset"]),
        ({"positions_from": "pad_token", "pad_token_id": None}, ["positions_from", "pad_token_id"]),
        ({"relative_attention_num_buckets": 32}, ["relative_attention_num_buckets", "position"]),
        ({"position": "bucketed", "relative_attention_num_buckets": 6}, ["relative_attention_num_buckets"]),
        ({"position": "bucketed", "relative_attention_max_distance": 9}, ["relative_attention_max_distance"]),
        ({"vocab_size": 5, "pad_token_id": 5}, ["pad_token_id", "vocab_size"]),
        ({"per_layer_config": {1: {"hidden_size": 64}}}, ["per_layer_config", "hidden_size"]),
        ({"per_layer_config": {1: {"hidden_act": "gulp"}}}, ["hidden_act"]),
        ({"per_layer_config": {1: {"num_key_value_heads": 5}}}, ["num_key_value_heads"]),
    ],
)
def test_refuses_what_no_model_can_be_built_from(settings: dict, named: list[str]) -> None:
    with pytest.raises((StrictDataclassError, ValueError)) as caught:
        DepthEncoderConfig(**settings)
    assert all(name in str(caught.value) for name in named)


def test_rotary_settings_are_filled_in_for_rotary_positions_alone() -> None:
    assert DepthEncoderConfig(position="rotary").rope_parameters["rope_type"] == "default"
    assert DepthEncoderConfig(position="learned").rope_parameters is None


def test_every_field_is_documented() -> None:
    from hf_depth.modeling.configuration_depth import DepthStackConfig

    for config_class in (DepthStackConfig, DepthEncoderConfig):
        undocumented = [name for name in config_class.__annotations__ if f"{name} (`" not in config_class.__doc__]
        assert undocumented == []
