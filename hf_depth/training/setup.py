"""What a run is built of before it starts: the accelerator, the groups of parameters, a free output folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accelerate import Accelerator, DataLoaderConfiguration, DistributedDataParallelKwargs, DistributedType
from accelerate.utils import ProjectConfiguration
from torch import nn

from hf_depth.errors import DepthError
from hf_depth.files import check_free
from hf_depth.training.arguments import EngineArguments

SUPPORTED = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)


def make_accelerator(args: EngineArguments, output_dir: Path) -> Accelerator:
    """The accelerator of a run.

    Raises:
        DepthError: if the machine or the way of launching does not fit the arguments.
    """
    try:
        accelerator = Accelerator(
            mixed_precision=args.mixed_precision,
            cpu=args.use_cpu,
            log_with=args.log_with or None,
            project_config=ProjectConfiguration(str(output_dir), logging_dir=str(output_dir / "trackers")),
            dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=args.seed),
            step_scheduler_with_optimizer=False,  # the schedule counts optimizer steps, not those of all processes
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=args.ddp_find_unused_parameters)],
        )
    except ValueError as error:
        raise DepthError(f"Accelerate cannot run with these arguments: {error}") from error
    if accelerator.distributed_type not in SUPPORTED:
        kind = accelerator.distributed_type.value
        raise DepthError(f"The engine runs in one process or in several with DDP, not with {kind}")
    launched_with, told = accelerator.gradient_accumulation_steps, args.gradient_accumulation_steps
    if launched_with not in (1, told):
        raise DepthError(
            f"accelerate launch says gradient_accumulation_steps={launched_with}, the arguments of the run {told}; "
            "leave it out of Accelerate's configuration"
        )
    accelerator.gradient_accumulation_steps = 1  # the engine's shares add up, so `backward` has nothing to divide by
    return accelerator


def parameter_groups(modules: Iterable[nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """Trainable parameters, each once: matrices with weight decay; biases, norms and other vectors without.

    Raises:
        DepthError: if there is none.
    """
    found = dict.fromkeys(each for module in modules for each in module.parameters() if each.requires_grad)
    if not found:
        raise DepthError("The model has no trainable parameter; set requires_grad on those to train")
    groups = [
        {"params": [each for each in found if each.ndim >= 2], "weight_decay": weight_decay},
        {"params": [each for each in found if each.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def check_new_run(output_dir: str) -> None:
    """Refuse a folder in use, and say how to go on with the run in it.

    Raises:
        DepthError: as `check_free`.
    """
    folder = Path(output_dir).expanduser()
    if folder.is_dir() and any(folder.iterdir()):
        raise DepthError(
            f"The output folder {output_dir} is not empty; choose another folder, or go on with the run in it by "
            "resume_from_checkpoint=latest"
        )
    check_free(output_dir)
