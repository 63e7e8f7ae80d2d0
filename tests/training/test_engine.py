"""The engine: exact accumulation, evaluation, what it writes, and that a killed run goes on as if it had not been."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    PreTrainedModel,
)

from hf_depth.errors import DepthError
from hf_depth.training.arguments import EngineArguments
from hf_depth.training.engine import Engine
from hf_depth.training.evaluation import DatasetEvaluator
from hf_depth.training.objective import ModelLoss, ObjectiveOutput
from tests.conftest import TINY

LENGTHS = (12, 5, 9, 3, 11, 7, 4, 10)
HERE = Path(__file__).parents[2]


def bert(model_class: type = BertForMaskedLM, dropout: float = 0.0, num_labels: int = 3) -> PreTrainedModel:
    torch.manual_seed(0)
    config = BertConfig(
        **TINY, hidden_dropout_prob=dropout, num_labels=num_labels, attention_probs_dropout_prob=dropout
    )
    return model_class(config)


def gpt2() -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    dropouts = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **dropouts, bos_token_id=1, eos_token_id=1))


def texts(count: int = 8) -> list[list[int]]:
    """Ragged texts, the same at every call."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, 97, (LENGTHS[i % 8],), generator=generator).tolist() for i in range(count)]


def pad(rows: list[list[int]]) -> dict[str, Tensor]:
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def mask_some(rows: list[list[int]]) -> dict[str, Tensor]:
    """Masked language modelling with masks drawn at random."""
    batch = pad(rows)
    chosen = (torch.rand(batch["input_ids"].shape) < 0.3) & (batch["attention_mask"] == 1)
    labels = torch.where(chosen, batch["input_ids"], -100)
    return {**batch, "input_ids": torch.where(chosen, 2, batch["input_ids"]), "labels": labels}


def every_third(rows: list[list[int]]) -> dict[str, Tensor]:
    """Token labels below 3 on tokens divisible by 3; -100 elsewhere and on padding."""
    batch = pad(rows)
    ids = batch["input_ids"]
    return {**batch, "labels": torch.where((ids % 3 == 0) & (ids != 0), ids % 2, -100)}


def next_token(rows: list[list[int]]) -> dict[str, Tensor]:
    batch = pad(rows)
    return {**batch, "labels": torch.where(batch["attention_mask"] == 1, batch["input_ids"], -100)}


def one_label(rows: list[list[int]]) -> dict[str, Tensor]:
    return {**pad(rows), "labels": torch.tensor([row[0] % 3 for row in rows])}


