"""Counts parameters."""

from torch import nn


def count_parameters(model: nn.Module) -> int:
    """Number of parameters of a model, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
