"""Distillation: a student learns a teacher's logits, hidden states, attention and sentence embeddings."""

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from hf_depth.errors import DepthError
from hf_depth.plan import DepthPlan
from hf_depth.probe import sentence_embeddings
from hf_depth.training.dropout import turn_off_attention_dropout
from hf_depth.training.losses import attention_sum, cosine_distance_sum, soft_target_sum, squared_error_sum
from hf_depth.training.objective import IGNORED, ModelLoss, ObjectiveOutput, shifts_labels
from hf_depth.training.taps import Seen, only_stack, unwrap, watch
from hf_depth.training.teacher_cache import TARGET

logger = logging.get_logger(__name__)


class LogitsOf(NamedTuple):
    """What a head's logits are about: a row of them for each `item`, over `classes` (the config's field, if any)."""

    item: str
    classes: str


# By the end of the head's class name.
LOGITS_OF = {
    "ForMaskedLM": LogitsOf("tokens", "vocab_size"),
    "ForPreTraining": LogitsOf("tokens", "vocab_size"),
    "ForCausalLM": LogitsOf("tokens", "vocab_size"),
    "LMHeadModel": LogitsOf("tokens", "vocab_size"),
    "ForTokenClassification": LogitsOf("tokens", "num_labels"),
    "ForSequenceClassification": LogitsOf("texts", "num_labels"),
    "ForMultipleChoice": LogitsOf("texts", "choices"),
    "ForNextSentencePrediction": LogitsOf("texts", "orders"),
    "ForQuestionAnswering": LogitsOf("answers", "positions"),
}
# How far from 1 rounding (bfloat16) takes the sum of a row of attention; dropout takes it further.
ROW_SUM_TOLERANCE = 0.02
# Of what `count` gives, what each term is a mean over.
ITEMS = {"hidden": "tokens", "tokens": "tokens", "attention": "tokens", "embedding": "sequences"}


@dataclass(frozen=True)
class DistillWeights:
    """How much each term counts; a term of weight 0 is not computed.

    Attributes:
        logits: `T^2 KL(teacher || student)`, a mean over valid items: targets where labels are given, else real
            tokens; texts; or starts and ends of answers.
        hidden: squared error of the hidden states of the mapped layers, a mean over real tokens and the width.
        attention: `KL(teacher || student)` of the attention of the mapped layers, a mean over real tokens and heads;
            models return it after dropout, so the student's attention dropout is turned off, with a warning.
        tokens: squared error of the last hidden states, a mean over real tokens and the width.
        embedding: `1 - cos` of the sentence embeddings (mean of the last hidden states over real tokens), a mean over
            texts.
        labels: the student's own loss.
    """

    logits: float = 0.0
    hidden: float = 0.0
    attention: float = 0.0
    tokens: float = 0.0
    embedding: float = 0.0
    labels: float = 0.0

    def __post_init__(self) -> None:
        for name, weight in asdict(self).items():
            if weight < 0:
                raise DepthError(f"The weight {name}={weight} must not be negative")
        if not any(asdict(self).values()):
            raise DepthError(f"All weights are 0, so there is nothing to learn; give one of {', '.join(asdict(self))}")


