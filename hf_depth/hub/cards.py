"""Model cards, filled with what was measured."""

import importlib.resources
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, StrictUndefined
from transformers import PreTrainedModel

from hf_depth.errors import DepthError
from hf_depth.hub.escape import escape_markdown, fence, one_line
from hf_depth.plan import DepthPlan
from hf_depth.register import auto_class_name

# The Hub's task of each head; a bare encoder makes features.
PIPELINE_TAGS = {
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMultipleChoice": "multiple-choice",
}
ROWS = ("teacher", "cut", "healed")
ONE_LINE = ("base_model", "dataset", "license", "title", "evaluated_on", "trained_on")
METRICS = {"cosine": "Cosine with the teacher", "spearman": "Spearman of pair similarities with the teacher's"}


def model_card(model: PreTrainedModel, results: Mapping[str, Any] | None = None) -> ModelCard:
    """The card of a model of a depth family.

    Args:
        model: the model; its config says its depth and the plan that made it.
        results: what was measured, as `hf-depth demo` writes it to `results.json`: objects `teacher`, `cut` and
            `healed`, each with `layers`, `parameters`, `cosine`, `spearman` and `latency_ratio`; any of `base_model`
            and `dataset` (Hub ids), `license`, `language`, `title`, `evaluated_on`, `trained_on` (words) and
            `command` (the one that made it).

    Returns:
        The card; text from `results` is escaped. `card.save(path)` writes it.

    Raises:
        DepthError: if there is no template for the model's family, or a result lacks a number.
    """
    results = {
        name: one_line(value) if name in ONE_LINE and value is not None else value
        for name, value in (results or {}).items()
    }
    family = model.config.model_type
    template = importlib.resources.files("hf_depth.hub_cards") / f"{family}.md.jinja"
    if not template.is_file():
        raise DepthError(f"There is no card for model type {family!r}; cards are made for the depth families")
    rows = [_row(name, results[name]) for name in ROWS if name in results]
    results |= _origin(results.get("base_model"))
    plan = DepthPlan.from_dict(model.config.depth_plan) if model.config.depth_plan else None
    origin = results["origin"]
    environment = Environment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    environment.filters |= {"md": escape_markdown, "fence": fence, "number": _number}
    content = environment.from_string(template.read_text(encoding="utf-8")).render(
        card_data=_metadata(model, results, rows).to_yaml(),
        title=results.get("title") or f"{_base_name(origin)}{model.config.num_hidden_layers} layers",
        layers=model.config.num_hidden_layers,
        source_layers=results.get("teacher", {}).get("layers"),
        base_model=origin,
        rows=rows,
        plan=plan.describe() if plan else None,
        evaluated_on=results.get("evaluated_on"),
        trained_on=results.get("trained_on"),
        command=results.get("command"),
        usage=usage(model, "FOLDER_OR_HUB_ID"),
        versions={
            "hf_depth": version("hf-depth"),
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        },
    )
    return ModelCard(content)


def usage(model: PreTrainedModel, path: str) -> str:
    """The lines of Python that load a model of a depth family."""
    auto = auto_class_name(type(model))
    return f"import hf_depth\nfrom transformers import {auto}\nmodel = {auto}.from_pretrained({json.dumps(path)})"


def _row(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("layers", "parameters", "cosine", "spearman", "latency_ratio")
    missing = [field for field in fields if field not in result]
    if missing:
        raise DepthError(f"The result {name!r} lacks {', '.join(missing)}; it needs {', '.join(fields)}")
    return {"name": name, **{field: result[field] for field in fields}}


def _metadata(model: PreTrainedModel, results: Mapping[str, Any], rows: list[dict[str, Any]]) -> ModelCardData:
    head = next((head for head in PIPELINE_TAGS if type(model).__name__.endswith(head)), None)
    task = PIPELINE_TAGS[head] if head else "feature-extraction"
    healed = next((row for row in rows if row["name"] == "healed"), None)
    name = _base_name(results["origin"]) + f"{model.config.num_hidden_layers} layers"
    dataset = results.get("dataset")
    evaluations = [
        EvalResult(
            task_type=task,
            dataset_type=dataset or "text",
            dataset_name=results.get("evaluated_on") or dataset or "held-out text",
            metric_type=metric,
            metric_name=label,
            metric_value=round(float(healed[metric]), 4),
        )
        for metric, label in METRICS.items()
        if healed and healed[metric] is not None
    ]
    return ModelCardData(
        library_name="transformers",
        base_model=results.get("base_model"),
        license=results.get("license"),
        language=results.get("language"),
        datasets=[dataset] if dataset else None,
        pipeline_tag=task,
        tags=["hf-depth", model.config.model_type],
        model_name=name if evaluations else None,
        eval_results=evaluations or None,
    )


def _origin(base_model: str | None) -> dict[str, str | None]:
    """The base as a Hub id, or as the name of a folder, which is no Hub id and whose place concerns nobody."""
    if base_model and Path(base_model).exists():
        return {"base_model": None, "origin": Path(base_model).resolve().name}
    return {"base_model": base_model, "origin": base_model}


def _base_name(base_model: str | None) -> str:
    return f"{base_model.rstrip('/').split('/')[-1]}, " if base_model else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
