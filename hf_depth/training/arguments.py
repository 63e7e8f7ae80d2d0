"""What a training run is told; names as in `transformers.TrainingArguments` wherever the same thing exists there."""

import math
import types
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

from hf_depth.errors import DepthError

# Those of transformers' schedules that follow from the numbers of steps alone.
Schedule = Literal[
    "linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt"
]

# Neither the weights nor their order of updates depend on these, so that a resumed run may have others.
FREE_ON_RESUME = frozenset(
    {
        "dataloader_num_workers",
        "ddp_find_unused_parameters",
        "disable_tqdm",
        "eval_steps",
        "log_with",
        "output_dir",
        "per_device_eval_batch_size",
        "resume_from_checkpoint",
        "save_steps",
        "save_total_limit",
    }
)

# The least value that a number may have, and the values it has to stay below.
_AT_LEAST = {
    "per_device_train_batch_size": 1,
    "per_device_eval_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "logging_steps": 1,
    "save_total_limit": 1,
    "seed": 0,
    "eval_steps": 0,
    "save_steps": 0,
    "dataloader_num_workers": 0,
    "learning_rate": 0,
    "weight_decay": 0,
    "adam_beta1": 0,
    "adam_beta2": 0,
    "adam_epsilon": 0,
    "max_grad_norm": 0,
    "warmup_steps": 0,
}
_BELOW = {"adam_beta1": 1, "adam_beta2": 1, "seed": 2**32}


