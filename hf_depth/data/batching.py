"""Batches of texts of like length, so that little of a batch is padding."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler


class LengthGroupedBatches(Sampler[list[int]]):
    """Lists of rows of similar length, shuffled anew in every epoch and the same whenever an epoch is asked for again.

    Rows are shuffled, cut into pools of `pool` batches, sorted by length within a pool and cut into batches, which
    are shuffled.

    Args:
        lengths: tokens of every row.
        batch_size: rows a batch; the last batch of an epoch may be smaller.
        seed: of the shuffle.
        pool: batches that are sorted together; more of them leave less padding and less chance.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int = 0, pool: int = 50) -> None:
        self.lengths = list(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.pool = pool
        self.epoch = 0
        self.drop_last = False

    def set_epoch(self, epoch: int) -> None:
        """Say which pass over the data comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        size = self.batch_size * self.pool
        pools = [
            sorted(order[start : start + size], key=self.lengths.__getitem__) for start in range(0, len(order), size)
        ]
        batches = [
            pool[start : start + self.batch_size] for pool in pools for start in range(0, len(pool), self.batch_size)
        ]
        return iter([batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()])
