"""Costs are counted and measured."""

import time

import pytest
import torch

from hf_depth.cost import count_parameters, latency_ratios


def test_shared_parameters_count_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
    assert count_parameters(model) == 18
    model[1].weight = model[0].weight
    assert count_parameters(model) == 9


def test_ratios_are_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def run(seconds: float) -> object:
        return lambda: clock.__setitem__(0, clock[0] + seconds)

    ratios = latency_ratios({"slow": run(4.0), "fast": run(1.0)}, reference="slow", repeats=5, warmup=1)
    assert ratios == {"slow": 1.0, "fast": 0.25}