def answers(rows: list[list[int]]) -> dict[str, Tensor]:
    """One length for all batches, since a stock head spreads its probability over padding too."""
    ends = torch.tensor([len(row) - 1 for row in rows])
    batch = {name: nn.functional.pad(each, (0, 12 - each.shape[1])) for name, each in pad(rows).items()}
    return {**batch, "start_positions": ends // 2, "end_positions": ends}


def arguments(folder: Path, **changes: Any) -> EngineArguments:
    defaults = {"max_steps": 4, "learning_rate": 1e-3, "logging_steps": 1, "disable_tqdm": True, "use_cpu": True}
    return EngineArguments(output_dir=str(folder), **{**defaults, **changes})


def engine(folder: Path, model: PreTrainedModel | None = None, **changes: Any) -> Engine:
    """An engine on masked language modelling with dropout and random masks, unless told otherwise."""
    model = model or bert(dropout=0.2)
    names = ("objective", "collate", "evaluate", "eval_dataset", "processing_class", "batch_sampler")
    given = {name: changes.pop(name) for name in names if name in changes}
    rows = texts(changes.pop("rows", 11))
    settings = {"objective": ModelLoss(model), "collate": mask_some, **given}
    return Engine(model, arguments(folder, **changes), settings.pop("objective"), rows, **settings)


class ProjectedLoss(nn.Module):
    """A model's loss, by way of a trained factor of the objective's own; dies where told to."""

    def __init__(self, model: PreTrainedModel, die_at_count: int = 0) -> None:
        super().__init__()
        self.inner = ModelLoss(model)
        self.teacher = nn.Linear(2, 2).requires_grad_(False)
        self.factor = nn.Parameter(torch.ones(2, 2))
        self.die_at_count, self.counts = die_at_count, 0

    def count(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        self.counts += 1
        if self.counts == self.die_at_count:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner.count(batch)

    def forward(self, model: nn.Module, batch: dict[str, Tensor], totals: dict[str, Tensor]) -> ObjectiveOutput:
        loss = self.inner(model, batch, totals).loss
        return ObjectiveOutput(loss * self.factor.mean(), {"plain": loss.detach()})


# --- exact gradients -------------------------------------------------------------------------------------------------

HEADS = [
    (lambda: bert(BertForMaskedLM), every_third),
    (lambda: bert(BertForSequenceClassification), one_label),
    (lambda: bert(BertForTokenClassification), every_third),
    (lambda: bert(BertForQuestionAnswering, num_labels=2), answers),
    (gpt2, next_token),
]


def gradients(folder: Path, build: Callable, collate: Callable, size: int) -> tuple[dict[str, Tensor], float]:
    model = build().train()
    run = engine(folder, model, collate=collate)
    window = [collate(texts()[first : first + size]) for first in range(0, 8, size)]
    loss = float(run.backward(window).loss.detach())
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}, loss


@pytest.mark.parametrize(("build", "collate"), HEADS)
def test_four_micro_batches_give_the_gradient_of_one_batch(tmp_path: Path, build: Callable, collate: Callable) -> None:
    whole, loss = gradients(tmp_path, build, collate, size=8)
    split, split_loss = gradients(tmp_path, build, collate, size=2)
    own = build().train()(**collate(texts())).loss.detach()
    assert loss == pytest.approx(float(own), rel=1e-5)
    assert split_loss == pytest.approx(loss, rel=1e-5)
    assert whole.keys() == split.keys()
    for name, gradient in whole.items():
        assert (gradient - split[name]).norm() <= 1e-5 * gradient.norm() + 1e-7, name


PROCESS = """
import os, sys
from pathlib import Path
from safetensors.torch import save_file
from tests.training.test_engine import ProjectedLoss, bert, engine, every_third, texts
model = bert().train()
objective = ProjectedLoss(model)
run = engine(Path(sys.argv[1]), model, objective=objective, collate=every_third)
count, me = run.accelerator.num_processes, run.accelerator.process_index
mine = range(me * 4 // count, (me + 1) * 4 // count)
run.backward([every_third(texts()[2 * i : 2 * i + 2]) for i in mine])
if me == 0:
    named = {**dict(model.named_parameters()), "factor": objective.factor}
    found = {name: each.grad for name, each in named.items() if each.grad is not None}
    save_file({name: each.contiguous().clone() for name, each in found.items()}, sys.argv[2])
run.accelerator.wait_for_everyone()
os._exit(0)  # gloo may abort while Python shuts down, in a script of two collectives as well
"""


@pytest.mark.heavy
def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROCESS)
    found = []
    for processes in (1, 2):
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        run_python([*launch, str(script), str(tmp_path / "run"), str(tmp_path / f"{processes}.safetensors")])
        found.append(load_file(tmp_path / f"{processes}.safetensors"))
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        assert (gradient - found[1][name]).norm() <= 1e-5 * gradient.norm() + 1e-7, name


# --- resuming --------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from tests.training.test_engine import resumable
folder, die_at_count, die_in_save = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
save_state = Accelerator.save_state
def save_and_die(self, target):
    save_state(self, target)
    if die_in_save in target:
        os.kill(os.getpid(), signal.SIGKILL)
if die_in_save:
    Accelerator.save_state = save_and_die
