"""Batches of texts of like length, so that little of a batch is padding."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

from hf_depth.errors import DepthError


class LengthGroupedBatches(Sampler[list[int]]):
    """Lists of rows of similar length, shuffled anew in every epoch and the same whenever an epoch is asked for again.

    Rows are shuffled, cut into pools of `pool` batches, sorted by length within a pool and cut into batches, which
    are shuffled. Rows that do not fill a batch are the last batch, of any length: Accelerate shares batches out over
    processes until it meets a smaller one, and leaves out a part of what would follow.

    Args:
        lengths: tokens of every row.
        batch_size: rows a batch; the last batch of an epoch may be smaller.
        seed: of the shuffle.
        pool: batches that are sorted together; more of them leave less padding and less chance.
        drop_last: leave out the rows that do not fill a batch, other ones in every epoch.

    Raises:
        DepthError: if `batch_size` or `pool` is less than 1.
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, seed: int = 0, pool: int = 50, *, drop_last: bool = False
    ) -> None:
        for name, count in (("batch_size", batch_size), ("pool", pool)):
            if count < 1:
                raise DepthError(f"{name} must be at least 1, got {count}")
        self.lengths = list(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.pool = pool
        self.drop_last = drop_last
        self.epoch = 0

    @property
    def sampler(self) -> "LengthGroupedBatches":
        """Itself: with several processes, Accelerate tells the epoch to the `sampler` of a batch sampler alone."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Say which pass over the data comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        full, rest = divmod(len(self.lengths), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        filled = len(order) - len(order) % self.batch_size
        size = self.batch_size * self.pool
        pools = [
            sorted(order[start : min(start + size, filled)], key=self.lengths.__getitem__)
            for start in range(0, filled, size)
        ]
        batches = [
            pool[start : start + self.batch_size] for pool in pools for start in range(0, len(pool), self.batch_size)
        ]
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[index]
        if order[filled:] and not self.drop_last:
            yield order[filled:]
