"""Texts for training and evaluation: the embedded sample, a local file, or a data set of the Hub."""

import hashlib
import importlib.resources
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import datasets

from hf_depth.errors import DepthError

# Loaders of `datasets` by how a file's name ends; `.gz` may follow.
LOADERS = {".txt": "text", ".jsonl": "json", ".json": "json", ".csv": "csv"}
# The field that is read where none is named: the first of these that the rows have.
FIELDS = ("text", "document", "sentence", "content")


def load_texts(
    source: str | Path | None = None,
    *,
    split: Literal["train", "validation", "test"] | str = "train",
    field: str | None = None,
    limit: int | None = None,
) -> list[str]:
    """Texts without white space around them; empty ones are left out.

    Args:
        source: `None` for the embedded sample (Debian package descriptions); a local `.txt` (one text a line),
            `.jsonl`, `.json` or `.csv`, also with `.gz`; or the id of a data set of the Hub, with `:` before the name
            of a configuration.
        split: split of the sample or of a Hub data set; a local file is one split.
        field: the field that holds the text; by default `text`, `document`, `sentence` or `content`.
        limit: number of texts at most.

    Raises:
        DepthError: if there is no such file, it is not UTF-8, it has no such field, or no text.
    """
    if source is None:
        sample = importlib.resources.files("hf_depth.data.sample") / f"descriptions.{split}.jsonl.gz"
        if not sample.is_file():
            raise DepthError(f"The embedded sample has the splits train and validation, not {split!r}")
        source = Path(str(sample))
    path = Path(source)
    if path.exists() or path.suffix in {*LOADERS, ".gz"}:
        rows = _load_file(path)
    else:
        rows = _load_from_hub(str(source), split)
    name = field or next((name for name in FIELDS if name in rows.column_names), None)
    if name is None or name not in rows.column_names:
        wanted = f"no field {field!r}" if field else f"none of the fields {', '.join(FIELDS)}"
        raise DepthError(f"{source} has {wanted}; its fields are {', '.join(rows.column_names) or 'none'}")
    texts = [text for row in rows[name] if (text := str(row or "").strip())]
    if not texts:
        raise DepthError(f"{source} holds no text; give a file with at least one line that is not empty")
    return texts[:limit]


def split_held_out(texts: Sequence[str], held_out: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts to train on and texts to evaluate on; a text that stands twice counts once.

    Args:
        texts: all texts.
        held_out: number of texts to evaluate on.
        seed: of the choice, which depends on the texts and not on their order.

    Raises:
        DepthError: if fewer than one text would be left to train on.
    """
    distinct = list(dict.fromkeys(texts))
    if not 0 < held_out < len(distinct):
        raise DepthError(
            f"{held_out} texts cannot be held out of {len(distinct)} different ones with some left to train on; give "
            "more text"
        )
    ranked = sorted(distinct, key=lambda text: hashlib.sha256(f"{seed}:{text}".encode()).digest())
    evaluated = set(ranked[:held_out])
    return [text for text in distinct if text not in evaluated], ranked[:held_out]


def _load_file(path: Path) -> datasets.Dataset:
    if not path.is_file():
        raise DepthError(f"There is no file {path}")
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind not in LOADERS:
        raise DepthError(f"{path} ends in {kind!r}; text is read from {', '.join(LOADERS)}, also with .gz")
    if path.suffix != ".gz":
        _check_utf8(path)
    try:
        # The rows are small, and a cache would outlive a change of the file that keeps its size and time.
        return datasets.load_dataset(LOADERS[kind], data_files=str(path), split="train", keep_in_memory=True)
    except (datasets.exceptions.DatasetGenerationError, ValueError, OSError) as error:
        cause = error.__cause__ or error
        raise DepthError(f"{path} cannot be read as {kind}: {' '.join(str(cause).split())}") from error


def _check_utf8(path: Path) -> None:
    content = path.read_bytes()
    if not content.strip():
        raise DepthError(f"{path} is empty; give a file with at least one line of text")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DepthError(
            f"{path} is not UTF-8: byte {error.start} is 0x{content[error.start]:02x}; convert it, for example with "
            f"`iconv -f latin1 -t utf-8`"
        ) from error


def _load_from_hub(source: str, split: str) -> datasets.Dataset:
    name, _, configuration = source.partition(":")
    try:
        return datasets.load_dataset(name, configuration or None, split=split)
    except (OSError, ValueError) as error:
        raise DepthError(
            f"{source} is neither a file that is here nor a data set that can be loaded from the Hub: "
            f"{' '.join(str(error).split())}"
        ) from error