@dataclass
class EngineArguments:
    """Arguments of `Engine`; a recipe's own dataclass inherits them.

    Raises:
        DepthError: if a value is of a wrong type or out of range; names the field, the value and what was expected.
    """

    output_dir: str = field(
        default="", metadata={"help": "Folder for log, checkpoints and the trained model (required)."}
    )
    resume_from_checkpoint: str = field(
        default="",
        metadata={
            "help": "Checkpoint to go on from: a folder, or 'latest' for the newest one in output_dir; '' starts anew."
        },
    )
    seed: int = field(default=42, metadata={"help": "Seed of the order of the data, dropout and random collators."})
    max_steps: int = field(
        default=-1, metadata={"help": "Number of optimizer steps; -1 takes num_train_epochs instead."}
    )
    num_train_epochs: float = field(
        default=3.0, metadata={"help": "Passes over the training data; fractions are fine."}
    )
    per_device_train_batch_size: int = field(default=8, metadata={"help": "Rows of a micro-batch on each device."})
    per_device_eval_batch_size: int = field(
        default=8, metadata={"help": "Rows of an evaluation batch on each device."}
    )
    gradient_accumulation_steps: int = field(
        default=1, metadata={"help": "Micro-batches that make one optimizer step."}
    )
    learning_rate: float = field(default=5e-5, metadata={"help": "Peak learning rate of AdamW."})
    weight_decay: float = field(
        default=0.0, metadata={"help": "Decoupled weight decay of matrices; not of biases and norms."}
    )
    adam_beta1: float = field(default=0.9, metadata={"help": "AdamW's decay rate of the mean of gradients."})
    adam_beta2: float = field(default=0.999, metadata={"help": "AdamW's decay rate of the mean of squared gradients."})
    adam_epsilon: float = field(default=1e-8, metadata={"help": "AdamW's term that keeps the denominator from zero."})
    max_grad_norm: float = field(
        default=1.0, metadata={"help": "Norm that gradients are clipped to; 0 does not clip."}
    )
    lr_scheduler_type: Schedule = field(default="linear", metadata={"help": "Schedule of transformers.get_scheduler."})
    warmup_steps: float = field(
        default=0.0, metadata={"help": "Steps of linear warm-up: a whole number, or below 1 a share of all steps."}
    )
    mixed_precision: Literal["no", "bf16", "fp16"] = field(
        default="no", metadata={"help": "Precision of the forward pass; weights stay as they are. fp16 needs a GPU."}
    )
    use_cpu: bool = field(default=False, metadata={"help": "Train on the CPU even where there is a GPU."})
    ddp_find_unused_parameters: bool = field(
        default=True, metadata={"help": "With several processes: allow parameters that the loss does not reach."}
    )
    dataloader_num_workers: int = field(default=0, metadata={"help": "Worker processes that make batches; 0: none."})
    logging_steps: int = field(default=10, metadata={"help": "Log the mean loss every so many steps."})
    eval_steps: int = field(default=0, metadata={"help": "Evaluate every so many steps; 0: only after the last one."})
    save_steps: int = field(default=0, metadata={"help": "Write a checkpoint every so many steps; 0: none."})
    save_total_limit: int | None = field(
        default=None, metadata={"help": "Number of checkpoints to keep, the newest ones; None keeps all."}
    )
    log_with: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Accelerate's trackers to log to, such as tensorboard or wandb, beside output_dir/log.jsonl."
        },
    )
    metric_for_best_model: str | None = field(
        default=None,
        metadata={"help": "Evaluation metric by which the best weights are kept; None keeps the last weights."},
    )
    greater_is_better: bool | None = field(
        default=None, metadata={"help": "Whether a higher metric is better; None: unless its name ends with 'loss'."}
    )
    disable_tqdm: bool = field(default=False, metadata={"help": "Show no progress bar."})

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in fields(EngineArguments):
            setattr(self, each.name, _checked(each.name, getattr(self, each.name), hints[each.name]))
        if not self.output_dir:
            raise DepthError("output_dir is empty; name the folder that the run shall write to")
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise DepthError(f"{name}={value} is out of range; it has to be at least {least}")
        for name, limit in _BELOW.items():
            if getattr(self, name) >= limit:
                raise DepthError(f"{name}={getattr(self, name)} is out of range; it has to be below {limit}")
        if self.max_steps != -1 and self.max_steps < 1:
            raise DepthError(
                f"max_steps={self.max_steps} is out of range; give at least 1, or -1 to go by num_train_epochs"
            )
        if self.max_steps == -1 and self.num_train_epochs <= 0:
            raise DepthError(f"num_train_epochs={self.num_train_epochs} is out of range; it has to be above 0")
        if self.warmup_steps >= 1 and not self.warmup_steps.is_integer():
            raise DepthError(
                f"warmup_steps={self.warmup_steps} is neither a whole number of steps nor a share below 1"
            )
        _check_trackers(self.log_with)
        if self.greater_is_better is None and self.metric_for_best_model is not None:
            self.greater_is_better = not self.metric_for_best_model.endswith("loss")

    def warmup(self, total_steps: int) -> int:
        """The number of warm-up steps of a run of `total_steps`."""
        return int(self.warmup_steps) if self.warmup_steps >= 1 else math.ceil(self.warmup_steps * total_steps)

    def settings(self) -> dict[str, Any]:
        """What has to be the same when a run is resumed, by field name."""
        return {
            each.name: getattr(self, each.name) for each in fields(EngineArguments) if each.name not in FREE_ON_RESUME
        }


def _checked(name: str, value: Any, hint: Any) -> Any:
    """`value` if it is of the type `hint`; a number written as text, as YAML reads `1e-4`, becomes a number."""
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        hint = next(each for each in get_args(hint) if each is not types.NoneType)
    if get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
        quotes = '; YAML reads a bare no as false, so write "no" in quotes' if value is False else ""
        raise DepthError(f"{name}={value!r} is unknown; choose one of {', '.join(get_args(hint))}{quotes}")
    if get_origin(hint) is list:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return value
        raise DepthError(f"{name}={value!r} is not a list of names")
    if hint is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            value = float(value)
        except ValueError:
            raise DepthError(f"{name}={value!r} is not a number") from None
    fits = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    if not fits or (hint is float and not math.isfinite(value)):
        kinds = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}
        raise DepthError(f"{name}={value!r} is not {kinds[hint]}")
    return value


def _check_trackers(names: list[str]) -> None:
    """Accelerate leaves out a tracker whose package is missing without a word, so this says it before."""
    known = list(LOGGER_TYPE_TO_CLASS)
    available = [str(each) for each in get_available_trackers()]
    for name in names:
        if name not in known:
            raise DepthError(f"log_with names the tracker {name!r}; Accelerate knows {', '.join(known)}")
        if name not in available:
            raise DepthError(
                f"log_with names the tracker {name!r}, whose package is not installed; install it or leave it out"
            )
