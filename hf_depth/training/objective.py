"""What a training driver needs of a method: how many items a batch holds, and the loss of a batch given all items.

A driver (the Accelerate engine, `Trainer`) splits a batch into micro-batches and over processes. The loss of the whole
is the same only if every micro-batch divides by the items of the whole, so a method says what it counts and is told
the totals.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from accelerate.utils import extract_model_from_parallel
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss

from hf_depth.errors import DepthError
from hf_depth.training.taps import unwrap

IGNORED = -100

# Heads that predict the next token, but whose class name does not say so to transformers' table of losses.
_UNNAMED_CAUSAL_HEADS = frozenset(
    {
        "BertGenerationDecoder",
        "BertLMHeadModel",
        "CTRLLMHeadModel",
        "GPT2LMHeadModel",
        "OpenAIGPTLMHeadModel",
        "ReformerModelWithLMHead",
    }
)


@dataclass
class ObjectiveOutput:
    """A micro-batch's share of the loss.

    Attributes:
        loss: scalar, differentiable; the shares of all micro-batches add up to the loss of the whole batch.
        parts: named terms of the loss, detached scalars that add up over micro-batches in the same way.
    """

    loss: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)


class Objective(Protocol):
    """A training method as drivers see it: a small object over (model, batch)."""

    def count(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Scalar counts of the items that this micro-batch's loss terms average over, by name."""
        ...

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor], totals: Mapping[str, Tensor]) -> ObjectiveOutput:
        """The micro-batch's share of the loss; `totals` are the counts of the whole window and all processes."""
        ...


class ModelLoss:
    """The objective that is the model's own loss.

    Heads differ in what they do with `num_items_in_batch`: some divide the sum of their loss by it, some take it
    through `**kwargs` and ignore it (`BertForMaskedLM`, `BertForSequenceClassification`, BART, T5), some refuse it.
    Neither name nor signature tells which, so the first batch does: where twice the number gives half the loss, the
    head obeys and is given the total. Every other head averages over the items it sees, so its mean is weighted by its
    share of the items. Terms of its loss that are no mean over items, like a router's, become averages with the same
    weights.

    Exact where a head averages over one kind of item, and for heads of two kinds that take `num_sequences_in_batch`
    beside `num_items_in_batch`. Question answering counts starts; a stock head that ignores the number divides ends by
    their own count, so there an answer has to lie in the text with both ends or with none, as is usual.

    Args:
        model: the model that will be trained, bare; only what is said above is read off it.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        head = unwrap(model)
        parameters = inspect.signature(head.forward).parameters
        takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        self._takes_items = getattr(head, "accepts_loss_kwargs", takes_any)
        self._takes_sequences = "num_sequences_in_batch" in parameters
        self._shifts = shifts_labels(head)
        self._obeys: dict[tuple[str, ...], bool] = {}

    def count(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`rows` of the batch and, where it has targets, `labels`: those that the head's loss does not leave out."""
        first = next(iter(batch.values()))
        counts = {"rows": torch.tensor(len(first), device=first.device)}
        if "start_positions" in batch:
            length = (batch["input_ids"] if "input_ids" in batch else batch["inputs_embeds"]).shape[1]
            counts["labels"] = (batch["start_positions"] < length).sum()
        elif "shift_labels" in batch:
            counts["labels"] = (batch["shift_labels"] != IGNORED).sum()
        elif "labels" in batch:
            labels = batch["labels"][..., 1:] if self._shifts else batch["labels"]
            counts["labels"] = (labels != IGNORED).sum() if not labels.is_floating_point() else counts["rows"]
        return counts

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor], totals: Mapping[str, Tensor]) -> ObjectiveOutput:
        """The micro-batch's share of the model's loss.

        Raises:
            DepthError: if the model returns no loss for the batch, or averages over two kinds of item and cannot be
                told the numbers of both.
        """
        counts = self.count(batch)
        if self._head_obeys(model, batch, counts):
            return ObjectiveOutput(_loss(model(**batch, **self._divisors(totals)), batch))

        if "labels" in batch and "next_sentence_label" in batch and counts != dict(totals):
            raise DepthError(
                f"{type(unwrap(model)).__name__} adds a mean over tokens to a mean over texts, which micro-batches "
                "cannot make up; set gradient_accumulation_steps to 1, or convert the model with hf_depth.convert"
            )
        outputs = model(**batch)
        loss = _loss(outputs, batch)
        item = "labels" if "labels" in counts else "rows"
        if counts[item] == 0:  # the mean of nothing is NaN, and so would be all gradients
            return ObjectiveOutput(_zero_like_loss(outputs))
        return ObjectiveOutput(loss * (counts[item] / totals[item]))

    def _divisors(self, counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The numbers that the head is to divide by, as keyword arguments."""
        divisors = {}
        if self._takes_items and "labels" in counts:
            divisors["num_items_in_batch"] = counts["labels"].clamp(min=1)
        if self._takes_sequences:
            divisors["num_sequences_in_batch"] = counts["rows"]
        return divisors

    @torch.no_grad()
    def _head_obeys(self, model: nn.Module, batch: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> bool:
        """Whether twice the numbers give half the loss; found out once for every set of inputs."""
        divisors = self._divisors(counts)
        if not divisors:
            return False
        inputs = tuple(sorted(batch))
        if inputs not in self._obeys:
            bare = extract_model_from_parallel(model, keep_fp32_wrapper=True)  # no talk between processes
            modes = {module: module.training for module in bare.modules()}
            bare.eval()
            twice = {name: 2 * number for name, number in divisors.items()}
            loss = _loss(bare(**batch, **divisors), batch).float()
            half = _loss(bare(**batch, **twice), batch).float()
            for module, training in modes.items():
                module.training = training
            if loss == 0 or loss.isnan():
                return False  # nothing to tell by: no targets in this batch
            self._obeys[inputs] = bool(torch.isclose(half * 2, loss, rtol=0.05, atol=0))
        return self._obeys[inputs]


def shifts_labels(head: nn.Module) -> bool:
    """Whether the head predicts `labels[t + 1]` at `t`, so `labels[0]` is no target; `Trainer`'s rule, widened."""
    if getattr(getattr(head, "config", None), "is_encoder_decoder", False):
        return False
    named = LOSS_MAPPING.get(str(getattr(head, "loss_type", None))) is ForCausalLMLoss
    return named or type(head).__name__ in _UNNAMED_CAUSAL_HEADS


def _loss(outputs: Any, batch: Mapping[str, Tensor]) -> Tensor:
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else None
    if loss is None:
        raise DepthError(
            f"The model returns no loss for a batch with {', '.join(batch)}; it needs a head, and labels for it"
        )
    return loss


def _zero_like_loss(outputs: Mapping[str, Any]) -> Tensor:
    """A zero that depends on the same parameters as the loss."""
    scores = (value for name, value in outputs.items() if name != "loss" and isinstance(value, Tensor))
    return next(value for value in scores if value.requires_grad or not torch.is_grad_enabled()).float().sum() * 0
