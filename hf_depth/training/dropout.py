"""Dropout for a training run, whatever the config says."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

# What attention modules call the dropout of their weights, a number or a module; the first that one has is meant.
ATTENTION_DROPOUTS = ("attention_dropout", "attn_dropout", "dropout")

# A module and the name of its attribute that is a probability.
Place = tuple[nn.Module, str]


@contextmanager
def dropout_set_to(model: nn.Module, probability: float) -> Iterator[None]:
    """Inside, every dropout of the model has this probability; afterwards each has its own again.

    A student that copies a teacher fits fewer steps better without dropout: its targets are no labels to be
    overfitted.
    """
    everywhere: list[Place] = [(module, "p") for module in model.modules() if isinstance(module, nn.Dropout)]
    places = list(dict.fromkeys(everywhere + _attention_dropouts(model)))
    before = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, probability)
    try:
        yield
    finally:
        for (module, name), value in zip(places, before, strict=True):
            setattr(module, name, value)


def turn_off_attention_dropout(model: nn.Module) -> float:
    """Set the dropout of attention weights to 0 for good, since checkpointed layers run again in the backward pass.

    Returns:
        The highest probability there was.
    """
    places = _attention_dropouts(model)
    highest = max((getattr(module, name) for module, name in places), default=0.0)
    for module, name in places:
        setattr(module, name, 0.0)
    return highest


def _attention_dropouts(model: nn.Module) -> list[Place]:
    """Where the modules that compute attention keep the dropout of their weights."""
    places: list[Place] = []
    attentions = [module for module in model.modules() if "Attention" in type(module).__name__]
    for module in attentions:
        if any(other in attentions for other in module.modules() if other is not module):
            continue  # a shell around the one that computes the weights
        name = next((name for name in ATTENTION_DROPOUTS if hasattr(module, name)), None)
        dropout = getattr(module, name) if name else None
        if isinstance(dropout, nn.Dropout):
            places.append((dropout, "p"))
        elif name and isinstance(dropout, float | int):
            places.append((module, name))
    return places