class Distiller(nn.Module):
    """The objective of distillation (see `Objective`): a teacher's outputs as targets.

    The teacher is not a part of this module: it is not saved, moved, or switched to training with it, and it is run
    without gradients. Where widths differ, learned projections of the student's states onto the teacher's width are
    this module's parameters, to be trained with the student and not saved with it.

    Batches are mappings with `input_ids`, `attention_mask` and what else the models take. Each model is given those
    entries that its forward pass names; `labels` go to the student alone. With `teacher_last_hidden_state` `[batch,
    seq, hidden]` in the batch (`CachedTeacher`) the teacher is only run for terms that need more.

    Args:
        teacher: the teacher; `None` where every batch has its last hidden states.
        student: the model that will be trained.
        layer_map: student layer -> teacher layer for `hidden` and `attention`, or the plan that made the student.
        temperature: of the soft targets (Hinton et al. 2015).
        chunk_size: rows of logits at once, recomputed in the backward pass; `None` takes all.
        align_vocab: what to do if the teacher has another number of classes: refuse, or compare the first ones both
            have.
        weights: of the terms, see `DistillWeights`.

    Raises:
        DepthError: for terms that the models cannot be compared by.
    """

    def __init__(
        self,
        teacher: PreTrainedModel | None,
        student: PreTrainedModel,
        *,
        layer_map: Mapping[int, int] | DepthPlan | None = None,
        temperature: float = 2.0,
        chunk_size: int | None = None,
        align_vocab: Literal["error", "truncate"] = "error",
        **weights: float,
    ) -> None:
        super().__init__()
        terms = [each.name for each in fields(DistillWeights)]
        unknown = sorted(set(weights) - set(terms))
        if unknown:
            raise DepthError(f"Unknown terms {', '.join(unknown)}; known are {', '.join(terms)}")
        if temperature <= 0:
            raise DepthError(f"temperature={temperature} must be above 0")
        if chunk_size is not None and chunk_size < 1:
            raise DepthError(f"chunk_size={chunk_size} must be at least 1, or None for all rows at once")
        self.weights = DistillWeights(**weights)
        self.temperature = temperature
        self.chunk_size = chunk_size
        self.model_loss = ModelLoss(student)
        if teacher is not None:
            _check_apart(unwrap(student), teacher)
        self._outside = (teacher.eval() if teacher is not None else None,)
        self._shifts = shifts_labels(unwrap(student))
        self._logits_of = _logits_of(unwrap(student))
        needs_teacher = [name for name in ("logits", "hidden", "attention") if getattr(self.weights, name)]
        if teacher is None and needs_teacher:
            raise DepthError(f"The terms {', '.join(needs_teacher)} need a teacher, got None")

        self.layer_map = self._check_layers(layer_map)
        if self.weights.logits:
            self._check_logits(unwrap(student), align_vocab)
        if self.weights.attention:
            self._check_attention(unwrap(student))
        self.projections = nn.ModuleDict(self._make_projections(unwrap(student)))

    @property
    def teacher(self) -> PreTrainedModel | None:
        """The teacher, which is outside of this module."""
        return self._outside[0]

    def count(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`tokens` and `sequences` and, where needed, `targets` of the logits and what the student's loss counts."""
        kept = _kept(batch)
        counts = {"tokens": kept.sum(), "sequences": torch.tensor(len(kept), device=kept.device)}
        if self.weights.logits:
            rows = torch.tensor(len(batch["input_ids"]), device=kept.device)
            counts["targets"] = self._targets(batch).sum() if self._item == "tokens" else rows
        if self.weights.labels:
            counts |= {f"loss_{name}": number for name, number in self.model_loss.count(batch).items()}
        return counts

    def forward(self, model: nn.Module, batch: Mapping[str, Tensor], totals: Mapping[str, Tensor]) -> ObjectiveOutput:
        """The micro-batch's share of the loss, and of every term before it is weighted."""
        kept = _kept(batch)
        parts: dict[str, Tensor] = {}
        with watch(model, self.layer_map.keys() if self.weights.hidden else ()) as student:
            if self.weights.labels:
                loss_totals = {name.removeprefix("loss_"): n for name, n in totals.items() if name.startswith("loss_")}
                taken = {**_accepted(unwrap(model), batch, labels=True), **self._extra()}
                parts["labels"] = self.model_loss(model, taken, loss_totals).loss
            else:
                model(**_accepted(unwrap(model), batch), **self._extra())
        teacher = self._run_teacher(batch)

        if self.weights.logits:
            parts["logits"] = self._compare_logits(student, teacher, batch) / totals["targets"].clamp(min=1)
        sums = {
            "hidden": self._compare_hidden,
            "attention": self._compare_attention,
            "tokens": self._compare_tokens,
            "embedding": self._compare_embeddings,
        }
        for name, compare in sums.items():
            if getattr(self.weights, name):
                parts[name] = compare(student, teacher, kept) / totals[ITEMS[name]]
        loss = torch.stack([getattr(self.weights, name) * part for name, part in parts.items()]).sum()
        return ObjectiveOutput(loss, {name: part.detach() for name, part in parts.items()})

    @property
    def _item(self) -> str | None:
        """What the logits have a row for."""
        return self._logits_of.item if self._logits_of else None

    def _extra(self) -> dict[str, Any]:
        return {"output_attentions": True} if self.weights.attention else {}

    def _run_teacher(self, batch: Mapping[str, Tensor]) -> Seen:
        needed = self.weights.logits or self.weights.hidden or self.weights.attention
        cached = batch.get(TARGET)
        if cached is not None and not needed:
            return Seen(last_hidden_state=cached)
        if self.teacher is None:
            if self.weights.tokens or self.weights.embedding:
                raise DepthError(f"The Distiller has no teacher, and the batch has no {TARGET}; give one of them")
            return Seen()
        device = batch["input_ids"].device
        if self.teacher.device != device:
            self.teacher.to(device)
        if self.teacher.training:
            self.teacher.eval()
        layers = self.layer_map.values() if self.weights.hidden else ()
        with torch.no_grad(), watch(self.teacher, set(layers)) as seen:
            self.teacher(**_accepted(self.teacher, batch), **self._extra())
        return seen

    def _targets(self, batch: Mapping[str, Tensor]) -> Tensor:
        """`[batch, seq]`: at which positions token logits are compared."""
        labels = batch.get("labels")
        if labels is None:
            return _kept(batch)
        if self._shifts:
            return nn.functional.pad(labels[:, 1:] != IGNORED, (0, 1))
        return labels != IGNORED

    def _compare_logits(self, student: Seen, teacher: Seen, batch: Mapping[str, Tensor]) -> Tensor:
        if self._item == "answers":
            outside = ~_kept(batch)
            lowest = torch.finfo(torch.float32).min
            pairs = [
                [seen.outputs[name].float().masked_fill(outside, lowest) for seen in (student, teacher)]
                for name in ("start_logits", "end_logits")
            ]
            return sum(self._soft_targets(*pair) for pair in pairs) / 2  # type: ignore[return-value]
        ours, theirs = (_logits(seen.outputs) for seen in (student, teacher))
        if self._item == "tokens":
            targets = self._targets(batch)
            ours, theirs = ours[targets], theirs[targets]
        classes = min(ours.shape[-1], theirs.shape[-1])
        return self._soft_targets(ours[..., :classes], theirs[..., :classes])

    def _soft_targets(self, student: Tensor, teacher: Tensor) -> Tensor:
        return soft_target_sum(student, teacher, self.temperature, self.chunk_size)

    def _compare_hidden(self, student: Seen, teacher: Seen, kept: Tensor) -> Tensor:
        sums = [
            squared_error_sum(
                self._project(f"hidden_{ours}", student.layers[ours][kept]), teacher.layers[theirs][kept]
            )
            for ours, theirs in self.layer_map.items()
        ]
        return torch.stack(sums).mean()

    def _compare_attention(self, student: Seen, teacher: Seen, kept: Tensor) -> Tensor:
        ours, theirs = (seen.outputs.get("attentions") for seen in (student, teacher))
        for name, weights in (("student", ours), ("teacher", theirs)):
            if not weights or any(layer is None for layer in weights):
                raise DepthError(
                    f"The {name} returned no attention weights; run it with attn_implementation='eager' or drop the "
                    "term"
                )
        _check_row_sums([ours[index] for index in self.layer_map], kept)
        sums = [attention_sum(ours[index], theirs[source], kept) for index, source in self.layer_map.items()]
        return torch.stack(sums).mean()

    def _compare_tokens(self, student: Seen, teacher: Seen, kept: Tensor) -> Tensor:
        ours, theirs = self._last_hidden_states(student, teacher)
        return squared_error_sum(ours[kept], theirs[kept])

    def _compare_embeddings(self, student: Seen, teacher: Seen, kept: Tensor) -> Tensor:
        ours, theirs = self._last_hidden_states(student, teacher)
        return cosine_distance_sum(sentence_embeddings(ours, kept), sentence_embeddings(theirs, kept))

    def _last_hidden_states(self, student: Seen, teacher: Seen) -> tuple[Tensor, Tensor]:
        assert student.last_hidden_state is not None
        assert teacher.last_hidden_state is not None
        ours = self._project("last", student.last_hidden_state)
        if ours.shape != teacher.last_hidden_state.shape:
            raise DepthError(
                f"The student's last hidden states are {tuple(ours.shape)}, the teacher's "
                f"{tuple(teacher.last_hidden_state.shape)}; "
                "they must be of the same texts, and without a teacher at hand of the same width"
            )
        return ours, teacher.last_hidden_state

    def _project(self, name: str, states: Tensor) -> Tensor:
        return self.projections[name](states) if name in self.projections else states

    def _check_layers(self, layer_map: Mapping[int, int] | DepthPlan | None) -> dict[int, int]:
        if not (self.weights.hidden or self.weights.attention):
            return {}
        if layer_map is None:
            raise DepthError("The terms hidden and attention need a layer_map, or the plan that made the student")
        pairs = layer_map.layer_map() if isinstance(layer_map, DepthPlan) else dict(layer_map)
        if not pairs:
            raise DepthError("The layer_map is empty: it maps no layer of the student to one of the teacher")
        return pairs

    def _check_logits(self, student: PreTrainedModel, align_vocab: str) -> None:
        if self._logits_of is None:
            raise DepthError(
                f"{type(student).__name__} has no head whose logits can be compared; known are {', '.join(LOGITS_OF)}"
            )
        assert self.teacher is not None
        if _logits_of(self.teacher) != self._logits_of or shifts_labels(self.teacher) != self._shifts:
            raise DepthError(
                f"The logits of the student, a {type(student).__name__}, and those of the teacher, a "
                f"{type(self.teacher).__name__}, are about different things; give both models the same kind of head"
            )
        field = self._logits_of.classes
        ours, theirs = (getattr(model.config, field, None) for model in (student, self.teacher))
        if ours != theirs and align_vocab != "truncate":
            raise DepthError(
                f"The student has {field}={ours} and the teacher {field}={theirs}; their logits are about different "
                "things (align_vocab='truncate' compares the first ones that both have)"
            )

    def _check_attention(self, student: PreTrainedModel) -> None:
        assert self.teacher is not None
        heads = [model.config.num_attention_heads for model in (student, self.teacher)]
        if heads[0] != heads[1]:
            raise DepthError(
                f"The term attention compares heads one by one: the student has {heads[0]} of them, the teacher "
                f"{heads[1]}"
            )
        for name, model in (("student", student), ("teacher", self.teacher)):
            used = model.config._attn_implementation
            if used != "eager":
                logger.warning(f"The {name}'s attention {used!r} returns no weights: it is switched to 'eager'")
                model.set_attn_implementation("eager")
        dropout = turn_off_attention_dropout(student)
        if dropout:
            logger.warning(f"The student's attention dropout ({dropout}) is turned off: it would alter the weights")

    def _make_projections(self, student: PreTrainedModel) -> dict[str, nn.Module]:
        if self.teacher is None:
            return {}
        for model, layers in ((student, self.layer_map.keys()), (self.teacher, self.layer_map.values())):
            depth = only_stack(model).depth if layers else 0
            outside = [layer for layer in layers if not 0 <= layer < depth]
            if outside:
                raise DepthError(
                    f"The layer_map names layer {outside[0]} of a {type(model).__name__} with {depth} layers"
                )
        ours, theirs = (model.config.hidden_size for model in (student, self.teacher))
        if ours == theirs:
            return {}
        names = [f"hidden_{layer}" for layer in self.layer_map] if self.weights.hidden else []
        names += ["last"] if self.weights.tokens or self.weights.embedding else []
        return {name: nn.Linear(ours, theirs, bias=False, device=student.device) for name in names}


def check_same_vocabulary(student: PreTrainedTokenizerBase, teacher: PreTrainedTokenizerBase) -> None:
    """Refuse tokenizers that give different ids to the same token: the teacher would be shown other words.

    Raises:
        DepthError: names a token that differs.
    """
    ours, theirs = student.get_vocab(), teacher.get_vocab()
    different = sorted(token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token))
    if different:
        token = different[0]
        raise DepthError(
            f"The tokenizers differ in {len(different)} tokens: {token!r} is {ours.get(token)} for the student and "
            f"{theirs.get(token)} for the teacher; a student learns from a teacher with its own vocabulary"
        )


