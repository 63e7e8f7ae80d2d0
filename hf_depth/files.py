"""Output folders that are either whole or not there: written beside their place, then moved into it."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hf_depth.errors import DepthError


def check_free(path: str | Path) -> Path:
    """The absolute form of `path`, if a new folder can be written there: it does not exist yet or is an empty folder.

    Raises:
        DepthError: if it is a file, a folder with something in it, or lies where nothing can be written.
    """
    target = Path(path).expanduser().absolute()
    if target.exists() and not target.is_dir():
        raise DepthError(f"The output folder {path} is a file; choose another folder")
    if target.is_dir() and any(target.iterdir()):
        raise DepthError(f"The output folder {path} is not empty; choose another folder or empty this one yourself")
    ancestor = next(parent for parent in target.parents if parent.exists())
    if not ancestor.is_dir():
        raise DepthError(
            f"The output folder {path} cannot be made, because {ancestor} is a file; choose another folder"
        )
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise DepthError(f"The output folder {path} cannot be made, because {ancestor} is not writable")
    return target


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A fresh folder beside `path` to write into, moved to `path` when the block ends and removed if it fails.

    Where `path` is an empty folder already, it stays the same folder (it may be somebody's working directory or a
    mount point) and the content is moved into it.

    Raises:
        DepthError: before anything is written, as `check_free`.
    """
    target = check_free(path)
    staged = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        staged.mkdir(parents=True)
    except OSError as error:
        raise DepthError(
            f"The output folder {path} cannot be made: {error.strerror}; choose another folder"
        ) from error
    try:
        yield staged
        check_free(path)
        if target.exists():
            move_content(staged, target)
        else:
            staged.rename(target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def move_content(source: Path, target: Path, last: str = "config.json") -> None:
    """Move everything in `source` into the folder `target`, replacing files of the same name.

    A file named `last` comes last: a model folder cannot be loaded without its config, so once it can be, it is whole.
    """
    for child in sorted(source.iterdir(), key=lambda child: (child.name == last, child.name)):
        place = target / child.name
        if child.is_dir() and place.is_dir():
            move_content(child, place, last)
        else:
            shutil.move(child, place)


def remove_folder(path: Path) -> None:
    """Remove a folder under another name, so that nobody ever sees a half of it under its own."""
    doomed = path.with_name(f".{path.name}.partial")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    shutil.rmtree(doomed)
