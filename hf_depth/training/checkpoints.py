"""What a run keeps on disk while it trains: its log, its best weights, and checkpoints that are whole or not there.

A checkpoint is a folder `checkpoint-{step}` with what `Accelerator.save_state` writes (weights as safetensors;
optimizer, schedule and scaler by `torch.save`), `progress.json` and, where they exist, `objective.safetensors` and
`best.safetensors`. Accelerate reads what `torch.save` wrote with `weights_only=True`, so nothing in it is run.
Objects given to `register_for_checkpointing` would be unpickled in full, so there are none: the rest is JSON and
safetensors. Accelerate passes over random states that it cannot read; the engine does not use them.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import Tensor, nn

from hf_depth.errors import DepthError
from hf_depth.files import remove_folder

PROGRESS = "progress.json"
LOG = "log.jsonl"
LATEST = "latest"
BEST = Path("best", "model.safetensors")
BEST_COPY = "best.safetensors"
OBJECTIVE = "objective.safetensors"

Row = dict[str, Any]


@dataclass
class Progress:
    """Where a run is, beside what Accelerate keeps.

    Attributes:
        step: optimizer steps done.
        best_metric: best value so far of the metric that chooses the best weights.
        best_step: step it was measured at.
        unlogged: loss and parts of the steps since the last logged one.
        log_history: all rows of the log.
        settings: what a resumed run has to share with this one.
    """

    step: int = 0
    best_metric: float | None = None
    best_step: int | None = None
    unlogged: list[Row] = field(default_factory=list)
    log_history: list[Row] = field(default_factory=list)
    settings: Row = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, settings: Mapping[str, Any]) -> "Progress":
        """The progress of a checkpoint that a run with these settings can go on from.

        Raises:
            DepthError: if the folder is no checkpoint, or was made with other settings; names both values.
        """
        try:
            progress = cls(**json.loads((folder / PROGRESS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise DepthError(
                f"{folder} is not a checkpoint of a training run: it has no readable {PROGRESS}"
            ) from error
        made_with = progress.settings
        differing = [
            f"{name} {made_with.get(name)!r} (now {value!r})"
            for name, value in settings.items()
            if made_with.get(name) != value
        ]
        if differing:
            raise DepthError(
                f"{folder} was made with other settings: {', '.join(differing)}; resume with those of the checkpoint, "
                "or start a new run"
            )
        return progress


class RunFolder:
    """The output folder of a run; all processes call its methods, the main one writes.

    Args:
        accelerator: of the run, everything prepared.
        path: the folder.
    """

    def __init__(self, accelerator: Accelerator, path: Path) -> None:
        self.accelerator = accelerator
        self.path = path

    def start_log(self, rows: list[Row]) -> None:
        """Write `log.jsonl` anew with these rows, whole or not at all."""
        if self.accelerator.is_main_process:
            self.path.mkdir(parents=True, exist_ok=True)
            staged = self.path / f".{LOG}"
            staged.write_text("".join(_line(row) for row in rows), encoding="utf-8")
            staged.replace(self.path / LOG)

    def log(self, row: Row) -> None:
        """Add a row to `log.jsonl`."""
        if self.accelerator.is_main_process:
            with (self.path / LOG).open("a", encoding="utf-8") as file:
                file.write(_line(row))

    def keep_best(self, model: nn.Module) -> None:
        """Write a model's weights as the best ones, in place of earlier ones."""
        if self.accelerator.is_main_process:
            target = self.path / BEST
            target.parent.mkdir(exist_ok=True)
            staged = target.with_name(f".{target.name}.partial")
            save_model(self.accelerator.unwrap_model(model), str(staged))
            staged.replace(target)
        self.accelerator.wait_for_everyone()

    def load_best(self, model: nn.Module) -> None:
        """Give a model the best weights."""
        load_model(self.accelerator.unwrap_model(model), self.path / BEST)

    def save_checkpoint(self, progress: Progress, objective: Mapping[str, Tensor], limit: int | None) -> None:
        """Write `checkpoint-{step}` and remove the oldest ones beyond `limit`.

        Args:
            progress: where the run is.
            objective: tensors of the objective, by name.
            limit: number of checkpoints to keep; `None` keeps all.
        """
        target = self.path / f"checkpoint-{progress.step}"
        staged = target.with_name(f".{target.name}.partial")
        if self.accelerator.is_main_process:
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir()
        self.accelerator.wait_for_everyone()
        self.accelerator.save_state(str(staged))
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            if objective:
                save_file(dict(objective), staged / OBJECTIVE)
            if progress.best_step is not None:
                shutil.copy(self.path / BEST, staged / BEST_COPY)
            (staged / PROGRESS).write_text(json.dumps(asdict(progress), allow_nan=False), encoding="utf-8")
            staged.rename(target)
            for old in list(_checkpoints(self.path).values())[: -limit if limit else 0]:
                remove_folder(old)
        self.accelerator.wait_for_everyone()

    def resume(self, wanted: str, settings: Mapping[str, Any], objective: Mapping[str, Tensor]) -> Progress:
        """Bring weights, optimizer, schedule, objective, best weights and log to where they were at a checkpoint.

        Args:
            wanted: the checkpoint's folder, or `"latest"`.
            settings: what has to be as it was.
            objective: tensors of the objective, by name, which are overwritten.

        Raises:
            DepthError: if there is no such checkpoint, or it does not fit the run.
        """
        folder = self._find(wanted)
        progress = Progress.read(folder, settings)
        try:
            self.accelerator.load_state(str(folder))
            for name, value in load_file(folder / OBJECTIVE).items() if objective else ():
                objective[name].copy_(value)
        except (RuntimeError, ValueError, KeyError, OSError, SafetensorError) as error:
            raise DepthError(f"The checkpoint {folder} cannot be loaded into this model: {error}") from error
        self.start_log(progress.log_history)
        if self.accelerator.is_main_process:
            for leftover in self.path.glob(".*.partial"):  # of a run that was killed
                shutil.rmtree(leftover)
            if progress.best_step is not None:
                (self.path / BEST).parent.mkdir(exist_ok=True)
                shutil.copy(folder / BEST_COPY, self.path / BEST)
            else:
                (self.path / BEST).unlink(missing_ok=True)
        self.accelerator.wait_for_everyone()
        return progress

    def _find(self, wanted: str) -> Path:
        there = _checkpoints(self.path)
        if wanted == LATEST:
            if not there:
                raise DepthError(f"There is no checkpoint in {self.path} to resume from; start anew in another folder")
            return there[max(there)]
        folder = Path(wanted).expanduser().absolute()
        if not folder.is_dir():
            raise DepthError(f"The checkpoint {wanted} to resume from is not a folder; give one, or 'latest'")
        newer = [path.name for path in there.values() if folder in there.values() and _step(path) > _step(folder)]
        if newer:  # the run would come to write them again
            raise DepthError(
                f"{wanted} is older than {', '.join(newer)}; resume from 'latest' or move the newer ones away"
            )
        return folder


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints in a folder by step, oldest first."""
    named = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return {_step(path): path for path in sorted(named, key=_step)}


def _line(row: Row) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
