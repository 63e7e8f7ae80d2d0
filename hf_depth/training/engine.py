"""The training loop of the recipes, on Accelerate: exact accumulation, evaluation, checkpoints, the final save."""

import math
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast, set_seed
from huggingface_hub import ModelCard
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import PreTrainedModel, get_scheduler

from hf_depth.errors import DepthError
from hf_depth.files import move_content
from hf_depth.training.arguments import EngineArguments
from hf_depth.training.checkpoints import Progress, Row, RunFolder
from hf_depth.training.evaluation import DatasetEvaluator, Evaluate
from hf_depth.training.objective import Objective, ObjectiveOutput
from hf_depth.training.randomness import STEP, Batch, Batches, Collate, as_is, derive_seed
from hf_depth.training.setup import check_new_run, make_accelerator, parameter_groups


@dataclass(frozen=True)
class TrainResult:
    """What a run came to.

    Attributes:
        steps: optimizer steps of the whole run, those before a resume included.
        log_history: the rows of `log.jsonl`.
        best_metric: best value of `metric_for_best_model`; `None` without one.
        best_step: the step it was measured at, whose weights the model now has.
        seconds: wall time of this call.
    """

    steps: int
    log_history: list[Row]
    best_metric: float | None
    best_step: int | None
    seconds: float


