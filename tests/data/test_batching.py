"""Length-grouped batches hold every row once, are repeatable, and pad little."""

from hypothesis import given
from hypothesis import strategies as st

from hf_depth.data import LengthGroupedBatches


@given(st.lists(st.integers(1, 64), min_size=1, max_size=200), st.integers(1, 9), st.integers(0, 3))
def test_every_row_stands_in_one_batch(lengths: list[int], batch_size: int, epoch: int) -> None:
    batches = LengthGroupedBatches(lengths, batch_size, pool=4)
    batches.set_epoch(epoch)
    drawn = list(batches)
    assert sorted(row for batch in drawn for row in batch) == list(range(len(lengths)))
    assert len(drawn) == len(batches)
    assert drawn == list(batches)


def test_epochs_and_seeds_differ() -> None:
    batches = LengthGroupedBatches(range(1, 101), 10)
    first = list(batches)
    batches.set_epoch(1)
    assert list(batches) != first
    assert list(LengthGroupedBatches(range(1, 101), 10, seed=1)) != first


def test_little_is_padding() -> None:
    lengths = [(7 * row) % 60 + 1 for row in range(600)]
    padded = sum(max(lengths[row] for row in batch) * len(batch) for batch in LengthGroupedBatches(lengths, 10))
    assert padded < 1.2 * sum(lengths)
