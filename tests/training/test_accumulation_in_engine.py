"""In the engine four micro-batches of two give the gradients of one batch of eight, for every head of the family."""

from pathlib import Path

import pytest
import torch

from hf_depth.training.arguments import EngineArguments
from hf_depth.training.engine import Engine
from hf_depth.training.objective import ModelLoss
from tests.training.heads import HEADS, build, collate, ragged_rows


@pytest.mark.parametrize("model_class", HEADS)
def test_micro_batches_give_the_gradients_of_the_batch(model_class: type, tmp_path: Path) -> None:
    rows = ragged_rows(model_class)
    model = build(model_class)
    args = EngineArguments(output_dir=str(tmp_path / "out"), use_cpu=True, disable_tqdm=True)
    engine = Engine(model, args, ModelLoss(model), rows, collate=collate)
    results = []
    for size in (8, 2):
        model.zero_grad()
        loss = engine.backward([collate(rows[start : start + size]) for start in range(0, 8, size)]).loss
        results.append((loss, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}))
    (whole_loss, whole), (parts_loss, parts) = results
    torch.testing.assert_close(parts_loss, whole_loss, rtol=1e-5, atol=0)
    scale = max(gradient.abs().max() for gradient in whole.values())
    assert scale > 0
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-5, atol=1e-6 * scale.item())
