"""Cut an encoder to a depth, or take a smaller one, and train it on a teacher.

    accelerate launch -m hf_depth.recipes.distill CONFIG.yaml --output_dir OUT
    accelerate launch -m hf_depth.recipes.distill CONFIG.yaml --output_dir OUT --layers 4 --learning_rate 1e-4
    accelerate launch -m hf_depth.recipes.distill CONFIG.yaml --output_dir OUT --resume_from_checkpoint latest

Configs that come with the package are in `hf_depth.recipes.configs.distill`; a name without a folder is looked up
there. A checkpoint with a masked-language-model head is distilled on masked text, any other encoder on its states.
"""

import importlib.resources
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hf_depth.errors import DepthError
from hf_depth.training.arguments import EngineArguments
from hf_depth.training.parsing import parse_arguments


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class DistillArguments(EngineArguments):
    """What the recipe is told, beside what every run is told."""

    teacher: str = _option("", "Folder or Hub id of a BERT, RoBERTa or DistilBERT checkpoint (required).")
    student: str | None = _option(
        None, "Folder or Hub id of a student with the same vocabulary; by default a cut teacher."
    )
    layers: int | None = _option(None, "Depth of the cut teacher; by default half of the teacher's.")
    strategy: str = _option("spread", "How its layers are chosen: even, spread, first or last.")
    plan: str | None = _option(None, "The layers themselves, such as '0,2,5', instead of layers and strategy.")
    text: str | None = _option(
        None, "Training text: a file, or a data set of the Hub; by default the embedded sample."
    )
    eval_text: str | None = _option(
        None, "Text to evaluate on; by default a part of the training text, or of the sample."
    )
    eval_split: str = _option("train", "Split of eval_text, for a data set of the Hub.")
    text_field: str | None = _option(None, "Field of the rows that holds the text.")
    max_train_texts: int | None = _option(None, "Texts to train on at most.")
    held_out: int = _option(500, "Texts to evaluate on.")
    max_length: int = _option(64, "Tokens after which a text is cut.")
    mlm_probability: float = _option(0.15, "Share of tokens that are masked, for a masked language model.")
    temperature: float = _option(2.0, "Temperature of the soft targets.")
    logits: float = _option(0.0, "Weight of the soft targets.")
    hidden: float = _option(0.0, "Weight of the hidden states of mapped layers.")
    attention: float = _option(0.0, "Weight of the attention of mapped layers.")
    tokens: float = _option(0.0, "Weight of the last hidden states.")
    embedding: float = _option(0.0, "Weight of the sentence embeddings.")
    labels: float = _option(0.0, "Weight of the student's own loss.")
    freeze_embeddings: bool = _option(False, "Leave the token embeddings as they are.")
    cache_teacher: bool = _option(False, "Run the teacher once and keep its last hidden states in memory.")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the recipe; returns what was measured."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = parse_arguments(DistillArguments, _find_config(words))
    if not args.teacher:
        raise DepthError("teacher is empty; name the checkpoint to learn from")

    from accelerate.utils import set_seed

    from hf_depth.checkpoint import load_tokenizer, require_tokenizer
    from hf_depth.convert import convert
    from hf_depth.hub import model_card
    from hf_depth.plan import DepthPlan
    from hf_depth.probe import StudentMeasure
    from hf_depth.resize import resize
    from hf_depth.training.distillation import Distiller, check_same_vocabulary
    from hf_depth.training.engine import Engine

    set_seed(args.seed)
    teacher, tokenizer = convert(args.teacher).eval(), require_tokenizer(args.teacher)
    depth = teacher.config.num_hidden_layers
    if args.student:
        student, own_tokenizer = convert(args.student), load_tokenizer(args.student)
        if own_tokenizer is not None:
            check_same_vocabulary(own_tokenizer, tokenizer)
        plan = DepthPlan.spread(depth, student.config.num_hidden_layers)
    else:
        layers = args.layers
        if layers is None and args.plan is None:
            layers = max(1, depth // 2)
        student = resize(teacher, layers=layers, strategy=args.strategy, plan=args.plan)
        plan = DepthPlan.from_dict(student.config.depth_plan)
    student.get_input_embeddings().requires_grad_(not args.freeze_embeddings)

    train_texts, eval_texts = _load_texts(args)
    measure = StudentMeasure(teacher, tokenizer, eval_texts, args.max_length)
    rows = {"teacher": measure.row(teacher), "cut": measure.row(student)}
    weights = {
        name: getattr(args, name) for name in ("logits", "hidden", "attention", "tokens", "embedding", "labels")
    }
    data, eval_data, collate, sampler = _make_data(args, teacher, tokenizer, train_texts, eval_texts)
    engine = Engine(
        student,
        args,
        Distiller(
            None if args.cache_teacher else teacher, student, layer_map=plan, temperature=args.temperature, **weights
        ),
        data,
        collate=collate,
        evaluate=lambda model, accelerator: measure.agreement(accelerator.unwrap_model(model)).metrics(),
        eval_dataset=eval_data,
        processing_class=tokenizer,
        batch_sampler=sampler,
    )
    engine.train()
    student.get_input_embeddings().requires_grad_(True)
    rows["healed"] = measure.row(student)
    results = {name: asdict(row) for name, row in rows.items()} | {
        "base_model": args.teacher,
        "evaluated_on": f"{len(eval_texts)} texts of {args.eval_text or args.text or 'the embedded sample'}",
        "trained_on": f"{len(train_texts)} texts of {args.text or 'the embedded sample'}",
        "command": shlex.join(["accelerate", "launch", "-m", "hf_depth.recipes.distill", *words]),
    }
    engine.save(model_card(student, results))
    return results


def _find_config(words: list[str]) -> list[str]:
    """Words in which the name of a config that comes with the package is its path."""
    if words and not words[0].startswith("-") and not Path(words[0]).exists() and "/" not in words[0]:
        packaged = importlib.resources.files("hf_depth.recipes.configs.distill") / words[0]
        return [str(packaged) if packaged.is_file() else words[0], *words[1:]]
    return words


def _load_texts(args: DistillArguments) -> tuple[list[str], list[str]]:
    from hf_depth.data import load_texts, split_held_out

    train = load_texts(args.text, field=args.text_field)
    if args.eval_text:
        held_out = load_texts(args.eval_text, split=args.eval_split, field=args.text_field, limit=args.held_out)
    elif args.text is None:
        held_out = load_texts(None, split="validation", limit=args.held_out)
    else:
        train, held_out = split_held_out(train, args.held_out, args.seed)
    return train[: args.max_train_texts], held_out


def _make_data(
    args: DistillArguments, teacher: Any, tokenizer: Any, train_texts: list[str], eval_texts: list[str]
) -> tuple[Any, Any, Any, Any]:
    """Training data, evaluation data, what makes batches of them, and the order of training."""
    from datasets import Dataset
    from transformers import DataCollatorForLanguageModeling, DataCollatorWithPadding

    from hf_depth.data import LengthGroupedBatches
    from hf_depth.training.teacher_cache import CachedTeacher

    texts = (train_texts, eval_texts)
    if args.cache_teacher:
        train, held_out = (CachedTeacher(teacher, tokenizer, part, max_length=args.max_length) for part in texts)
        collate, lengths = train.collate, train.lengths
    else:
        tokens = [tokenizer(part, truncation=True, max_length=args.max_length) for part in texts]
        train, held_out = (Dataset.from_dict(dict(part)) for part in tokens)
        lengths = [len(ids) for ids in tokens[0]["input_ids"]]
        masked = type(teacher).__name__.endswith("ForMaskedLM")
        collate = (
            DataCollatorForLanguageModeling(tokenizer, mlm_probability=args.mlm_probability)
            if masked
            else DataCollatorWithPadding(tokenizer)
        )
    return train, held_out, collate, LengthGroupedBatches(lengths, args.per_device_train_batch_size, args.seed)


if __name__ == "__main__":
    try:
        main()
    except DepthError as error:
        sys.exit(f"error: {error}")
