"""Dropout for the time of a training run, whatever the config says."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def dropout_set_to(model: nn.Module, probability: float) -> Iterator[None]:
    """Inside, every dropout of the model has this probability; afterwards each has its own again.

    A student that copies a teacher fits fewer steps better without dropout: its targets are no labels to be
    overfitted.
    """
    layers: list[tuple[nn.Module, str]] = []
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            layers.append((module, "p"))
        elif isinstance(getattr(module, "attention_dropout", None), float | int):
            layers.append((module, "attention_dropout"))
    before = [getattr(module, name) for module, name in layers]
    for module, name in layers:
        setattr(module, name, probability)
    try:
        yield
    finally:
        for (module, name), value in zip(layers, before, strict=True):
            setattr(module, name, value)