class Engine:
    """Trains a model on an objective, in one process or several (DDP).

    The gradient of a step is that of the loss over all rows of its window (`gradient_accumulation_steps` micro-batches
    of each process): counts are summed over the window first, then every micro-batch adds its share. The last window
    of an epoch may be shorter. Draws depend on seed, epoch, batch, step and process alone, not on what was drawn
    before, so a run resumed from a checkpoint ends with the weights of one that never stopped.

    Args:
        model: what is trained; parameters that need no gradient are left alone.
        args: how.
        objective: the loss, see `Objective`. If it is an `nn.Module`, its parameters are trained and kept in
            checkpoints, but not saved with the model.
        train_dataset: rows by number, with a length.
        collate: makes a batch, a mapping of tensors, of a list of rows.
        evaluate: metrics of the model, see `Evaluate`.
        eval_dataset: if given, the objective's loss on it is evaluated too.
        processing_class: tokenizer that is saved with the model.
        batch_sampler: lists of rows instead of a shuffle, with a length. If it has `set_epoch(epoch)`, its lists may
            differ by epoch; they have to be the same whenever the epoch is.

    Raises:
        DepthError: for an output folder in use, data without rows, a model without trainable parameters, or an
            argument that cannot be met.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: EngineArguments,
        objective: Objective,
        train_dataset: Any,
        *,
        collate: Collate,
        evaluate: Evaluate | None = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        batch_sampler: Any = None,
    ) -> None:
        if not hasattr(train_dataset, "__len__") or len(train_dataset) == 0:
            raise DepthError("The training data has no rows or no length; give a dataset with at least one row")
        self.args = args
        self.objective = objective
        self.processing_class = processing_class
        self.output_dir = Path(args.output_dir).expanduser().absolute()
        self.accelerator = make_accelerator(args, self.output_dir)
        self._folder = RunFolder(self.accelerator, self.output_dir)
        if self.accelerator.is_main_process and not args.resume_from_checkpoint:
            check_new_run(args.output_dir)
        self.evaluators: list[Evaluate] = [evaluate] if evaluate is not None else []
        if eval_dataset is not None:
            size = args.per_device_eval_batch_size
            self.evaluators.append(DatasetEvaluator(objective, eval_dataset, collate, size, args.seed))
        if args.metric_for_best_model and not self.evaluators:
            raise DepthError(
                f"metric_for_best_model={args.metric_for_best_model!r} needs an evaluation, and none was given"
            )

        self._objective_module = objective if isinstance(objective, nn.Module) else nn.Module()
        self._objective_module.to(self.accelerator.device)
        for tensor in self._objective_state().values():
            tensor.copy_(broadcast(tensor))
        optimizer = torch.optim.AdamW(
            parameter_groups([model, self._objective_module], args.weight_decay),
            lr=args.learning_rate,
            betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_epsilon,
            fused=True,
        )
        self._trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._batches = Batches(train_dataset, collate, args.seed)
        self._batch_sampler = batch_sampler
        shuffled = {"batch_size": args.per_device_train_batch_size, "shuffle": True}
        order = shuffled if batch_sampler is None else {"batch_sampler": batch_sampler}
        loader: DataLoader = DataLoader(
            self._batches, collate_fn=as_is, num_workers=args.dataloader_num_workers, **order
        )
        self.model, self._optimizer, self._loader = self.accelerator.prepare(model, optimizer, loader)

        self.steps_per_epoch = math.ceil(len(self._loader) / args.gradient_accumulation_steps)
        by_epochs = math.ceil(args.num_train_epochs * self.steps_per_epoch)
        self.total_steps = by_epochs if args.max_steps == -1 else args.max_steps
        schedule = get_scheduler(args.lr_scheduler_type, optimizer, args.warmup(self.total_steps), self.total_steps)
        self._scheduler = self.accelerator.prepare(schedule)
        data = {"training rows": len(train_dataset), "processes": self.accelerator.num_processes}
        self.progress = Progress(settings={**args.settings(), **data})

    def train(self) -> TrainResult:
        """Train to the end, from the start or from the checkpoint that the arguments name; to be called once.

        Raises:
            DepthError: if the checkpoint does not fit, or a loss, gradient or deciding metric is not finite.
        """
        began = time.perf_counter()
        args, accelerator = self.args, self.accelerator
        if args.resume_from_checkpoint:
            settings, state = self.progress.settings, self._objective_state()
            self.progress = self._folder.resume(args.resume_from_checkpoint, settings, state)
        else:
            self._folder.start_log([])
        plain = {k: v if isinstance(v, int | float | str) else str(v) for k, v in asdict(args).items()}
        accelerator.init_trackers("hf-depth", config=plain)
        self._set_mode(training=True)

        try:
            self._train_to_end()
        finally:
            for tracker in accelerator.trackers:
                tracker.finish()
        progress = self.progress
        if progress.best_step is not None:
            self._folder.load_best(self.model)
        accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)  # its forward is its own again
        self._set_mode(training=False)
        seconds = time.perf_counter() - began
        return TrainResult(progress.step, progress.log_history, progress.best_metric, progress.best_step, seconds)

    def _train_to_end(self) -> None:
        """All steps that are left, with what is due after each."""
        args, progress = self.args, self.progress
        silent = args.disable_tqdm or not self.accelerator.is_main_process
        with tqdm(total=self.total_steps, initial=progress.step, disable=silent, desc="training", unit="step") as bar:
            for window in self._windows():
                rate, norm = self._scheduler.get_last_lr()[0], self._update(window)
                bar.update()
                last = progress.step == self.total_steps
                if last or progress.step % args.logging_steps == 0:
                    row = self._log_training(rate, norm)
                    bar.set_postfix(loss=f"{row['loss']:.4f}")
                if self.evaluators and (last or (args.eval_steps and progress.step % args.eval_steps == 0)):
                    self._evaluate()
                if args.save_steps and progress.step % args.save_steps == 0:
                    self._folder.save_checkpoint(progress, self._objective_state(), args.save_total_limit)

    def backward(self, window: list[Batch]) -> ObjectiveOutput:
        """Add the gradient of the loss over all rows of a window to `.grad`.

        Args:
            window: micro-batches of this process, as many as every other process has.

        Returns:
            The loss and its parts, over all processes.
        """
        accelerator = self.accelerator
        counts: dict[str, Tensor] = {}
        for batch in window:
            _add(counts, self.objective.count(batch))
        totals = accelerator.reduce(counts, "sum")

        loss = torch.zeros((), device=accelerator.device)
        parts: dict[str, Tensor] = {}
        for number, batch in enumerate(window, start=1):
            with accelerator.no_sync(self.model) if number < len(window) else nullcontext():
                with accelerator.autocast():
                    output = self.objective(self.model, batch, totals)
                accelerator.backward(output.loss * accelerator.num_processes)  # DDP takes the mean of gradients
            loss += output.loss.detach()
            _add(parts, output.parts)
        if accelerator.num_processes > 1:
            for parameter in self._objective_module.parameters():
                if parameter.requires_grad:
                    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                    parameter.grad = accelerator.reduce(gradient, "mean")
        return ObjectiveOutput(accelerator.reduce(loss, "sum"), accelerator.reduce(parts, "sum"))

    def save(self, model_card: ModelCard | None = None) -> Path:
        """Write model, tokenizer and card into `output_dir`, from where `from_pretrained` loads them.

        They are written to a folder inside it first and moved, the config last, so a model that loads is whole.
        """
        staged = self.output_dir / ".save.partial"
        if self.accelerator.is_main_process:
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir(parents=True)
            try:
                self.accelerator.unwrap_model(self.model).save_pretrained(staged)
                if self.processing_class is not None:
                    self.processing_class.save_pretrained(staged)
                if model_card is not None:
                    model_card.save(staged / "README.md")
                move_content(staged, self.output_dir)
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        return self.output_dir

    def _windows(self) -> Iterator[list[Batch]]:
        """The micro-batches of every step that is left to do."""
        size = self.args.gradient_accumulation_steps
        while self.progress.step < self.total_steps:
            epoch, done = divmod(self.progress.step, self.steps_per_epoch)
            for each in (self._batches, self._loader, self._batch_sampler):
                if hasattr(each, "set_epoch"):
                    each.set_epoch(epoch)
            loader = self.accelerator.skip_first_batches(self._loader, done * size) if done else self._loader
            batches = iter(loader)
            while window := list(islice(batches, size)):
                yield window
                if self.progress.step == self.total_steps:
                    return
            if self.progress.step != (epoch + 1) * self.steps_per_epoch:
                raise DepthError(
                    f"Epoch {epoch} did not have the {len(self._loader)} batches that its sampler's length says"
                )

    def _update(self, window: list[Batch]) -> float | None:
        """One optimizer step; returns the norm of the gradient before clipping, `None` where fp16 overflowed."""
        args, accelerator, step = self.args, self.accelerator, self.progress.step + 1
        set_seed(derive_seed(STEP, args.seed, step, accelerator.process_index))
        output = self.backward(window)
        parts = {name: float(part) for name, part in output.parts.items()}
        norm = float(accelerator.clip_grad_norm_(self._trained, args.max_grad_norm or math.inf))
        checked_norm = {} if accelerator.scaler else {"norm of the gradient": norm}
        for name, value in {"loss": float(output.loss), **parts, **checked_norm}.items():
            if not math.isfinite(value):
                raise DepthError(f"The {name} is {value} at step {step}; lower learning_rate, or look at the data")
        self._optimizer.step()
        if not accelerator.optimizer_step_was_skipped:
            self._scheduler.step()
        self._optimizer.zero_grad()
        self.progress.step = step
        self.progress.unlogged.append({"loss": float(output.loss), "parts": parts})
        return norm if math.isfinite(norm) else None

    def _log_training(self, learning_rate: float, grad_norm: float | None) -> Row:
        """Log the means since the last logged step."""
        steps, self.progress.unlogged = self.progress.unlogged, []
        parts = {name: sum(step["parts"][name] for step in steps) / len(steps) for name in steps[0]["parts"]}
        loss = sum(step["loss"] for step in steps) / len(steps)
        return self._log({"loss": loss, "parts": parts, "learning_rate": learning_rate, "grad_norm": grad_norm})

    def _log(self, values: Row) -> Row:
        """Add a row to history, file and trackers; numbers that are not finite become null."""
        step = self.progress.step
        row = {"step": step, "epoch": round(step / self.steps_per_epoch, 4), **values}
        row = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        self.progress.log_history.append(row)
        self._folder.log(row)
        tracked = {**row, **row.get("parts", {})}
        self.accelerator.log({k: v for k, v in tracked.items() if isinstance(v, int | float)}, step=step)
        return row

    def _evaluate(self) -> None:
        """Run all evaluations, log them, and keep the weights if they are the best."""
        metrics: dict[str, float] = {}
        self._set_mode(training=False)
        with torch.no_grad():
            for evaluate in self.evaluators:
                values = evaluate(self.model, self.accelerator)
                metrics.update({f"eval_{name.removeprefix('eval_')}": float(value) for name, value in values.items()})
        self._set_mode(training=True)
        self._log(dict(metrics))
        if self.args.metric_for_best_model:
            name = f"eval_{self.args.metric_for_best_model.removeprefix('eval_')}"
            if name not in metrics or not math.isfinite(metrics[name]):
                found = f"is {metrics[name]}" if name in metrics else f"is not among {', '.join(metrics)}"
                raise DepthError(f"The metric {name} that chooses the best model {found} at step {self.progress.step}")
            self._keep_if_best(metrics[name])

    def _keep_if_best(self, metric: float) -> None:
        progress = self.progress
        if progress.best_metric is not None:
            gain = metric - progress.best_metric
            if not (gain > 0 if self.args.greater_is_better else gain < 0):
                return
        progress.best_metric, progress.best_step = metric, progress.step
        self._folder.keep_best(self.model)

    def _set_mode(self, *, training: bool) -> None:
        self.model.train(training)
        self._objective_module.train(training)

    def _objective_state(self) -> dict[str, Tensor]:
        """What a checkpoint has to keep of the objective: its trained parameters and its buffers."""
        frozen = {name for name, each in self._objective_module.named_parameters() if not each.requires_grad}
        return {name: each for name, each in self._objective_module.state_dict().items() if name not in frozen}


def _add(sums: dict[str, Tensor], values: Mapping[str, Tensor]) -> None:
    for name, value in values.items():
        sums[name] = sums[name] + value if name in sums else value