resumable(folder, die_at_count).train()
"""


def resumable(folder: Path, die_at_count: int = 0, **changes: Any) -> Engine:
    """9 rows in micro-batches of 2, two to a step: 3 steps an epoch, the last one of them half as large."""
    model = bert(dropout=0.2)
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_steps": 8,
        "save_steps": 2,
        "logging_steps": 3,
        "eval_steps": 1,
        "warmup_steps": 0.25,
        "metric_for_best_model": "loss",
        "eval_dataset": texts(5),
        "objective": ProjectedLoss(model, die_at_count),
        "rows": 9,
        **changes,
    }
    return engine(folder, model, **settings)


def run_python(arguments: list[str], *, wait: bool = True) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=HERE, env=environment, stderr=subprocess.PIPE, text=True
    )
    if wait:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    return process


def weights(run: Engine) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in run.model.state_dict().items()}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


def test_killed_run_resumes_to_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    # Micro-batches are counted, and evaluation batches at the first evaluation: 2 + 1, 2, 1; 2, 2, 1. So the 11th
    # count is in step 6, with checkpoint-4 written and step 5 logged; the other run dies with checkpoint-4
    # half-written.
    kills = {"between": ("11", ""), "saving": ("0", "checkpoint-4")}
    running = {
        name: run_python(["-c", KILLED, str(tmp_path / name), *when], wait=False) for name, when in kills.items()
    }
    whole = resumable(tmp_path / "whole")
    result = whole.train()
    assert result.steps == 8
    for name, process in running.items():
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors
        folder = tmp_path / name
        reached = 4 if name == "between" else 2
        assert max(int(each.name.split("-")[1]) for each in folder.glob("checkpoint-*")) == reached
        assert (folder / ".checkpoint-4.partial").exists() == (name == "saving")
        rows_before = len((folder / "log.jsonl").read_text().splitlines())
        history = json.loads((folder / f"checkpoint-{reached}" / "progress.json").read_text())["log_history"]
        assert rows_before > len(history)  # the log went on past the checkpoint

        run = resumable(folder, resume_from_checkpoint="latest")
        again = run.train()
        assert_same(weights(run), weights(whole))
        assert torch.equal(run.objective.factor, whole.objective.factor)
        assert (again.log_history, again.best_metric, again.best_step) == (
            result.log_history,
            result.best_metric,
            result.best_step,
        )
        assert (folder / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()
        assert not list(folder.glob(".*"))


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_resuming_at_any_step_gives_the_same_weights(tmp_path: Path, stop: int) -> None:
    whole = resumable(tmp_path / "whole", save_steps=stop, eval_steps=0)
    whole.train()
    resumed = resumable(
        tmp_path / "resumed", eval_steps=0, resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{stop}")
    )
    resumed.train()
    assert_same(weights(resumed), weights(whole))


def test_random_collator_draws_the_same_in_workers(tmp_path: Path) -> None:
    runs = [engine(tmp_path / str(count), dataloader_num_workers=count) for count in (0, 2)]
    for run in runs:
        run.train()
    assert_same(weights(runs[1]), weights(runs[0]))


def test_other_settings_on_resume_are_an_error_naming_both(tmp_path: Path) -> None:
    resumable(tmp_path, max_steps=2).train()
    before = sorted(tmp_path.rglob("*"))
    changed = resumable(tmp_path, max_steps=2, seed=7, per_device_train_batch_size=4, resume_from_checkpoint="latest")
    with pytest.raises(DepthError, match=r"seed 42 \(now 7\), per_device_train_batch_size 2 \(now 4\)"):
        changed.train()
    with pytest.raises(DepthError, match=r"training rows 9 \(now 7\)"):
        resumable(tmp_path, max_steps=2, rows=7, resume_from_checkpoint="latest").train()
    assert sorted(tmp_path.rglob("*")) == before


def test_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    engine(tmp_path, save_steps=4).train()
    other = engine(tmp_path, bert(BertForTokenClassification), save_steps=4, resume_from_checkpoint="latest")
    with pytest.raises(DepthError, match="cannot be loaded into this model"):
        other.train()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("latest", "There is no checkpoint in"), ("nowhere", "is not a folder"), (".", r"no readable progress\.json")],
)
def test_checkpoint_that_is_none_is_refused(tmp_path: Path, wanted: str, message: str) -> None:
    with pytest.raises(DepthError, match=message):
        engine(tmp_path / "run", resume_from_checkpoint=wanted).train()


def test_resuming_before_newer_checkpoints_is_refused(tmp_path: Path) -> None:
    engine(tmp_path, save_steps=2).train()
    older = engine(tmp_path, resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    with pytest.raises(DepthError, match=r"checkpoint-2 is older than checkpoint-4; resume from 'latest'"):
        older.train()


def test_old_checkpoints_are_removed(tmp_path: Path) -> None:
    engine(tmp_path, save_steps=1, save_total_limit=2).train()
    assert sorted(each.name for each in tmp_path.glob("checkpoint-*")) == ["checkpoint-3", "checkpoint-4"]


# --- the loop --------------------------------------------------------------------------------------------------------


def test_log_has_means_learning_rate_and_gradient_norm(tmp_path: Path) -> None:
    model = bert()
    settings = {"logging_steps": 2, "lr_scheduler_type": "linear", "warmup_steps": 2, "rows": 12, "max_steps": -1}
    run = engine(tmp_path, model, objective=ProjectedLoss(model), num_train_epochs=1.5, **settings)
    result = run.train()
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert rows == result.log_history
    assert [(row["step"], row["epoch"]) for row in rows] == [(2, 1.0), (3, 1.5)]
    assert [row["learning_rate"] for row in rows] == [pytest.approx(5e-4), pytest.approx(1e-3)]
    assert all(row["grad_norm"] > 0 and row["parts"].keys() == {"plain"} for row in rows)
    assert rows[0]["loss"] == pytest.approx(rows[0]["parts"]["plain"], rel=0.1)


def test_training_lowers_the_loss_and_leaves_frozen_parameters_alone(tmp_path: Path) -> None:
    model = bert(BertForTokenClassification)
    frozen = model.bert.embeddings.requires_grad_(False).word_embeddings.weight.clone()
    history = engine(tmp_path, model, max_steps=20, collate=every_third, learning_rate=5e-3).train().log_history
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, frozen)


def test_vectors_have_no_weight_decay(tmp_path: Path) -> None:
    run = engine(tmp_path, weight_decay=0.1)
    decays = {group["weight_decay"]: {each.ndim for each in group["params"]} for group in run._optimizer.param_groups}
    assert decays == {0.1: {2}, 0.0: {1}}


def test_every_row_is_seen_once_an_epoch_in_another_order(tmp_path: Path) -> None:
    seen: list[list[int]] = []

    def record(rows: list[list[int]]) -> dict[str, Tensor]:
        seen.extend(rows)
        return every_third(rows)

    engine(tmp_path, bert(), collate=record, per_device_train_batch_size=3, max_steps=8).train()
    first, second = seen[:11], seen[11:]
    assert sorted(first) == sorted(second) == sorted(texts(11))
    assert first != second


def test_batch_sampler_decides_the_batches_of_every_epoch(tmp_path: Path) -> None:
    class Pairs:
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[list[int]]:
            yield from [[0, 1 + self.epoch], [4, 5, 6]]

        def __len__(self) -> int:
            return 2

    seen: list[list[list[int]]] = []

    def record(rows: list[list[int]]) -> dict[str, Tensor]:
        seen.append(rows)
        return every_third(rows)

    engine(tmp_path, bert(), collate=record, batch_sampler=Pairs()).train()
    rows = texts(11)
    assert seen == [[rows[0], rows[1]], rows[4:7], [rows[0], rows[2]], rows[4:7]]


def test_loss_that_is_not_finite_names_the_step(tmp_path: Path) -> None:
    class Breaks(ProjectedLoss):
        def forward(self, *args: Any) -> ObjectiveOutput:
            output = super().forward(*args)
            output.loss = output.loss * (float("nan") if self.counts == 3 else 1)
            return output

    model = bert()
    with pytest.raises(DepthError, match="The loss is nan at step 3; lower learning_rate"):
        engine(tmp_path, model, objective=Breaks(model)).train()


@pytest.fixture
def fresh_accelerator() -> Iterator[None]:
    """Accelerate keeps the precision of its first accelerator for the whole process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.usefixtures("fresh_accelerator")
