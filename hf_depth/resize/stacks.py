"""Finds the layer stacks of any transformers model: where they are, and what the config calls their depth."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_depth.errors import DepthError

SINGLE_STACK = "layers"

# What the two depths of an encoder-decoder are called in configs that hold both.
ENCODER_DECODER_FIELDS = {
    "encoder": ("encoder_layers", "num_encoder_layers", "num_layers"),
    "decoder": ("decoder_layers", "num_decoder_layers"),
}

# Settings that are lists with one entry a layer.
PER_LAYER_LISTS = ("layer_types", "mlp_layer_types", "attention_patterns", "attention_layers", "no_rope_layers")


@dataclass(frozen=True)
class LayerStack:
    """One stack of layers in a model.

    Attributes:
        name: `"layers"` for the only stack of a model; `"encoder"` and `"decoder"`, or the path, where there are
            several.
        path: dotted path of the module list, e.g. `"bert.encoder.layer"`.
        layers: the module list itself.
        config_path: attributes that lead from the model's config to the one that holds the depth; empty for the
            config itself.
        depth_field: the field that holds the depth, as it is saved, e.g. `"n_layers"` for DistilBERT.
    """

    name: str
    path: str
    layers: nn.ModuleList
    config_path: tuple[str, ...]
    depth_field: str

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)


def find_stacks(model: PreTrainedModel) -> dict[str, LayerStack]:
    """The layer stacks of a model by name, in the order in which they stand in it.

    A stack is a module list whose every entry is one of transformers' layers (`GradientCheckpointingLayer`).

    Raises:
        DepthError: if the model is none of transformers', has no stack, or its config does not say its depth.
    """
    if not isinstance(model, PreTrainedModel):
        raise DepthError(
            f"A {type(model).__name__} is no transformers model (`PreTrainedModel`); unwrap it first (PEFT: "
            "`merge_and_unload()`, Accelerate: `unwrap_model`)"
        )
    paths = [path for path, module in model.named_modules() if _is_stack(module)]
    paths = [path for path in paths if not any(path.startswith(f"{other}.") for other in paths)]
    if not paths:
        raise DepthError(f"{type(model).__name__} has no stack of transformers layers")
    stacks = [_describe(model, path, is_only=len(paths) == 1) for path in paths]
    return {stack.name: stack for stack in stacks}


def get_nested(settings: Mapping[str, Any], config_path: tuple[str, ...]) -> Any:
    """The part of a config in dict form that `config_path` leads to."""
    for key in config_path:
        settings = settings[key]
    return settings


def _is_stack(module: nn.Module) -> bool:
    return (
        isinstance(module, nn.ModuleList)
        and len(module) > 0
        and all(isinstance(layer, GradientCheckpointingLayer) for layer in module)
    )


def _describe(model: PreTrainedModel, path: str, is_only: bool) -> LayerStack:
    layers = model.get_submodule(path)
    assert isinstance(layers, nn.ModuleList)
    role = next((part for part in path.split(".") if part in ENCODER_DECODER_FIELDS), None)
    config_path = _config_path(model, path)
    config = model.config
    for key in config_path:
        config = getattr(config, key)
    if config.is_encoder_decoder and not config_path and role is not None:
        fields: tuple[str, ...] = ENCODER_DECODER_FIELDS[role]
        name = role
    else:
        fields = ("num_hidden_layers",)
        name = SINGLE_STACK if is_only else role or path
    fields = tuple(config.attribute_map.get(field, field) for field in fields)
    field = next((field for field in fields if getattr(config, field, None) is not None), None)
    if field is None:
        raise DepthError(
            f"{type(config).__name__} does not say how deep {path} is: it has none of {', '.join(fields)}"
        )
    if getattr(config, field) != len(layers):
        raise DepthError(
            f"The config says {field}={getattr(config, field)}, but {path} has {len(layers)} layers: the model was "
            "changed by hand; load it anew and resize that"
        )
    return LayerStack(name, path, layers, config_path, field)


def _config_path(model: PreTrainedModel, path: str) -> tuple[str, ...]:
    """Where the config of the innermost model around `path` stands in the whole model's config."""
    parts = path.split(".")
    owners = [model.get_submodule(".".join(parts[:end])) for end in range(len(parts))]
    owner = next(module for module in reversed(owners) if isinstance(module, PreTrainedModel))
    return _find(model.config, owner.config) or ()


def _find(config: PreTrainedConfig, wanted: PreTrainedConfig) -> tuple[str, ...] | None:
    if config is wanted:
        return ()
    for key in config.sub_configs:
        inner = getattr(config, key, None)
        found = _find(inner, wanted) if isinstance(inner, PreTrainedConfig) else None
        if found is not None:
            return (key, *found)
    return None