def _kept(batch: Mapping[str, Tensor]) -> Tensor:
    """`[batch, seq]`: which tokens are real; every choice of a multiple choice is a sequence."""
    mask = batch.get("attention_mask")
    kept = torch.ones_like(batch["input_ids"], dtype=torch.bool) if mask is None else mask.bool()
    return kept.flatten(0, -2)


def _logits_of(model: PreTrainedModel) -> LogitsOf | None:
    name = type(model).__name__
    return next((logits for end, logits in LOGITS_OF.items() if name.endswith(end)), None)


def _check_apart(student: PreTrainedModel, teacher: PreTrainedModel) -> None:
    """Refuse a teacher that training the student would change."""
    trained = {id(parameter) for parameter in student.parameters() if parameter.requires_grad}
    shared = [name for name, parameter in teacher.named_parameters() if id(parameter) in trained]
    if shared:
        raise DepthError(
            f"Student and teacher share {len(shared)} trainable parameters, such as {shared[0]}, so the teacher would "
            "change as the student learns; give the student copies (hf_depth.resize makes them), or freeze them"
        )


@torch.no_grad()
def _check_row_sums(attentions: list[Tensor], kept: Tensor) -> None:
    """Refuse weights `[batch, heads, seq, seq]` that are no probabilities."""
    off = torch.stack([(each.float().sum(-1).transpose(1, 2)[kept] - 1).abs().max() for each in attentions]).max()
    if off > ROW_SUM_TOLERANCE:
        raise DepthError(
            f"The student's attention weights add up to 1 only within {off:.2g}, so something like dropout altered "
            "them; set the attention dropout of the student's config to 0 before it is built, or drop the term"
        )


def _accepted(model: PreTrainedModel, batch: Mapping[str, Tensor], labels: bool = False) -> dict[str, Tensor]:
    """The entries of a batch that a model's forward pass names; labels only where they are wanted."""
    names = inspect.signature(model.forward).parameters
    targets = {"labels", "next_sentence_label", "start_positions", "end_positions"}
    return {name: tensor for name, tensor in batch.items() if name in names and (labels or name not in targets)}


def _logits(outputs: Any) -> Tensor:
    return outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
