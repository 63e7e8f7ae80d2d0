"""Distillation terms: right values, blind to padding, exact under accumulation, and silent about nothing."""

import logging as python_logging
import math

import pytest
import torch
import transformers
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
)

from hf_depth import (
    DepthEncoderConfig,
    DepthEncoderForMaskedLM,
    DepthEncoderForPreTraining,
    DepthError,
    DepthPlan,
    resize,
)
from hf_depth.training.distillation import Distiller, check_same_vocabulary
from hf_depth.training.losses import attention_sum, kl_sum, soft_target_sum
from hf_depth.training.taps import watch
from tests.conftest import TINY, shake

QUIET = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LENGTHS = (12, 5, 9, 3, 11, 7, 4, 10)
TERMS = ["logits", "hidden", "attention", "tokens", "embedding", "labels"]


def bert(model_class: type = BertForMaskedLM, **settings: object) -> torch.nn.Module:
    config = BertConfig(**{**TINY, **QUIET, "num_hidden_layers": 4, **settings})
    config._attn_implementation = "eager"
    return shake(model_class(config))


def pair(model_class: type = BertForMaskedLM) -> tuple[torch.nn.Module, torch.nn.Module]:
    teacher = bert(model_class)
    student = shake(resize(teacher, plan="0,3"))
    return teacher, student.train()


def ragged_batch(side: str = "right", extra: int = 0) -> dict[str, Tensor]:
    width = max(LENGTHS) + extra
    ids, mask, labels = (torch.zeros(8, width, dtype=torch.long) for _ in range(3))
    labels.fill_(-100)
    generator = torch.Generator().manual_seed(3)
    for row, length in enumerate(LENGTHS):
        place = slice(width - length, width) if side == "left" else slice(0, length)
        ids[row, place] = torch.randint(3, 97, (length,), generator=generator)
        mask[row, place] = 1
        targets = ids[row, place].clone()
        targets[torch.arange(length) % 3 != row % 3] = -100
        labels[row, place] = targets
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels, "position_ids": positions}


def rows_of(batch: dict[str, Tensor], start: int, stop: int) -> dict[str, Tensor]:
    """Some rows, cut to the longest of them."""
    part = {name: tensor[start:stop] for name, tensor in batch.items()}
    width = int(part["attention_mask"].sum(-1).max())
    return {name: tensor[:, :width].contiguous() for name, tensor in part.items()}


def weights_for(term: str) -> dict[str, float]:
    return {term: 1.0} if term != "all" else dict.fromkeys(TERMS, 0.5)


def gradients(distiller: Distiller, student: torch.nn.Module, batches: list[dict[str, Tensor]]) -> tuple[list, float]:
    counts = [distiller.count(batch) for batch in batches]
    totals = {name: sum(count[name] for count in counts) for name in counts[0]}
    student.zero_grad()
    loss = 0.0
    for batch in batches:
        output = distiller(student, batch, totals)
        output.loss.backward()
        loss += output.loss.item()
    return [torch.zeros(1) if p.grad is None else p.grad.clone() for p in student.parameters()], loss


@pytest.mark.parametrize("term", [*TERMS, "all"])
def test_micro_batches_add_up_to_the_batch(term: str) -> None:
    teacher, student = pair()
    distiller = Distiller(teacher, student, layer_map={0: 0, 1: 3}, **weights_for(term))
    batch = ragged_batch()
    whole, loss = gradients(distiller, student, [batch])
    parts, parts_loss = gradients(distiller, student, [rows_of(batch, row, row + 2) for row in range(0, 8, 2)])
    assert parts_loss == pytest.approx(loss, rel=1e-5)
    scale = max(gradient.abs().max().item() for gradient in whole)
    assert scale > 0
    for part, gradient in zip(parts, whole, strict=True):
        torch.testing.assert_close(part, gradient, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("term", TERMS)
def test_pad_columns_change_nothing(term: str, side: str) -> None:
    teacher, student = pair()
    distiller = Distiller(teacher, student, layer_map={0: 0, 1: 3}, **weights_for(term))
    losses = []
    for extra in (0, 5):
        batch = ragged_batch(side, extra)
        losses.append(distiller(student, batch, distiller.count(batch)).loss.item())
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)


