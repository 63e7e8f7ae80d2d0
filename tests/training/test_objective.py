"""Shares of a model's own loss add up to that of the whole batch, whatever its head does with the number of items."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from hf_depth import DepthEncoderForPreTraining
from hf_depth.errors import DepthError
from hf_depth.training.objective import ModelLoss
from tests.conftest import TINY
from tests.training import heads


def bert(num_labels: int = 3) -> BertConfig:
    return BertConfig(**TINY, num_labels=num_labels, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


GPT2 = GPT2Config(
    vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1, resid_pdrop=0,
    embd_pdrop=0, attn_pdrop=0,
)  # fmt: skip
LLAMA = LlamaConfig(**TINY, pad_token_id=0, bos_token_id=1, eos_token_id=1)
T5 = T5Config(
    vocab_size=97, d_model=32, d_ff=64, d_kv=8, num_layers=1, num_heads=4, dropout_rate=0, decoder_start_token_id=0
)

Batch = dict[str, Tensor]


def tokens_batch() -> Batch:
    """Eight texts of 3 to 12 tokens with labels on some of them; the last two have none."""
    lengths = torch.tensor([12, 5, 9, 3, 11, 7, 4, 10])
    mask = (torch.arange(12) < lengths[:, None]).long()
    labels = torch.where((torch.rand(8, 12) < 0.5) & (mask == 1), torch.randint(0, 3, (8, 12)), -100)
    labels[6:] = -100
    return {"input_ids": torch.randint(3, 97, (8, 12)) * mask, "attention_mask": mask, "labels": labels}


def texts_batch() -> Batch:
    return {**tokens_batch(), "labels": torch.tensor([0, 1, 2, 0, 1, 2, 0, -100])}


def several_labels_batch() -> Batch:
    return {**tokens_batch(), "labels": torch.randint(0, 2, (8, 3)).float()}


def answers_batch() -> Batch:
    batch = tokens_batch()
    del batch["labels"]
    beyond = torch.tensor([12, 12, 3, 1, 2, 12, 0, 4])
    return {**batch, "start_positions": beyond, "end_positions": beyond}


HEADS: list[tuple[Callable[[], torch.nn.Module], Callable[[], Batch]]] = [
    (lambda: BertForMaskedLM(bert()), tokens_batch),
    (lambda: BertForTokenClassification(bert()), tokens_batch),
    (lambda: BertForSequenceClassification(bert()), texts_batch),
    (lambda: BertForSequenceClassification(bert()), several_labels_batch),
    (lambda: BertForQuestionAnswering(bert(2)), answers_batch),
    (lambda: GPT2LMHeadModel(GPT2), tokens_batch),
    (lambda: LlamaForCausalLM(LLAMA), tokens_batch),
    (lambda: T5ForConditionalGeneration(T5), tokens_batch),
]


def split(batch: Batch, size: int) -> list[Batch]:
    """Micro-batches of `size` rows."""
    parts = zip(*(value.split(size) for value in batch.values()), strict=True)
    return [dict(zip(batch, part, strict=True)) for part in parts]


def shares(objective: ModelLoss, model: torch.nn.Module, window: list[Batch]) -> list[Tensor]:
    counts = [objective.count(batch) for batch in window]
    totals = {name: torch.stack([count[name] for count in counts]).sum() for name in counts[0]}
    return [objective(model, batch, totals).loss for batch in window]


@pytest.mark.parametrize(("build", "make_batch"), HEADS)
def test_shares_add_up_to_the_models_own_loss(build: Callable, make_batch: Callable) -> None:
    model, batch = build().train(), make_batch()
    own = model(**batch).loss
    for size in (8, 2, 1):
        total = torch.stack(shares(ModelLoss(model), model, split(batch, size))).sum()
        torch.testing.assert_close(total, own, rtol=1e-5, atol=0)


def test_micro_batch_without_labels_has_finite_gradients() -> None:
    model, batch = BertForMaskedLM(bert()).train(), tokens_batch()
    loss = shares(ModelLoss(model), model, split(batch, 2))[-1]
    loss.backward()
    assert float(loss.detach()) == 0
    assert all(torch.equal(each.grad, torch.zeros_like(each)) for each in model.parameters())


def test_window_without_any_label_is_zero() -> None:
    for model in (BertForMaskedLM(bert()), LlamaForCausalLM(LLAMA)):
        batch = {**tokens_batch(), "labels": torch.full((8, 12), -100)}
        assert [float(each.detach()) for each in shares(ModelLoss(model), model, split(batch, 4))] == [0, 0]


def test_both_losses_of_pretraining_add_up() -> None:
    model = heads.build(DepthEncoderForPreTraining)
    batch = heads.collate(heads.ragged_rows(DepthEncoderForPreTraining))
    total = torch.stack(shares(ModelLoss(model), model, split(batch, 2))).sum()
    torch.testing.assert_close(total, model(**batch).loss, rtol=1e-5, atol=0)


def test_head_with_two_means_that_knows_no_totals_is_refused() -> None:
    model = BertForPreTraining(bert())
    batch = {**tokens_batch(), "next_sentence_label": torch.ones(8, dtype=torch.long)}
    own = model(**batch).loss
    torch.testing.assert_close(shares(ModelLoss(model), model, [batch])[0], own)
    with pytest.raises(DepthError, match=r"BertForPreTraining adds .* set gradient_accumulation_steps to 1"):
        shares(ModelLoss(model), model, split(batch, 2))


def test_finding_out_leaves_modes_and_random_state_alone() -> None:
    model = LlamaForCausalLM(LLAMA).train()
    model.model.norm.eval()
    batch = tokens_batch()
    before = torch.get_rng_state()
    shares(ModelLoss(model), model, [batch])
    assert model.training
    assert not model.model.norm.training
    assert torch.equal(torch.get_rng_state(), before)


def test_model_without_loss_is_refused() -> None:
    model = BertModel(bert())
    batch = tokens_batch()
    del batch["labels"]
    with pytest.raises(DepthError, match="returns no loss for a batch with input_ids, attention_mask"):
        shares(ModelLoss(model), model, [batch])
