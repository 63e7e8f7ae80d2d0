"""In stock `Trainer` four micro-batches of two give the gradients of one batch of eight, for every head."""

from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from tests.training.heads import HEADS, build, collate, ragged_rows


class KeepGradients(TrainerCallback):
    """Copies the gradients as the optimizer is about to use them."""

    def __init__(self) -> None:
        self.gradients: dict[str, torch.Tensor] = {}

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs) -> None:
        self.gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def trainer_gradients(model_class: type, rows: list[dict], batch_size: int, folder: Path) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    keep = KeepGradients()
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=8 // batch_size,
        max_steps=1,
        max_grad_norm=0.0,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(
        model=build(model_class),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        data_collator=collate,
        callbacks=[keep],
    ).train()
    return keep.gradients


@pytest.mark.parametrize("model_class", HEADS)
def test_micro_batches_give_the_gradients_of_the_batch(model_class: type, tmp_path: Path) -> None:
    rows = ragged_rows(model_class)
    whole = trainer_gradients(model_class, rows, 8, tmp_path)
    parts = trainer_gradients(model_class, rows, 2, tmp_path)
    scale = max(gradient.abs().max() for gradient in whole.values())
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-5, atol=1e-6 * scale.item())
