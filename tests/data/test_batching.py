"""Length-grouped batches hold every row once, are repeatable, and pad little."""

import pytest
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from hf_depth import DepthError
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


@given(st.integers(0, 60), st.integers(1, 9), st.integers(0, 3))
def test_only_the_last_batch_is_smaller_and_can_be_dropped(rows: int, batch_size: int, epoch: int) -> None:
    whole, dropped = (
        LengthGroupedBatches([1 + row % 7 for row in range(rows)], batch_size, pool=2, drop_last=drop_last)
        for drop_last in (False, True)
    )
    for batches in (whole, dropped):
        batches.set_epoch(epoch)
        assert len(list(batches)) == len(batches)
    assert all(len(batch) == batch_size for batch in list(whole)[: rows // batch_size])
    assert list(dropped) == list(whole)[: rows // batch_size]


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_accelerate_shares_out_every_row_and_goes_on_to_the_next_epoch(processes: int, seed: int) -> None:
    epochs: list[list[int]] = [[], []]
    for process in range(processes):
        loader = DataLoader(range(101), batch_sampler=LengthGroupedBatches(range(1, 102), 4, seed))
        prepared = prepare_data_loader(
            loader, num_processes=processes, process_index=process, put_on_device=False, dispatch_batches=False
        )
        for rows in epochs:
            batches = [batch.tolist() for batch in prepared]
            assert len(batches) == len(prepared)
            rows.extend(row for batch in batches for row in batch)
    assert set(epochs[0]) == set(epochs[1]) == set(range(101))
    assert epochs[0] != epochs[1]


def test_a_prepared_loader_has_the_batches_of_the_epoch() -> None:
    batches = LengthGroupedBatches(range(1, 102), 4)
    prepared = Accelerator(cpu=True).prepare(DataLoader(range(101), batch_sampler=batches))
    prepared.set_epoch(3)
    drawn = [batch.tolist() for batch in prepared]
    expected = LengthGroupedBatches(range(1, 102), 4)
    expected.set_epoch(3)
    assert drawn == list(expected)


@pytest.mark.parametrize("setting", [{"batch_size": 0}, {"batch_size": -1}, {"batch_size": 2, "pool": 0}])
def test_empty_batches_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(DepthError, match="at least 1"):
        LengthGroupedBatches([1, 2], **setting)
