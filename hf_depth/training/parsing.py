"""The command line of recipes: a YAML file, then overrides, all fields of one dataclass; a misspelt key is an "
"error."""

import difflib
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml
from transformers import HfArgumentParser

from hf_depth.errors import DepthError

ArgumentsT = TypeVar("ArgumentsT")


def parse_arguments(arguments_class: type[ArgumentsT], argv: Sequence[str] | None = None) -> ArgumentsT:
    """Read `[CONFIG.yaml] [--field value ...]` into a dataclass; what the command line says wins.

    Args:
        arguments_class: the dataclass; its fields are the keys of the file and the options.
        argv: the words; by default those that the program was called with.

    Raises:
        DepthError: for a file that cannot be read, or a key or option that the dataclass does not have.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    known = {each.name for each in fields(arguments_class) if each.init}  # type: ignore[arg-type]
    settings = _read(Path(words.pop(0)), known) if words and not words[0].startswith("-") else {}
    parser = HfArgumentParser(arguments_class, allow_abbrev=False)
    parser.set_defaults(**settings)
    parsed, rest = parser.parse_args_into_dataclasses(args=words, return_remaining_strings=True)
    if rest:
        name = rest[0].removeprefix("--").split("=")[0]
        raise DepthError(f"Unknown option {rest[0]!r}{_suggest(name, known)}")
    return parsed


def _read(path: Path, known: set[str]) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DepthError(f"The config file {path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(settings, dict):
        raise DepthError(f"The config file {path} must hold `key: value` lines, it holds {type(settings).__name__}")
    for key in settings:
        if key not in known:
            raise DepthError(f"{path} has an unknown key {key!r}{_suggest(str(key), known)}")
    return settings


def _suggest(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(known))}"
