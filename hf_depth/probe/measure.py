"""A line of a results table: a model's size, its agreement with a teacher on held-out text, and its time."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_depth.cost import count_parameters, latency_ratios
from hf_depth.probe.agreement import Agreement, measure_agreement
from hf_depth.probe.embeddings import embed_texts

TIMED_TEXTS, TIMED_ROUNDS = 8, 12


@dataclass(frozen=True)
class Row:
    """A model against its teacher.

    Attributes:
        layers: depth.
        parameters: of the whole model.
        cosine: see `Agreement`.
        spearman: see `Agreement`.
        latency_ratio: time of a forward pass of the encoder, as a share of the teacher's on the same input.
    """

    layers: int
    parameters: int
    cosine: float | None
    spearman: float
    latency_ratio: float


class StudentMeasure:
    """Measures encoders against a teacher on held-out texts.

    Args:
        teacher: the teacher, with or without a head.
        tokenizer: of both.
        texts: held-out texts, three or more.
        max_length: tokens after which a text is cut.
    """

    def __init__(
        self, teacher: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int
    ) -> None:
        self.teacher, self.tokenizer, self.texts, self.max_length = teacher, tokenizer, texts, max_length
        self.target = self._embed(teacher)
        batch = tokenizer(
            list(texts[:TIMED_TEXTS]), truncation=True, max_length=max_length, padding=True, return_tensors="pt"
        )
        self.batch = {name: batch[name] for name in ("input_ids", "attention_mask")}

    def agreement(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> Agreement:
        """How far a model's sentence embeddings, computed under autocast in `dtype`, agree with the teacher's."""
        return measure_agreement(self._embed(model, dtype), self.target)

    def row(self, model: PreTrainedModel) -> Row:
        """The model's line of the table; timed in evaluation mode. The teacher's own time is 1 by definition."""
        ratio = 1.0 if model is self.teacher else self._latency_ratio(model)
        agreement = asdict(self.agreement(model))
        return Row(model.config.num_hidden_layers, count_parameters(model), latency_ratio=ratio, **agreement)

    def _latency_ratio(self, model: PreTrainedModel) -> float:
        encoders = {"teacher": self.teacher.base_model.eval(), "model": model.base_model}
        was_training = model.training
        model.eval()
        runs = {name: (lambda encoder=encoder: encoder(**self.batch)) for name, encoder in encoders.items()}
        ratios = latency_ratios(runs, reference="teacher", repeats=TIMED_ROUNDS)
        model.train(was_training)
        return ratios["model"]

    def _embed(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> Tensor:
        return embed_texts(model.base_model, self.tokenizer, self.texts, max_length=self.max_length, dtype=dtype)