@pytest.mark.parametrize("term", [term for term in TERMS if term != "labels"])
def test_an_identical_student_has_nothing_to_learn(term: str) -> None:
    teacher = bert()
    student = resize(teacher, plan="0-3")
    distiller = Distiller(teacher, student, layer_map=DepthPlan.parse("0-3"), **weights_for(term))
    batch = ragged_batch()
    assert abs(distiller(student, batch, distiller.count(batch)).loss.item()) < 1e-6


def test_soft_targets_are_those_of_the_formula() -> None:
    teacher, student = torch.tensor([[0.0, math.log(3.0)]]), torch.tensor([[0.0, 0.0]])
    expected = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert soft_target_sum(student, teacher, 1.0).item() == pytest.approx(expected, abs=1e-6)
    assert soft_target_sum(student, 2 * teacher, 2.0).item() == pytest.approx(4 * expected, abs=1e-6)
    assert soft_target_sum(student + 7, teacher, 1.0).item() == pytest.approx(expected, abs=1e-6)


def test_the_logit_term_is_a_mean_over_targets_whatever_the_length() -> None:
    teacher, student = pair()
    distiller = Distiller(teacher, student, logits=1.0)
    batch = ragged_batch()
    twice = {name: torch.cat([tensor, tensor]) for name, tensor in batch.items()}
    losses = [distiller(student, each, distiller.count(each)).loss.item() for each in (batch, twice)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_class_out_of_the_question_gives_finite_gradients() -> None:
    student = torch.randn(3, 5, requires_grad=True)
    teacher = torch.randn(3, 5)
    teacher[:, 2] = -torch.inf
    soft_target_sum(student, teacher, 2.0).backward()
    assert torch.isfinite(student.grad).all()


def test_a_teacher_that_gives_nan_is_not_passed_over() -> None:
    teacher = torch.randn(3, 5)
    teacher[1] = torch.nan
    assert soft_target_sum(torch.randn(3, 5), teacher, 2.0).isnan()


def test_nonsense_at_pads_gives_finite_gradients() -> None:
    teacher, student = pair()
    teacher.cls.predictions.decoder.register_forward_hook(
        lambda module, inputs, logits: logits.masked_fill(
            (ragged_batch()["attention_mask"] == 0)[..., None], -torch.inf
        )
    )
    distiller = Distiller(teacher, student, logits=1.0)
    batch = ragged_batch()
    distiller(student, batch, distiller.count(batch)).loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in student.parameters() if p.grad is not None)


def test_chunks_give_the_same_loss_and_gradients() -> None:
    student, teacher = torch.randn(10, 7), torch.randn(10, 7)
    results = []
    for chunk_size in (None, 3):
        logits = student.clone().requires_grad_()
        loss = soft_target_sum(logits, teacher, 2.0, chunk_size)
        loss.backward()
        results.append((loss.detach(), logits.grad))
    torch.testing.assert_close(results[1][0], results[0][0], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(results[1][1], results[0][1], atol=1e-6, rtol=1e-6)


def test_attention_is_compared_over_real_queries() -> None:
    student, teacher = (torch.rand(2, 3, 4, 4).softmax(-1) for _ in range(2))
    kept = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]).bool()
    expected = sum(
        kl_sum(teacher[row, head, query].log(), student[row, head, query].log()) / 3
        for row in range(2)
        for head in range(3)
        for query in range(4)
        if kept[row, query]
    )
    torch.testing.assert_close(attention_sum(student, teacher, kept), expected)


@pytest.mark.parametrize("term", [term for term in TERMS if term != "labels"])
def test_choices_are_compared_as_texts_of_their_own(term: str) -> None:
    teacher, student = pair(BertForMultipleChoice)
    distiller = Distiller(teacher, student, layer_map={0: 0, 1: 3}, **weights_for(term))
    texts = ragged_batch()
    losses = []
    for extra in (0, 4):
        flat = {name: tensor for name, tensor in ragged_batch(extra=extra).items() if name != "labels"}
        batch = {name: tensor.unflatten(0, (4, 2)) for name, tensor in flat.items()}
        losses.append(distiller(student, batch, distiller.count(batch)).loss.item())
    counts = distiller.count(batch)
    assert counts["sequences"] == len(LENGTHS)
    assert counts["tokens"] == texts["attention_mask"].sum()
    assert counts.get("targets", 4) == 4
    assert losses[0] > 0
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)


