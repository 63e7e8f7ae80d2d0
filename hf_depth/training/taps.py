"""Reads what happens inside a model's forward pass, without changing the model."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from accelerate.utils import extract_model_from_parallel
from torch import Tensor, nn
from transformers import PreTrainedModel

from hf_depth.errors import DepthError
from hf_depth.resize import LayerStack, find_stacks


@dataclass
class Seen:
    """What the last forward pass gave.

    Attributes:
        outputs: of the whole model.
        last_hidden_state: `[batch, seq, hidden]` of the bare model inside it.
        layers: by index, what a layer returned, `[batch, seq, hidden]`; before any norm after the stack.
    """

    outputs: Any = None
    last_hidden_state: Tensor | None = None
    layers: dict[int, Tensor] = field(default_factory=dict)


def unwrap(model: nn.Module) -> PreTrainedModel:
    """The transformers model inside wrappers for several processes, compilation and adapters."""
    model = extract_model_from_parallel(model, keep_fp32_wrapper=True)
    unwrap_adapters = getattr(model, "get_base_model", None)
    return unwrap_adapters() if callable(unwrap_adapters) else model


def only_stack(model: PreTrainedModel) -> LayerStack:
    """The layer stack of a model that has one.

    Raises:
        DepthError: if it has several.
    """
    stacks = find_stacks(model)
    if len(stacks) > 1:
        raise DepthError(
            f"{type(model).__name__} has the stacks {', '.join(stacks)}; models with one stack are distilled"
        )
    return next(iter(stacks.values()))


@contextmanager
def watch(model: nn.Module, layers: Collection[int] = ()) -> Iterator[Seen]:
    """Inside, every forward pass of `model` fills what is yielded; the hooks are gone afterwards, also on an error."""
    inner, seen = unwrap(model), Seen()

    def keep_outputs(module: nn.Module, inputs: Any, outputs: Any) -> None:
        seen.outputs = outputs

    def keep_last(module: nn.Module, inputs: Any, outputs: Any) -> None:
        seen.last_hidden_state = outputs[0]

    def keep_layer(index: int) -> Callable[[nn.Module, Any, Any], None]:
        def keep(module: nn.Module, inputs: Any, outputs: Any) -> None:
            seen.layers[index] = outputs if isinstance(outputs, Tensor) else outputs[0]

        return keep

    with ExitStack() as hooks:
        hooks.callback(inner.register_forward_hook(keep_outputs).remove)
        hooks.callback(inner.base_model.register_forward_hook(keep_last).remove)
        stack = only_stack(inner).layers if layers else nn.ModuleList()
        for index in layers:
            hooks.callback(stack[index].register_forward_hook(keep_layer(index)).remove)
        yield seen
