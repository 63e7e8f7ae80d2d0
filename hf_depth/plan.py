"""A depth change as data: for each stack of layers, the source layer of every new layer, or `None` for a fresh one."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from hf_depth.errors import DepthError

# The name of a stack that a plan does not name: it means the only stack of the model that the plan is applied to.
SINGLE = ""
FRESH = "+"
# A misprint such as "0-3000000000" is refused before it is spelt out.
HIGHEST_LAYER = 99_999

Sources = tuple[int | None, ...]


def _even(source: int, target: int) -> Sources:
    return tuple(index * source // target for index in range(target))


def _spread(source: int, target: int) -> Sources:
    if target == 1:
        return (source - 1,)
    return tuple((2 * index * (source - 1) + target - 1) // (2 * (target - 1)) for index in range(target))


def _first(source: int, target: int) -> Sources:
    return tuple(range(target))


def _last(source: int, target: int) -> Sources:
    return tuple(range(source - target, source))


def _checked(strategy: Callable[[int, int], Sources]) -> Callable[[int, int], Sources]:
    def choose(source: int, target: int) -> Sources:
        for name, depth in (("source", source), ("target", target)):
            if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
                raise DepthError(f"The {name} depth must be a whole number of at least 1, got {depth!r}")
        if target > source:
            raise DepthError(
                f"{target} layers cannot be chosen from {source}; to grow, write a plan that repeats layers or has "
                "fresh ones, "
                f"such as '0-{source - 1},{source - 1},{FRESH}'"
            )
        return strategy(source, target)

    return choose


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DepthPlan:
    """Where the layers of a model of another depth come from.

    Plans are made by `keep`, by a strategy (`even`, `spread`, `first`, `last`) or from text (`parse`), and compare
    and hash by what they say; the order of the stacks says nothing (a saved config sorts it).

    >>> plan = DepthPlan.keep([0, 1, 2, 5, None])
    >>> str(plan)
    '0-2,5,+'
    >>> DepthPlan.parse("0-2,5,+") == plan
    True
    >>> plan.layer_map()
    {0: 0, 1: 1, 2: 2, 3: 5}
    """

    _stacks: tuple[tuple[str, Sources], ...]

    STRATEGIES: ClassVar[Mapping[str, Callable[[int, int], Sources]]] = MappingProxyType(
        {
            "even": _checked(_even),
            "spread": _checked(_spread),
            "first": _checked(_first),
            "last": _checked(_last),
        }
    )

    def __post_init__(self) -> None:
        stacks: object = self._stacks
        if not isinstance(stacks, tuple) or not all(isinstance(each, tuple) and len(each) == 2 for each in stacks):
            raise DepthError(f"A plan is made by DepthPlan.keep, .parse or a strategy such as .even, got {stacks!r}")
        if not stacks:
            raise DepthError("The plan is empty: name at least one stack and one layer")
        checked = {_check_name(name): _check_sources(name, sources) for name, sources in stacks}
        if len(checked) < len(stacks):
            raise DepthError(f"The plan has two entries for one stack: {', '.join(name for name, _ in stacks)}")
        if SINGLE in checked and len(checked) > 1:
            named = ", ".join(name for name in checked if name)
            raise DepthError(
                f"The plan has layers of a stack without a name beside those of {named}; name every stack"
            )
        object.__setattr__(self, "_stacks", tuple(checked.items()))

    @classmethod
    def keep(cls, layers: Sequence[int | None] | Mapping[str, Sequence[int | None]]) -> "DepthPlan":
        """A plan of source layers in their new order, `None` for a fresh layer; by stack for a model with several.

        Raises:
            DepthError: for no layers, or entries that are neither `None` nor whole numbers of at least 0.
        """
        named = layers if isinstance(layers, Mapping) else {SINGLE: layers}
        return cls(tuple(named.items()))  # type: ignore[arg-type]  # checked and made tuples there

    @classmethod
    def even(cls, source: int, target: int) -> "DepthPlan":
        """Every `source / target`-th layer from the first: 6 of 12 are 0, 2, 4, 6, 8, 10."""
        return cls.keep(cls.STRATEGIES["even"](source, target))

    @classmethod
    def spread(cls, source: int, target: int) -> "DepthPlan":
        """Evenly with both ends kept: 3 of 12 are 0, 6, 11. A single layer is the last one."""
        return cls.keep(cls.STRATEGIES["spread"](source, target))

    @classmethod
    def first(cls, source: int, target: int) -> "DepthPlan":
        """The first layers."""
        return cls.keep(cls.STRATEGIES["first"](source, target))

    @classmethod
    def last(cls, source: int, target: int) -> "DepthPlan":
        """The last layers."""
        return cls.keep(cls.STRATEGIES["last"](source, target))

    @classmethod
    def parse(cls, text: str) -> "DepthPlan":
        """A plan from text: layers and ranges with commas, `+` for a fresh layer, `name=...` with semicolons between.

        >>> DepthPlan.parse("encoder=0-3; decoder=0,+").to_dict()
        {'stacks': {'encoder': [0, 1, 2, 3], 'decoder': [0, None]}}

        Raises:
            DepthError: for text that is no plan; says what part of it.
        """
        if not isinstance(text, str):
            raise DepthError(f"A plan is read from text such as '0-3,8-11', got {text!r}; lists go to DepthPlan.keep")
        stacks: dict[str, list[int | None]] = {}
        for part in text.split(";"):
            name, equals, layers = part.rpartition("=")
            name = name.strip()
            if name in stacks:
                twice = (
                    f"two entries for the stack {name!r}" if name else "two stacks without a name; name every stack"
                )
                raise DepthError(f"The plan {text!r} has {twice}")
            if equals and not name:
                raise DepthError(f"The plan {text!r} has a stack without a name before '='")
            stacks[name] = [source for item in layers.split(",") for source in _parse_item(item.strip(), text)]
        return cls.keep(stacks)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "DepthPlan":
        """A plan from the form of `to_dict`."""
        if not isinstance(data, Mapping) or set(data) != {"stacks"} or not isinstance(data["stacks"], Mapping):
            raise DepthError(f"A plan is saved as {{'stacks': {{name: [layers]}}}}, got {data!r}")
        return cls.keep(data["stacks"])

    @classmethod
    def from_json(cls, text: str) -> "DepthPlan":
        """A plan from the form of `to_json`."""
        try:
            data = json.loads(text)
        except (TypeError, ValueError) as error:
            raise DepthError(f"The plan is no JSON: {error}") from error
        return cls.from_dict(data)

    def to_dict(self) -> dict[str, dict[str, list[int | None]]]:
        """The plan in plain types, as configs record it."""
        return {"stacks": {name: list(sources) for name, sources in self._stacks}}

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps(self.to_dict())

    @property
    def stacks(self) -> Mapping[str, Sources]:
        """By stack, the source of every new layer; read only."""
        return MappingProxyType(dict(self._stacks))

    @property
    def depths(self) -> dict[str, int]:
        """By stack, the new number of layers."""
        return {name: len(sources) for name, sources in self._stacks}

    def layer_map(self, stack: str | None = None) -> dict[int, int]:
        """New layer -> source layer (student -> teacher) of one stack; fresh layers are left out.

        Args:
            stack: its name; needed where the plan has several.
        """
        if stack is None:
            if len(self._stacks) > 1:
                raise DepthError(f"The plan has several stacks; name one of {', '.join(self.stacks)}")
            stack = self._stacks[0][0]
        if stack not in self.stacks:
            raise DepthError(f"The plan has no stack {stack!r}; it has {', '.join(self.stacks)}")
        return {new: source for new, source in enumerate(self.stacks[stack]) if source is not None}

    def describe(self) -> list[tuple[str, int, int | None]]:
        """Rows of a table: stack, new layer, source layer or `None`."""
        return [(name, new, source) for name, sources in self._stacks for new, source in enumerate(sources)]

    def resolve(self, depths: Mapping[str, int]) -> "DepthPlan":
        """The plan for stacks of these depths: each is named, and those that the plan leaves out are kept whole.

        Raises:
            DepthError: for a stack that the model lacks, or a layer that the stack lacks.
        """
        if not depths:
            raise DepthError(f"The plan {self} has nothing to apply to: the model has no stack of layers")
        named = dict(self._stacks)
        if SINGLE in named:
            if len(depths) > 1:
                raise DepthError(
                    f"The plan {self} does not say which stack it is for; the model has {', '.join(depths)}: write "
                    f"'{next(iter(depths))}={self}'"
                )
            named = {next(iter(depths)): named[SINGLE]}
        for name, sources in named.items():
            if name not in depths:
                raise DepthError(f"The model has no stack {name!r}; it has {', '.join(depths)}")
            outside = [source for source in sources if source is not None and source >= depths[name]]
            if outside:
                raise DepthError(
                    f"Layer {outside[0]} is out of range: the stack {name!r} has {depths[name]} layers "
                    f"(0-{depths[name] - 1})"
                )
        return DepthPlan.keep({name: named.get(name, range(depth)) for name, depth in depths.items()})

    def __eq__(self, other: object) -> bool:
        return dict(self._stacks) == dict(other._stacks) if isinstance(other, DepthPlan) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._stacks))

    def __str__(self) -> str:
        return ";".join(f"{name}={_write(sources)}" if name else _write(sources) for name, sources in self._stacks)

    def __repr__(self) -> str:
        return f"DepthPlan.parse({str(self)!r})"


def _check_name(name: object) -> str:
    if not isinstance(name, str) or name != name.strip() or re.search(r"[;=]", name):
        raise DepthError(f"A stack's name is text without '=', ';' and outer spaces, got {name!r}")
    return name


def _check_sources(name: str, sources: Sequence[int | None]) -> Sources:
    where = f" of the stack {name!r}" if name else ""
    if isinstance(sources, str) or not isinstance(sources, Sequence):
        raise DepthError(f"The layers{where} must be a list, got {sources!r} (text is read by DepthPlan.parse)")
    if not sources:
        raise DepthError(f"The plan{where} is empty: name at least one layer")
    for source in sources:
        if source is None:
            continue
        if isinstance(source, bool) or not isinstance(source, int) or not 0 <= source <= HIGHEST_LAYER:
            raise DepthError(
                f"A layer{where} is a whole number from 0 to {HIGHEST_LAYER}, or None for a fresh one, got {source!r}"
            )
    return tuple(sources)


def _parse_item(item: str, text: str) -> list[int | None]:
    if item == FRESH:
        return [None]
    match = re.fullmatch(r"0*(\d{1,5})(?:\s*-\s*0*(\d{1,5}))?", item, re.ASCII)
    if match is None:
        what = f"{item!r}" if item else "an empty entry" if text.strip() else "nothing (it is empty)"
        raise DepthError(
            f"The plan {text!r} holds {what}; it takes layers ('5', at most {HIGHEST_LAYER}), ranges ('0-3') and "
            f"'{FRESH}' for a fresh one"
        )
    start, end = int(match[1]), int(match[2] or match[1])
    if end < start:
        raise DepthError(
            f"The plan {text!r} holds the range {item!r}, which runs backwards; write its layers one by one"
        )
    return list(range(start, end + 1))


def _write(sources: Sources) -> str:
    """Sources as text, runs of three and more as ranges."""
    runs: list[list[int | None]] = []
    for source in sources:
        if runs and source is not None and runs[-1][-1] is not None and source == runs[-1][-1] + 1:
            runs[-1].append(source)
        else:
            runs.append([source])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(FRESH if layer is None else str(layer) for layer in run)
        for run in runs
    )