@pytest.mark.parametrize(
    ("model_class", "labels"),
    [(BertForSequenceClassification, {}), (BertForQuestionAnswering, {}), (DepthEncoderForPreTraining, {})],
)
def test_other_heads_are_distilled_and_blind_to_padding(model_class: type, labels: dict) -> None:
    if model_class is DepthEncoderForPreTraining:
        teacher = shake(DepthEncoderForPreTraining(DepthEncoderConfig(**TINY, **QUIET)))
        student = shake(resize(teacher, plan="1"))
    else:
        teacher = bert(model_class)
        student = shake(resize(teacher, plan="0,3"))
    distiller = Distiller(teacher, student, logits=1.0)
    losses = []
    for extra in (0, 4):
        batch = {name: tensor for name, tensor in ragged_batch(extra=extra).items() if name != "labels"}
        losses.append(distiller(student, batch, distiller.count(batch)).loss)
    assert losses[0].item() > 0
    assert losses[1].item() == pytest.approx(losses[0].item(), abs=1e-6)


def test_causal_targets_are_those_of_the_position_before() -> None:
    config = GPT2Config(
        vocab_size=97, n_embd=16, n_layer=2, n_head=2, n_positions=16, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0
    )
    teacher, student = shake(GPT2LMHeadModel(config)).eval(), shake(GPT2LMHeadModel(config)).eval()
    ids = torch.randint(3, 97, (1, 6))
    labels = torch.full_like(ids, -100)
    labels[0, 4] = 9
    distiller = Distiller(teacher, student, logits=1.0, temperature=1.0)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    expected = soft_target_sum(student(ids).logits[:, 3], teacher(ids).logits[:, 3], 1.0)
    torch.testing.assert_close(distiller(student, batch, distiller.count(batch)).loss, expected)


def test_a_tap_is_what_the_layer_returns_and_not_what_the_norm_makes_of_it() -> None:
    model = shake(GPT2Model(GPT2Config(vocab_size=97, n_embd=16, n_layer=2, n_head=2, n_positions=16))).eval()
    with watch(model, [1]) as seen:
        outputs = model(torch.randint(3, 97, (1, 5)))
    assert not torch.allclose(seen.layers[1], outputs.last_hidden_state)
    torch.testing.assert_close(model.ln_f(seen.layers[1]), outputs.last_hidden_state)


def test_taps_are_gone_after_an_error() -> None:
    model = bert(BertModel)
    with pytest.raises(RuntimeError, match="stop"), watch(model, [0, 1]):
        raise RuntimeError("stop")
    assert not any(module._forward_hooks for module in model.modules())


def test_taps_see_through_activation_checkpointing() -> None:
    teacher, student = pair()
    student.activation_checkpointing_enable({"use_reentrant": False})
    distiller = Distiller(teacher, student, layer_map={0: 0, 1: 3}, hidden=1.0)
    batch = ragged_batch()
    with_checkpointing, _ = gradients(distiller, student, [batch])
    student.activation_checkpointing_disable()
    without, _ = gradients(distiller, student, [batch])
    for one, other in zip(with_checkpointing, without, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_other_widths_are_projected_by_parameters_that_are_not_the_students() -> None:
    teacher = bert(hidden_size=48)
    student = bert(num_hidden_layers=2)
    distiller = Distiller(teacher, student, layer_map={0: 1, 1: 3}, hidden=1.0, embedding=1.0, tokens=1.0)
    batch = ragged_batch()
    output = distiller(student, batch, distiller.count(batch))
    output.loss.backward()
    assert output.parts["hidden"] > 0
    assert {name for name, p in distiller.named_parameters() if p.grad is not None} == {
        "projections.hidden_0.weight",
        "projections.hidden_1.weight",
        "projections.last.weight",
    }


def test_the_teacher_stays_outside_and_in_evaluation() -> None:
    teacher, student = pair()
    distiller = Distiller(teacher.train(), student, logits=1.0, embedding=1.0)
    distiller.train()
    batch = ragged_batch()
    distiller(student, batch, distiller.count(batch)).loss.backward()
    assert not teacher.training
    assert student.training
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert not list(distiller.parameters())
    assert not distiller.state_dict()


def test_attention_switches_to_eager_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    teacher, student = pair()
    for model in (teacher, student):
        model.set_attn_implementation("sdpa")
    transformers.utils.logging.enable_propagation()
    with caplog.at_level(python_logging.WARNING):
        distiller = Distiller(teacher, student, layer_map={0: 0, 1: 3}, attention=1.0)
    transformers.utils.logging.disable_propagation()
    assert caplog.text.count("switched to 'eager'") == 2
    batch = ragged_batch()
    loss = distiller(student, batch, distiller.count(batch)).loss
    assert loss.item() > 0
    loss.backward()
    assert student.bert.encoder.layer[0].attention.self.query.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ["bert", "gpt2", "family"])