def test_bfloat16_trains_float32_weights_and_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = bert()
    seen = set()
    dense = model.bert.encoder.layer[0].output.dense
    hook = dense.register_forward_hook(lambda module, inputs, output: seen.add(output.dtype))
    engine(tmp_path, model, mixed_precision="bf16", collate=every_third).train()
    assert seen == {torch.bfloat16}
    seen.clear()
    model(**every_third(texts()))
    hook.remove()
    assert seen == {model.dtype} == {torch.float32}


# --- evaluation and the best model -----------------------------------------------------------------------------------


def test_evaluation_counts_every_row_once(tmp_path: Path) -> None:
    model = bert().eval()
    rows = texts(5)
    with torch.no_grad():
        expected = float(model(**every_third(rows)).loss)
        for size in (2, 3, 5, 8):
            found = DatasetEvaluator(ModelLoss(model), rows, every_third, size)(model, Accelerator(cpu=True))
            assert found == {"loss": pytest.approx(expected, rel=1e-5)}


def test_evaluation_repeats_its_random_masks(tmp_path: Path) -> None:
    model = bert().eval()
    evaluator = DatasetEvaluator(ModelLoss(model), texts(5), mask_some, 2)
    with torch.no_grad():
        assert evaluator(model, Accelerator(cpu=True)) == evaluator(model, Accelerator(cpu=True))


