"""Batches of eight ragged texts for every head of the encoder family."""

import torch
from torch import Tensor

from hf_depth import (
    DepthEncoderConfig,
    DepthEncoderForMaskedLM,
    DepthEncoderForMultipleChoice,
    DepthEncoderForPreTraining,
    DepthEncoderForQuestionAnswering,
    DepthEncoderForSequenceClassification,
    DepthEncoderForTokenClassification,
)
from tests.conftest import TINY, shake

HEADS = [
    DepthEncoderForMaskedLM,
    DepthEncoderForPreTraining,
    DepthEncoderForSequenceClassification,
    DepthEncoderForTokenClassification,
    DepthEncoderForQuestionAnswering,
    DepthEncoderForMultipleChoice,
]
LENGTHS = (12, 5, 9, 3, 11, 7, 4, 10)


def build(model_class: type) -> torch.nn.Module:
    """A tiny model without dropout, in training mode."""
    settings = {**TINY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": 3}
    return shake(model_class(DepthEncoderConfig(**settings))).train()


def ragged_rows(model_class: type) -> list[dict[str, list[int] | int]]:
    """Eight examples with the labels that the head takes; the numbers of labels differ from text to text."""
    rows = []
    for number, length in enumerate(LENGTHS):
        ids = torch.randint(3, 97, (length,)).tolist()
        row: dict = {"input_ids": ids, "attention_mask": [1] * length}
        masked = [token if place % 3 == number % 3 else -100 for place, token in enumerate(ids)]
        if model_class is DepthEncoderForMaskedLM:
            row["labels"] = masked
        elif model_class is DepthEncoderForPreTraining:
            row |= {"labels": masked, "next_sentence_label": number % 2}
        elif model_class is DepthEncoderForTokenClassification:
            row["labels"] = [-100 if label == -100 else label % 3 for label in masked]
        elif model_class is DepthEncoderForQuestionAnswering:
            row |= {"start_positions": number % length, "end_positions": length - 1}
        elif model_class is DepthEncoderForMultipleChoice:
            row = {name: [value, value[::-1]] for name, value in row.items()} | {"labels": number % 2}
        else:
            row["labels"] = number % 3
        rows.append(row)
    return rows


def collate(rows: list[dict]) -> dict[str, Tensor]:
    """Pad on the right: labels with -100, all else with 0."""
    batch = {}
    for name in rows[0]:
        values = [torch.tensor(row[name]) for row in rows]
        longest = max(value.shape[-1] if value.dim() else 0 for value in values)
        fill = -100 if name == "labels" else 0
        batch[name] = torch.stack(
            [
                torch.nn.functional.pad(value, (0, longest - value.shape[-1]), value=fill) if value.dim() else value
                for value in values
            ]
        )
    return batch
