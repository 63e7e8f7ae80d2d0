"""A teacher that is run once: its last hidden states on every text, kept in memory and served as targets."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

TARGET = "teacher_last_hidden_state"
VARIANCE_CHUNK = 16_384


class CachedTeacher(Dataset[dict[str, Any]]):
    """Texts with the teacher's last hidden states on them, in bfloat16: two bytes for each token and dimension.

    Rows hold `input_ids` and `teacher_last_hidden_state` `[tokens, hidden]`; `collate` pads a list of them.

    Args:
        teacher: a bare encoder.
        tokenizer: its tokenizer, which the student shares.
        texts: the training texts.
        max_length: tokens after which a text is cut.
        batch_size: texts that the teacher sees at once; those of like length share a batch.
        dtype: the teacher runs under autocast in this dtype; `None` runs it in its own.
        progress: whether a progress bar is shown.
    """

    def __init__(
        self,
        teacher: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[str],
        *,
        max_length: int,
        batch_size: int = 32,
        dtype: torch.dtype | None = torch.bfloat16,
        progress: bool = True,
    ) -> None:
        self.tokenizer = tokenizer
        self.tokens: list[list[int]] = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
        self.starts = [0, *accumulate(len(ids) for ids in self.tokens)]
        self.states = torch.empty(self.starts[-1], teacher.config.hidden_size, dtype=torch.bfloat16)
        order = sorted(range(len(self.tokens)), key=lambda row: len(self.tokens[row]))
        was_training = teacher.training
        teacher.eval()
        with torch.inference_mode(), torch.autocast(teacher.device.type, dtype=dtype, enabled=dtype is not None):
            for start in tqdm(range(0, len(order), batch_size), desc="Teacher", disable=not progress, leave=False):
                rows = order[start : start + batch_size]
                batch = self._pad(rows).to(teacher.device)
                states = teacher(**batch).last_hidden_state.to("cpu", torch.bfloat16)
                kept = batch["attention_mask"].bool().cpu()
                for row, row_states, row_kept in zip(rows, states, kept, strict=True):
                    self.states[self.starts[row] : self.starts[row + 1]] = row_states[row_kept]
        teacher.train(was_training)

    @property
    def lengths(self) -> list[int]:
        """Tokens of every text."""
        return [len(ids) for ids in self.tokens]

    @property
    def variance(self) -> float:
        """Variance of the states over tokens, a mean over the width: the scale of a squared error."""
        chunks = self.states.split(VARIANCE_CHUNK)  # a float32 copy of all states would be the largest thing in memory
        mean = torch.stack([chunk.float().sum(0) for chunk in chunks]).sum(0) / len(self.states)
        squares = torch.stack([(chunk.float() - mean).square().sum(0) for chunk in chunks]).sum(0)
        return (squares / (len(self.states) - 1)).mean().item()

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": self.tokens[row], TARGET: self.states[self.starts[row] : self.starts[row + 1]]}

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        """`input_ids` and `attention_mask` `[batch, seq]`, `teacher_last_hidden_state` `[batch, seq, hidden]`."""
        batch = self.tokenizer.pad([{"input_ids": row["input_ids"]} for row in rows], return_tensors="pt")
        mask = batch["attention_mask"]
        targets = torch.zeros(*mask.shape, self.states.shape[1], dtype=self.states.dtype)
        targets[mask.bool()] = torch.cat([row[TARGET] for row in rows])
        return {"input_ids": batch["input_ids"], "attention_mask": mask, TARGET: targets}

    def _pad(self, rows: Sequence[int]) -> Any:
        return self.tokenizer.pad({"input_ids": [self.tokens[row] for row in rows]}, return_tensors="pt")