def test_evaluation_does_not_change_training(tmp_path: Path) -> None:
    plain, watched = engine(tmp_path / "plain"), engine(tmp_path / "watched", eval_dataset=texts(5), eval_steps=1)
    plain.train()
    watched.train()
    assert_same(weights(watched), weights(plain))


@pytest.mark.parametrize(("greater", "best_step"), [(None, 3), (False, 2)])
def test_best_weights_are_the_ones_that_are_saved(tmp_path: Path, greater: bool | None, best_step: int) -> None:
    scores = iter([0.5, 0.1, 0.9, 0.2])
    seen = []

    def evaluate(model: nn.Module, accelerator: Accelerator) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append({name: each.clone() for name, each in model.state_dict().items()})
        return {"accuracy": next(scores)}

    choice = {"metric_for_best_model": "accuracy", "greater_is_better": greater, "eval_steps": 1}
    run = engine(tmp_path, evaluate=evaluate, **choice)
    result = run.train()
    assert (result.best_step, result.best_metric) == (best_step, {3: 0.9, 2: 0.1}[best_step])
    run.save()
    assert_same(BertForMaskedLM.from_pretrained(tmp_path).state_dict(), seen[best_step - 1])
    assert [row["eval_accuracy"] for row in result.log_history if "eval_accuracy" in row] == [0.5, 0.1, 0.9, 0.2]


def test_best_metric_that_nobody_measures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DepthError, match="eval_f1 that chooses the best model is not among eval_loss"):
        engine(tmp_path / "a", eval_dataset=texts(2), metric_for_best_model="f1").train()
    with pytest.raises(DepthError, match="metric_for_best_model='f1' needs an evaluation"):
        engine(tmp_path / "b", metric_for_best_model="f1")


# --- folders ---------------------------------------------------------------------------------------------------------


