"""The objective's loss over a whole dataset, every row once, however many processes share the work."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from hf_depth.errors import DepthError
from hf_depth.training.objective import Objective
from hf_depth.training.randomness import Batch, Batches, Collate

Evaluate = Callable[[nn.Module, Accelerator], Mapping[str, float]]
"""Called by every process with the model, in evaluation mode, without gradients; returns the same metrics on each."""


class DatasetEvaluator:
    """An `Evaluate` that gives the objective's mean loss over a dataset as `loss`, and its parts by their names.

    Counts are summed over the dataset first, so the result does not depend on the batch size. Batches are made as in
    training but always with the same draws, and dealt out to the processes as wholes; those that Accelerate repeats to
    give each process the same number are left out by `gather_for_metrics`.

    Args:
        objective: gives the loss.
        dataset: rows by number, with a length.
        collate: makes a batch of a list of rows.
        batch_size: rows of a batch.
        seed: of what a collator draws.
    """

    def __init__(self, objective: Objective, dataset: Any, collate: Collate, batch_size: int, seed: int = 0) -> None:
        if len(dataset) == 0:
            raise DepthError("The evaluation data is empty; give at least one row")
        self.objective = objective
        self._loader = DataLoader(
            _WholeBatches(Batches(dataset, collate, seed), batch_size), batch_size=1, collate_fn=_only
        )
        self._totals: dict[str, Tensor] = {}

    def __call__(self, model: nn.Module, accelerator: Accelerator) -> dict[str, float]:
        self._loader = accelerator.prepare_data_loader(self._loader)
        if not self._totals:
            self._totals = self._summed(accelerator, self.objective.count)

        def share(batch: Batch) -> dict[str, Tensor]:
            with accelerator.autocast():
                output = self.objective(model, batch, self._totals)
            return {"loss": output.loss, **output.parts}

        return {name: float(value) for name, value in self._summed(accelerator, share).items()}

    def _summed(self, accelerator: Accelerator, measure: Callable[[Batch], dict[str, Tensor]]) -> dict[str, Tensor]:
        """What `measure` says of every batch, summed over the dataset."""
        sums: dict[str, Tensor] = {}
        for batch in self._loader:
            one_each = {name: value.reshape(1) for name, value in measure(batch).items()}
            for name, values in accelerator.gather_for_metrics(one_each).items():
                sums[name] = sums.get(name, 0) + values.sum()
        return sums


class _WholeBatches(Dataset[Batch]):
    """Batches by number, so that a loader's item is a batch."""

    def __init__(self, batches: Batches, batch_size: int) -> None:
        self.batches = batches
        self.batch_size = batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.batches) / self.batch_size)

    def __getitem__(self, number: int) -> Batch:
        first = number * self.batch_size
        return self.batches.__getitems__(range(first, min(first + self.batch_size, len(self.batches))))


def _only(items: list[Batch]) -> Batch:
    return items[0]