def test_attention_is_compared_before_dropout(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    teacher = {
        "bert": lambda: bert(attention_probs_dropout_prob=0.1, num_hidden_layers=2),
        "gpt2": lambda: shake(
            GPT2LMHeadModel(GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=2, embd_pdrop=0, resid_pdrop=0))
        ),
        "family": lambda: shake(
            DepthEncoderForMaskedLM(DepthEncoderConfig(**{**TINY, "num_hidden_layers": 2, "hidden_dropout_prob": 0.0}))
        ),
    }[kind]()
    student = resize(teacher, plan="0-1").train()
    transformers.utils.logging.enable_propagation()
    with caplog.at_level(python_logging.WARNING):
        distiller = Distiller(teacher, student, layer_map={0: 0, 1: 1}, attention=1.0)
    transformers.utils.logging.disable_propagation()
    assert "attention dropout (0.1) is turned off" in caplog.text
    batch = ragged_batch()
    assert student.training
    assert abs(distiller(student, batch, distiller.count(batch)).loss.item()) < 1e-6


def test_attention_that_was_altered_is_an_error() -> None:
    teacher, student = pair()
    distiller = Distiller(teacher, student, layer_map={0: 0, 1: 3}, attention=1.0)
    student.bert.encoder.layer[0].attention.self.dropout.p = 0.1
    batch = ragged_batch()
    with pytest.raises(DepthError, match=r"add up to 1 only within .*dropout"):
        distiller(student, batch, distiller.count(batch))


def test_a_teacher_that_was_set_to_training_is_set_back() -> None:
    teacher, student = pair()
    distiller = Distiller(teacher, student, logits=1.0)
    teacher.train()
    batch = ragged_batch()
    distiller(student, batch, distiller.count(batch))
    assert not teacher.training
    assert student.training


def test_a_teacher_that_learns_with_the_student_is_refused() -> None:
    teacher, student = pair()
    with pytest.raises(DepthError, match=r"share \d+ trainable parameters"):
        Distiller(student, student, logits=1.0)
    student.bert.embeddings.word_embeddings.weight = teacher.bert.embeddings.word_embeddings.weight
    with pytest.raises(DepthError, match="word_embeddings"):
        Distiller(teacher, student, logits=1.0)
    student.bert.embeddings.word_embeddings.requires_grad_(False)
    Distiller(teacher, student, logits=1.0)


def test_attention_without_weights_is_an_error() -> None:
    teacher, student = pair()
    distiller = Distiller(teacher, student, layer_map={0: 0, 1: 3}, attention=1.0)
    teacher.set_attn_implementation("sdpa")
    batch = ragged_batch()
    with pytest.raises(DepthError, match=r"teacher returned no attention"):
        distiller(student, batch, distiller.count(batch))