def test_saved_folder_holds_the_model_the_card_and_nothing_of_the_objective(tmp_path: Path) -> None:
    model = bert()
    run = engine(tmp_path, model, objective=ProjectedLoss(model))
    run.train()
    run.save(ModelCard("---\nlicense: mit\n---\n# Card"))
    assert {"config.json", "log.jsonl", "model.safetensors", "README.md"} == {each.name for each in tmp_path.iterdir()}
    assert not any(name.startswith(("teacher", "factor")) for name in load_file(tmp_path / "model.safetensors"))
    assert_same(BertForMaskedLM.from_pretrained(tmp_path).state_dict(), model.state_dict())
    assert isinstance(AutoModel.from_pretrained(tmp_path), PreTrainedModel)


def test_frozen_parts_of_the_objective_are_not_in_checkpoints(tmp_path: Path) -> None:
    model = bert()
    engine(tmp_path, model, objective=ProjectedLoss(model), save_steps=4).train()
    assert load_file(tmp_path / "checkpoint-4" / "objective.safetensors").keys() == {"factor"}


def test_output_folder_in_use_is_refused_and_says_how_to_resume(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(DepthError, match=r"is not empty; .* resume_from_checkpoint=latest"):
        engine(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_trackers_get_the_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = engine(tmp_path, log_with=["tensorboard"]).train()
    events = EventAccumulator(str(tmp_path / "trackers" / "hf-depth")).Reload()
    assert [event.value for event in events.Scalars("loss")] == pytest.approx([r["loss"] for r in result.log_history])


def test_training_data_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DepthError, match="no rows"):
        engine(tmp_path, rows=0)


def test_model_without_trainable_parameters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DepthError, match="no trainable parameter"):
        engine(tmp_path, bert().requires_grad_(False))


# --- arguments -------------------------------------------------------------------------------------------------------


def test_arguments_parse_from_a_command_line(tmp_path: Path) -> None:
    line = "--output_dir out --warmup_steps 0.1 --log_with tensorboard --mixed_precision bf16 --greater_is_better true"
    (args,) = HfArgumentParser(EngineArguments).parse_args_into_dataclasses(line.split(), look_for_args_file=False)
    assert (args.warmup(50), args.log_with, args.mixed_precision, args.greater_is_better) == (
        5,
        ["tensorboard"],
        "bf16",
        True,
    )
    assert all("help" in each.metadata for each in EngineArguments.__dataclass_fields__.values())


def test_numbers_that_yaml_reads_as_text_are_numbers() -> None:
    assert EngineArguments(output_dir="out", learning_rate="1e-4").learning_rate == 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output_dir": ""}, "output_dir is empty"),
        ({"mixed_precision": False}, r"mixed_precision=False is unknown.*\"no\" in quotes"),
        ({"learning_rate": "fast"}, "learning_rate='fast' is not a number"),
        ({"learning_rate": float("nan")}, "is not a finite number"),
        ({"seed": 1.5}, "seed=1.5 is not a whole number"),
        ({"seed": True}, "seed=True is not a whole number"),
        ({"max_steps": 0}, "max_steps=0 is out of range"),
        ({"num_train_epochs": 0}, "num_train_epochs=0.0 is out of range"),
        ({"per_device_train_batch_size": 0}, "has to be at least 1"),
        ({"adam_beta2": 1.0}, "has to be below 1"),
        ({"warmup_steps": 1.5}, "neither a whole number of steps nor a share"),
        ({"lr_scheduler_type": "wave"}, "lr_scheduler_type='wave' is unknown; choose one of linear"),
        ({"log_with": "tensorboard"}, "is not a list of names"),
        ({"log_with": ["nobody"]}, "Accelerate knows aim"),
        ({"log_with": ["aim"]}, "whose package is not installed"),
        ({"use_cpu": "yes"}, "is not true or false"),
    ],
)
def test_arguments_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DepthError, match=message):
        EngineArguments(**{"output_dir": "out", **change})
