"""Applies a depth plan: a new model of the same class whose layers are copies of the planned ones."""

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from hf_depth.checkpoint import build_model
from hf_depth.errors import DepthError
from hf_depth.plan import DepthPlan
from hf_depth.resize.stacks import PER_LAYER_LISTS, LayerStack, find_stacks, get_nested

logger = logging.get_logger(__name__)
ModelT = TypeVar("ModelT", bound=PreTrainedModel)


def resize(
    model: ModelT,
    layers: int | Mapping[str, int] | None = None,
    strategy: str = "even",
    *,
    plan: DepthPlan | str | None = None,
    **widths: Any,
) -> ModelT:
    """A model of another depth.

    Args:
        model: any transformers model; it is left as it is.
        layers: the depth wanted, or one a stack; stacks that are not named keep theirs.
        strategy: how `layers` are chosen, a key of `DepthPlan.STRATEGIES`.
        plan: the layers themselves, instead of `layers`.
        widths: not taken; there to say so.

    Returns:
        A new model of the same class, dtype and device. Layers are copies, also where the plan names one twice, and
        fresh ones are initialised as the model's class does; indices, `num_hidden_layers` and all per-layer settings
        are those of the new depth, and `config.depth_plan` holds the plan.

    Raises:
        DepthError: if the plan does not fit the model, or something other than a depth is to be changed.
    """
    if widths:
        raise DepthError(
            f"resize changes depth alone, and was given "
            f"{', '.join(f'{name}={value!r}' for name, value in widths.items())}: "
            "a width cannot change without losing the weights"
        )
    stacks = find_stacks(model)
    resolved = _make_plan(layers, strategy, plan, stacks).resolve(
        {name: stack.depth for name, stack in stacks.items()}
    )
    names = _source_names(model, resolved, stacks)
    state_dict = model.state_dict()
    resized = build_model(
        type(model),
        _resize_config(model.config, resolved, stacks),
        {name: state_dict[source] for name, source in names.items()},
        fresh=tuple(
            f"{stacks[stack].path}.{index}." for stack, index, source in resolved.describe() if source is None
        ),
        like=model,
        **_init_kwargs(model),
    )
    trainable = {name: parameter.requires_grad for name, parameter in model.named_parameters(remove_duplicate=False)}
    for name, parameter in resized.named_parameters():
        parameter.requires_grad_(trainable[names[name]] if name in names else True)
    if model.can_generate():
        resized.generation_config = copy.deepcopy(model.generation_config)
    logger.info(f"{type(model).__name__} resized by the plan {resolved}")
    return resized


def _make_plan(
    layers: int | Mapping[str, int] | None,
    strategy: str,
    plan: DepthPlan | str | None,
    stacks: Mapping[str, LayerStack],
) -> DepthPlan:
    if (layers is None) == (plan is None):
        raise DepthError(f"Give either layers or a plan, got layers={layers!r} and plan={plan!r}")
    if plan is not None:
        return DepthPlan.parse(plan) if isinstance(plan, str) else plan
    assert layers is not None
    if strategy not in DepthPlan.STRATEGIES:
        raise DepthError(f"strategy={strategy!r} is unknown; known are {', '.join(DepthPlan.STRATEGIES)}")
    if not isinstance(layers, Mapping):
        if len(stacks) > 1:
            raise DepthError(
                f"layers={layers} could mean any of the stacks {', '.join(stacks)}; name them, "
                f"layers={{'{next(iter(stacks))}': "
                f"{layers}}}"
            )
        layers = dict.fromkeys(stacks, layers)
    unknown = sorted(set(layers) - set(stacks))
    if unknown:
        raise DepthError(f"The model has no stack {', '.join(unknown)}; it has {', '.join(stacks)}")
    choose = DepthPlan.STRATEGIES[strategy]
    return DepthPlan.keep({name: choose(stacks[name].depth, depth) for name, depth in layers.items()})


def _source_names(model: PreTrainedModel, plan: DepthPlan, stacks: Mapping[str, LayerStack]) -> dict[str, str]:
    """For every weight of the new model that is copied, the name it has in the old one."""
    prefixes = tuple(f"{stack.path}." for stack in stacks.values())
    state: Mapping[str, Tensor] = model.state_dict()
    names = {name: name for name in state if not name.startswith(prefixes)}
    for stack_name, index, source in plan.describe():
        old, new = (f"{stacks[stack_name].path}.{number}." for number in (source, index))
        names |= {new + name.removeprefix(old): name for name in state if name.startswith(old)}
    return names


def _resize_config(config: PreTrainedConfig, plan: DepthPlan, stacks: Mapping[str, LayerStack]) -> PreTrainedConfig:
    settings = config.to_dict()
    for name, sources in plan.stacks.items():
        stack = stacks[name]
        part = get_nested(settings, stack.config_path)
        part[stack.depth_field] = len(sources)
        for field in PER_LAYER_LISTS:
            values = part.get(field)
            if isinstance(values, list) and len(values) == stack.depth:
                part[field] = [values[source] for source in _fill(sources)]
        if changes := part.get("per_layer_config"):
            by_layer = {int(index): change for index, change in changes.items()}
            part["per_layer_config"] = {
                index: by_layer[source] for index, source in enumerate(sources) if source in by_layer
            }
    settings["depth_plan"] = plan.to_dict()
    return type(config).from_dict(settings)


def _fill(sources: Sequence[int | None]) -> list[int]:
    """Sources with none missing: a fresh layer has that of the layer below it, or else the first one there is."""
    known = next((source for source in sources if source is not None), 0)
    filled = []
    for source in sources:
        known = known if source is None else source
        filled.append(known)
    return filled


def _init_kwargs(model: PreTrainedModel) -> dict[str, Any]:
    """Arguments of the model's class that its config does not record."""
    takes = inspect.signature(type(model).__init__).parameters
    return {"add_pooling_layer": model.pooler is not None} if "add_pooling_layer" in takes else {}
