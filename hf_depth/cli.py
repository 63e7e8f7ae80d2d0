"""`hf-depth ...`: a thin face over the public functions. Errors of input are one sentence and a non-zero exit."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hf_depth.errors import DepthError

app = typer.Typer(
    name="hf-depth",
    help="Depth as a setting of Hugging Face models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()
P = ParamSpec("P")
R = TypeVar("R")

Source = Annotated[str, typer.Argument(help="Folder or Hub id of the model.", show_default=False)]
Out = Annotated[Path, typer.Argument(help="Folder to write; must not exist, or be empty.", show_default=False)]
Layers = Annotated[int | None, typer.Option(help="The depth wanted.", show_default=False)]
PlanText = Annotated[
    str | None, typer.Option(help="The layers themselves: '0-3,8-11', '+' for a fresh one.", show_default=False)
]


def clear_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Let a command print what is wrong with its input as one sentence and exit with status 2."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except DepthError as error:
            Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(2) from error

    return run


@app.command()
@clear_errors
def convert(source: Source, out: Out) -> None:
    """Turn a stock checkpoint into a family model with the same numbers."""
    from hf_depth.convert import convert as convert_model
    from hf_depth.files import check_free

    check_free(out)
    model = convert_model(source)
    _save(model, source, out)
    console.print(
        f"{type(model).__name__}, {model.config.num_hidden_layers} layers, in {escape(str(out))}", soft_wrap=True
    )


@app.command()
@clear_errors
def resize(
    source: Source,
    out: Out,
    layers: Layers = None,
    strategy: Annotated[str, typer.Option(help="How --layers are chosen: even, spread, first or last.")] = "even",
    plan: PlanText = None,
) -> None:
    """Write a model of another depth; a stock model stays stock."""
    from hf_depth.checkpoint import load_checkpoint
    from hf_depth.files import check_free
    from hf_depth.plan import DepthPlan
    from hf_depth.resize import resize as resize_model

    check_free(out)
    model = resize_model(load_checkpoint(source), layers=layers, strategy=strategy, plan=plan)
    _save(model, source, out)
    table = Table("stack", "layer", "from layer")
    for stack, new, old in DepthPlan.from_dict(model.config.depth_plan).describe():
        table.add_row(stack, str(new), "fresh" if old is None else str(old))
    console.print(table)


@app.command()
@clear_errors
def card(
    folder: Annotated[Path, typer.Argument(help="Folder of a depth family model.", show_default=False)],
    results: Annotated[
        Path | None, typer.Option(help="Measured results; by default results.json in the folder.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option(help="Write over a README.md that is there.")] = False,
) -> None:
    """Write a model card, README.md, with what was measured."""
    from hf_depth.checkpoint import load_checkpoint
    from hf_depth.hub import model_card

    target = folder / "README.md"
    if target.exists() and not force:
        raise DepthError(f"{target} exists; give --force to write over it")
    path = results or folder / "results.json"
    model = load_checkpoint(folder)
    model_card(model, _read_results(path) if results or path.exists() else None).save(target)
    console.print(f"{escape(str(target))} written", soft_wrap=True)


@app.command()
@clear_errors
def demo(
    source: Annotated[
        str | None, typer.Argument(help="Folder or Hub id of an encoder; by default the MiniLM of the demo extra.")
    ] = None,
    text: Annotated[
        Path | None, typer.Option(help="Text to heal on, one a line, or .jsonl/.csv; by default the embedded sample.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist, or be empty.")] = Path("hf-depth-demo"),
    layers: Layers = None,
    plan: PlanText = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.", min=1, show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 0,
) -> None:
    """Cut an encoder to a depth, heal it by distillation, measure it, and write a folder that loads."""
    from hf_depth.demo import run_demo

    run_demo(source, text=text, out=out, layers=layers, plan=plan, steps=steps, seed=seed, console=console)


def _save(model: Any, source: str, out: Path) -> None:
    from hf_depth.checkpoint import load_tokenizer
    from hf_depth.files import new_folder

    tokenizer = load_tokenizer(source)
    with new_folder(out) as folder:
        model.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
    if tokenizer is None:
        console.print(f"{escape(source)} has no tokenizer, so none was written", soft_wrap=True)


def _read_results(path: Path) -> dict[str, Any]:
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DepthError(f"{path} cannot be read as results: {error}") from error
    if not isinstance(results, dict):
        raise DepthError(f"{path} holds {type(results).__name__}, expected an object with results")
    return results
