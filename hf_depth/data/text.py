"""Texts for training and evaluation: the embedded sample, a local file, or a data set of the Hub."""

import glob
import gzip
import hashlib
import importlib.resources
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import datasets

from hf_depth.errors import DepthError

# Loaders of `datasets` by how a file's name ends; `.gz` may follow.
LOADERS = {".txt": "text", ".jsonl": "json", ".json": "json", ".csv": "csv"}
# The field that is read where none is named: the first of these that the rows have.
FIELDS = ("text", "document", "sentence", "content")
# What a field of texts is in Arrow; a field that is empty in every row is `null`.
TEXT_TYPES = ("string", "large_string", "null")


def load_texts(
    source: str | Path | None = None,
    *,
    split: str = "train",
    field: str | None = None,
    limit: int | None = None,
) -> list[str]:
    """Texts without white space around them; empty ones are left out.

    Args:
        source: `None` for the embedded sample (Debian package descriptions); a local `.txt` (one text a line),
            `.jsonl`, `.json` or `.csv`, also with `.gz`; or the id of a data set of the Hub, with `:` before the name
            of a configuration.
        split: split of the sample or of a Hub data set; a local file has no other than `train`.
        field: the field that holds the text; by default `text`, `document`, `sentence` or `content`.
        limit: number of texts at most.

    Raises:
        DepthError: if there is no such file or split, it is not UTF-8, it has no such field of text, or no text.
    """
    if limit is not None and limit < 1:
        raise DepthError(f"The limit of texts must be at least 1, got {limit}; leave it out for all of them")
    if source is None:
        sample = importlib.resources.files("hf_depth.data.sample") / f"descriptions.{split}.jsonl.gz"
        if not sample.is_file():
            raise DepthError(f"The embedded sample has the splits train and validation, not {split!r}")
        rows = _load_file(Path(str(sample)))
        source = f"The embedded sample, split {split},"
    elif (path := Path(source)).exists() or path.suffix in {*LOADERS, ".gz"}:
        if split != "train":
            raise DepthError(
                f"{source} is one file and has no split {split!r}; name another file, or part it by split_held_out"
            )
        rows = _load_file(path)
    else:
        rows = _load_from_hub(str(source), split)
    name = field or next((name for name in FIELDS if name in rows.column_names), None)
    if name is None or name not in rows.column_names:
        wanted = f"no field {field!r}" if field else f"none of the fields {', '.join(FIELDS)}"
        raise DepthError(f"{source} has {wanted}; its fields are {', '.join(rows.column_names) or 'none'}")
    kind = getattr(rows.features[name], "dtype", "no single values")
    if kind not in TEXT_TYPES:
        raise DepthError(f"The field {name!r} of {source} holds {kind}, not text; name a field of text")
    texts = [text for row in rows[name] if row and (text := row.strip())]
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
        DepthError: if no text is to be held out, or none would be left to train on.
    """
    if held_out < 1:
        raise DepthError(f"At least 1 text must be held out to evaluate on, got {held_out}")
    distinct = list(dict.fromkeys(texts))
    if held_out >= len(distinct):
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
    _check_utf8(path)
    # Excel and Notepad put a mark before the first character; readers of JSON and CSV leave it out by themselves.
    options = {"encoding": "utf-8-sig"} if kind == ".txt" else {}
    # Its own cache, because the common one would give the old texts of a file that was changed within its time stamp.
    with tempfile.TemporaryDirectory() as cache:
        try:
            return datasets.load_dataset(
                LOADERS[kind],
                data_files=glob.escape(str(path)),
                split="train",
                cache_dir=cache,
                keep_in_memory=True,
                **options,
            )
        except (datasets.exceptions.DatasetsError, ValueError, OSError) as error:
            cause = error.__cause__ or error
            raise DepthError(f"{path} cannot be read as {kind}: {' '.join(str(cause).split())}") from error


def _check_utf8(path: Path) -> None:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DepthError(f"{path} cannot be read: {error}; is it whole, and may you read it?") from error
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
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        raise DepthError(
            f"{source} is neither a file that is here nor a data set that can be loaded from the Hub: "
            f"{' '.join(str(error).split())}"
        ) from error
