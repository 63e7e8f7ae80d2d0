"""What a training driver needs of a method: how many items a batch holds, and the loss of a batch given all items.

A driver (the Accelerate engine, `Trainer`) splits a batch into micro-batches and over processes. The loss of the whole is
the same only if every micro-batch divides by the items of the whole, so a method says what it counts and is told the totals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor, nn


@dataclass
class ObjectiveOutput:
    """A micro-batch's share of the loss.

    Attributes:
        loss: scalar, differentiable; the shares of all micro-batches add up to the loss of the whole batch.
        parts: named terms of the loss, detached scalars that add up over micro-batches in the same way.
    """

    loss: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)


class Objective(Protocol):
    """A training method as drivers see it: a small object over (model, batch)."""

    def count(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Scalar counts of the items that this micro-batch's loss terms average over, by name."""
        ...

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor], totals: Mapping[str, Tensor]) -> ObjectiveOutput:
        """The micro-batch's share of the loss, given the counts summed over the accumulation window and all processes."""
        ...
