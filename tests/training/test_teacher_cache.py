"""A cached teacher gives the states that the teacher gives."""

from pathlib import Path

import torch
from torch.utils.data import DataLoader
from transformers import BertModel

from hf_depth.training.dropout import dropout_set_to
from hf_depth.training.teacher_cache import CachedTeacher
from tests.checkpoints import tiny_bert, tiny_text, tiny_tokenizer


def test_states_are_the_teachers_without_padding(tmp_path: Path) -> None:
    teacher = BertModel.from_pretrained(tiny_bert(tmp_path / "bert")).train()
    texts = tiny_text(tmp_path / "text.txt", lines=20).read_text().splitlines()
    data = CachedTeacher(teacher, tiny_tokenizer(), texts, max_length=16, batch_size=4, dtype=None, progress=False)
    assert teacher.training
    teacher.eval()
    for batch in DataLoader(data, batch_size=6, collate_fn=data.collate):
        states = teacher(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        kept = batch["attention_mask"].bool()
        targets = batch["teacher_last_hidden_state"]
        torch.testing.assert_close(targets[kept], states[kept].bfloat16())
        assert targets[~kept].abs().sum() == 0
    assert data.lengths == [len(row["input_ids"]) for row in data]


def test_variance_is_that_of_all_states(tmp_path: Path) -> None:
    teacher = BertModel.from_pretrained(tiny_bert(tmp_path / "bert"))
    texts = tiny_text(tmp_path / "text.txt").read_text().splitlines()
    data = CachedTeacher(teacher, tiny_tokenizer(), texts, max_length=16, progress=False)
    torch.testing.assert_close(torch.tensor(data.variance), data.states.float().var(0).mean())


def test_dropout_is_set_for_a_while_and_then_as_before(tmp_path: Path) -> None:
    model = BertModel.from_pretrained(tiny_bert(tmp_path / "bert")).train()
    probabilities = [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    ids = torch.randint(5, 60, (2, 8))
    with dropout_set_to(model, 0.0):
        assert model(ids).last_hidden_state.equal(model(ids).last_hidden_state)
    assert not model(ids).last_hidden_state.equal(model(ids).last_hidden_state)
    assert [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)] == probabilities
