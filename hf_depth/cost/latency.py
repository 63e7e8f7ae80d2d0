"""Measured time of models on the same input in the same process, as ratios: absolute times differ between machines."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch


def latency_ratios(
    runs: Mapping[str, Callable[[], object]], reference: str, repeats: int = 20, warmup: int = 3
) -> dict[str, float]:
    """How long each run takes relative to one of them.

    The runs take turns, so that a slow moment of the machine meets all of them, and each round gives its own ratios.

    Args:
        runs: by name, a call that does the work once, without gradients.
        reference: the run whose time is 1.
        repeats: rounds that count.
        warmup: rounds before them that do not.

    Returns:
        By name, the median over the rounds of `time / time of the reference`.
    """
    ratios: dict[str, list[float]] = {name: [] for name in runs}
    with torch.inference_mode():
        for number in range(warmup + repeats):
            seconds = {name: _seconds(run) for name, run in runs.items()}
            if number >= warmup:
                for name, taken in seconds.items():
                    ratios[name].append(taken / seconds[reference])
    return {name: statistics.median(values) for name, values in ratios.items()}


def _seconds(run: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