def test_cached_states_take_the_place_of_the_teacher() -> None:
    teacher, student = pair()
    batch = ragged_batch()
    states = teacher.eval().bert(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    with_teacher = Distiller(teacher, student, embedding=1.0, tokens=1.0)
    without = Distiller(None, student, embedding=1.0, tokens=1.0)
    cached = {**batch, "teacher_last_hidden_state": states.detach()}
    expected = with_teacher(student, batch, with_teacher.count(batch)).loss
    torch.testing.assert_close(without(student, cached, without.count(cached)).loss, expected)
    with pytest.raises(DepthError, match="no teacher"):
        without(student, batch, without.count(batch))


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({"vocab_size": 101}, {"logits": 1.0}, r"vocab_size=97.*vocab_size=101"),
        ({"num_attention_heads": 2}, {"attention": 1.0, "layer_map": {0: 0}}, r"has 4 of them, the teacher 2"),
        ({}, {"hidden": 1.0}, "layer_map"),
        ({}, {"hidden": 1.0, "layer_map": {0: 4}}, "layer 4"),
        ({}, {"hidden": 1.0, "layer_map": {2: 0}}, "layer 2"),
        ({}, {"hidden": 1.0, "layer_map": {}}, "empty"),
        ({}, {}, "nothing to learn"),
        ({}, {"logits": -1.0}, "logits=-1.0"),
        ({}, {"logit": 1.0}, "logit"),
        ({}, {"logits": 1.0, "temperature": 0.0}, "temperature"),
        ({}, {"logits": 1.0, "chunk_size": 0}, "chunk_size=0"),
    ],
)
def test_what_cannot_be_compared_is_refused(settings: dict, arguments: dict, message: str) -> None:
    with pytest.raises(DepthError, match=message):
        Distiller(bert(**settings), bert(num_hidden_layers=2), **arguments)


def test_a_bare_model_has_no_logits_to_compare() -> None:
    with pytest.raises(DepthError, match=r"BertModel.*ForMaskedLM"):
        Distiller(bert(BertModel), bert(BertModel), logits=1.0)


@pytest.mark.parametrize(
    ("teacher_class", "student_class"),
    [
        (BertModel, BertForMaskedLM),
        (BertForSequenceClassification, BertForMaskedLM),
        (BertForTokenClassification, BertForSequenceClassification),
        (BertForMultipleChoice, BertForSequenceClassification),
        (BertForQuestionAnswering, BertForTokenClassification),
    ],
)
def test_heads_of_other_kinds_are_refused(teacher_class: type, student_class: type) -> None:
    with pytest.raises(DepthError, match=rf"{student_class.__name__}.*{teacher_class.__name__}.*different things"):
        Distiller(bert(teacher_class), bert(student_class), logits=1.0)


def test_a_causal_teacher_of_a_masked_student_is_refused() -> None:
    teacher = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_embd=16, n_layer=1, n_head=2, n_positions=16))
    with pytest.raises(DepthError, match=r"BertForMaskedLM.*GPT2LMHeadModel.*different things"):
        Distiller(teacher, bert(), logits=1.0)


@pytest.mark.parametrize("model_class", [BertForMultipleChoice, BertForQuestionAnswering])
def test_heads_without_a_vocabulary_may_differ_in_it(model_class: type) -> None:
    Distiller(bert(model_class, vocab_size=101), bert(model_class), logits=1.0)


def test_a_longer_vocabulary_can_be_truncated() -> None:
    student = bert(num_hidden_layers=2)
    distiller = Distiller(bert(vocab_size=101), student, logits=1.0, align_vocab="truncate")
    batch = ragged_batch()
    assert torch.isfinite(distiller(student, batch, distiller.count(batch)).loss)


def test_tokenizers_with_other_ids_are_refused() -> None:
    class Vocabulary:
        def __init__(self, **ids: int) -> None:
            self.ids = ids

        def get_vocab(self) -> dict[str, int]:
            return self.ids

    check_same_vocabulary(Vocabulary(a=0, b=1), Vocabulary(b=1, a=0))
    with pytest.raises(DepthError, match=r"'a' is 0 .* 1 for the teacher"):
        check_same_vocabulary(Vocabulary(a=0, b=1), Vocabulary(a=1, b=0))


def test_family_models_are_distilled() -> None:
    teacher = shake(DepthEncoderForMaskedLM(DepthEncoderConfig(**{**TINY, **QUIET, "num_hidden_layers": 4})))
    student = resize(teacher, plan="0,3")
    distiller = Distiller(
        teacher, student, layer_map=DepthPlan.parse("0,3"), logits=1.0, hidden=1.0, attention=1.0, labels=1.0
    )
    batch = ragged_batch()
    output = distiller(student, batch, distiller.count(batch))
    assert set(output.parts) == {"logits", "hidden", "attention", "labels"}
    assert output.loss.item() == pytest.approx(sum(part.item() for part in output.parts.values()), rel=1e-5)
