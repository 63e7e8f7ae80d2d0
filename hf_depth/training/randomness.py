"""Randomness that is a function of where a run is, not of what happened before, so that a resumed run draws the same.

Batches are made ahead of their use, and in worker processes, so the state of a generator says nothing about the batch
at hand.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

# First numbers of keys, so that no two uses of a seed share draws.
DATA, STEP = 1, 2

Batch = Mapping[str, Tensor]
Collate = Callable[[list[Any]], Batch]


def derive_seed(*key: int) -> int:
    """A seed of 32 bits for a key of non-negative numbers; other keys give unrelated seeds."""
    return int(np.random.SeedSequence(key).generate_state(1)[0])


@contextmanager
def seeded(*key: int) -> Iterator[None]:
    """Inside, Python's, NumPy's and PyTorch's CPU generators start from `key`; after it they go on as before."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    seed = derive_seed(*key)
    random.seed(seed)
    np.random.seed(seed)
    torch.random.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


class Batches(Dataset[Batch]):
    """A dataset whose rows are fetched and collated together, with the randomness of (seed, epoch, first row).

    To be read by a `DataLoader` with `collate_fn=as_is`. What the dataset's transforms and the collator draw from the
    global generators is the same whenever the batch is made, by whichever worker; a generator of the collator's own is
    beyond reach.

    Args:
        dataset: rows with a length, by number.
        collate: makes a batch of a list of rows.
        seed: of the run.
    """

    def __init__(self, dataset: Any, collate: Collate, seed: int) -> None:
        self.dataset = dataset
        self.collate = collate
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which pass over the data comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Batch:
        return self.__getitems__([row])

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        with seeded(DATA, self.seed, self.epoch, rows[0]):
            if hasattr(self.dataset, "__getitems__"):
                return self.collate(self.dataset.__getitems__(list(rows)))
            return self.collate([self.dataset[row] for row in rows])


def as_is(batch: Any) -> Any:
    """The batch that `Batches` made; workers need a function with a name."""
    return batch
