"""Strict loading and building of models: each weight has a place and each place a weight, or an error lists them."""

import copy
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_MAPPING
from transformers.utils import logging

from hf_depth.errors import DepthError
from hf_depth.register import FAMILIES

logger = logging.get_logger(__name__)
NAMES_SHOWN = 12
ModelT = TypeVar("ModelT", bound=PreTrainedModel)


def list_names(names: Iterable[str]) -> str:
    """`names` in order of layer number, the first dozen written out."""

    def natural(name: str) -> list[str | int]:
        return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]

    ordered = sorted(names, key=natural)
    more = f", and {len(ordered) - NAMES_SHOWN} more" if len(ordered) > NAMES_SHOWN else ""
    return ", ".join(ordered[:NAMES_SHOWN]) + more


def _list_problems(missing: Iterable[str], unexpected: Iterable[str], misshaped: Iterable[str]) -> str:
    """Weights that do not fit, by kind; empty where all do."""
    problems = {"missing": missing, "unexpected": unexpected, "of another shape": misshaped}
    return "; ".join(f"{kind}: {list_names(names)}" for kind, names in problems.items() if names)


def build_model(
    model_class: type[ModelT],
    config: PreTrainedConfig,
    state_dict: Mapping[str, Tensor],
    *,
    fresh: tuple[str, ...] = (),
    like: PreTrainedModel,
    **init_kwargs: Any,
) -> ModelT:
    """A `model_class` with copies of the given weights.

    Args:
        model_class: class of the model.
        config: its config; it becomes the model's own.
        state_dict: weights by the names they have in the new model.
        fresh: beginnings of names that are initialised instead of given.
        like: model whose dtype, device, mode and attention implementation the new one takes over.
        init_kwargs: further arguments of `model_class`.

    Raises:
        DepthError: if a weight is missing, has no place, or has another shape; lists the names.
    """
    with torch.device("meta"):
        places = model_class(copy.deepcopy(config), **init_kwargs).state_dict()
    missing = {name for name in places.keys() - state_dict.keys() if not name.startswith(fresh)}
    unexpected = state_dict.keys() - places.keys()
    misshaped = [
        f"{name} {tuple(tensor.shape)} instead of {tuple(places[name].shape)}"
        for name, tensor in state_dict.items()
        if name in places and tensor.shape != places[name].shape
    ]
    if found := _list_problems(missing, unexpected, misshaped):
        raise DepthError(f"The weights do not fit a {model_class.__name__} of this config ({found})")

    model = model_class.from_pretrained(
        None,
        config=config,
        state_dict={name: tensor.detach().clone() for name, tensor in state_dict.items()},
        dtype=like.dtype,
        attn_implementation=like.config._attn_implementation,
        **init_kwargs,
    )
    model.config.name_or_path = like.config.name_or_path
    return model.to(like.device).train(like.training)


def load_checkpoint(path: str | Path, kinds: Mapping[str, str] | None = None) -> PreTrainedModel:
    """The model that a folder or Hub repository holds, of the class that its config names, from safetensors alone.

    Args:
        path: folder or Hub id.
        kinds: the model types that are taken, each with a pattern of weights that may lie in a checkpoint without
            being used, such as another head's, and are named in a warning; `None` takes every type, and no such
            weights.

    Raises:
        DepthError: if there is no such model, its class is unknown, or weights are missing, unused or broken.
    """
    if Path(path).is_file():
        raise DepthError(f"{path} is a file; name the folder that holds config.json and model.safetensors")
    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        if kinds is not None and config.model_type not in kinds:
            raise DepthError(
                f"{path} holds a model of type {config.model_type!r}, which cannot be converted; convertible are "
                f"{', '.join(kinds)}"
            )
        model_class = _class_of(config)
        model, info = model_class.from_pretrained(
            path,
            config=config,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they are listed below, with all others
            use_safetensors=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError, StrictDataclassError) as error:
        if isinstance(error, DepthError):
            raise
        raise DepthError(f"{path} cannot be loaded as a model: {_first_sentence(error)}") from error

    allowed = (kinds or {}).get(config.model_type)
    unused = {name for name in info["unexpected_keys"] if not (allowed and re.search(allowed, name))}
    misshaped = [str(key[0]) for key in info["mismatched_keys"]]
    if found := _list_problems(info["missing_keys"], unused, misshaped):
        raise DepthError(
            f"{path} does not hold a whole {model_class.__name__}, as its config says ({found}); load it yourself "
            "with the class that fits and pass the model instead of the path"
        )
    if left := info["unexpected_keys"]:
        logger.warning(
            f"{path}: {model_class.__name__} has no use for these weights, so they are left out: {list_names(left)}"
        )
    return model


def _class_of(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The model class that a config names; the bare model where it names none."""
    if not config.architectures:
        if type(config) not in MODEL_MAPPING:
            raise DepthError(f"A {type(config).__name__} names no class of model, and transformers has none for it")
        return MODEL_MAPPING[type(config)]
    name = config.architectures[0]
    family = {model_class.__name__: model_class for heads in FAMILIES.values() for model_class in heads.values()}
    if name in family:
        return family[name]
    if name in dir(transformers):
        return getattr(transformers, name)
    raise DepthError(
        f"The config names the class {name}, which neither transformers nor hf-depth has; load the model yourself and "
        "pass it instead of the path"
    )


def _first_sentence(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, StrictDataclassError) and error.__cause__ else error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerBase | None:
    """The tokenizer beside a model, or `None`, with a warning that says why, where none can be loaded."""
    try:
        return AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        logger.warning(f"{path} has no tokenizer that can be loaded: {_first_sentence(error)}")
        return None


def require_tokenizer(path: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model.

    Raises:
        DepthError: if there is none.
    """
    tokenizer = load_tokenizer(path)
    if tokenizer is None:
        raise DepthError(f"{path} has no tokenizer; save one beside the model")
    return tokenizer
