"""What a conversion is made of: tables that say where each setting and each weight of a stock model goes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from hf_depth.errors import DepthError

# Settings that mean the same in every config.
SHARED_SETTINGS = (
    "initializer_range",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "tie_word_embeddings",
    "chunk_size_feed_forward",
    "problem_type",
    "id2label",
    "label2id",
)

# A pattern that matches no name.
NOTHING = r"$^"
# Place of a weight that the stock model stores and never computes with.
UNUSED = ""


@dataclass(frozen=True)
class Head:
    """One class of a stock architecture and its counterpart.

    Attributes:
        target: the family's class.
        weights: where modules outside of the bare model go, `{stock path: family path}`.
        settings: config fields that this class alone sets.
    """

    target: type[PreTrainedModel]
    weights: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Architecture:
    """A stock architecture as data.

    Attributes:
        model_type: transformers' name of it.
        config_class: the family's config.
        settings: `{family field: stock field}`.
        constants: family fields that the architecture fixes.
        derived: family fields computed from the stock config.
        required: stock settings that a family model can have in one value only.
        weights: where the modules of the bare model go, `{stock path: family path}`, `*` for a layer's number.
        heads: by stock class name.
        leftovers: pattern of weights that checkpoints may carry for another head.
    """

    model_type: str
    config_class: type[PreTrainedConfig]
    settings: Mapping[str, str]
    constants: Mapping[str, Any]
    weights: Mapping[str, str]
    heads: Mapping[str, Head]
    derived: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    required: Mapping[str, Any] = field(default_factory=dict)
    leftovers: str = NOTHING

    def head(self, model: PreTrainedModel) -> Head:
        """The counterpart of a stock model's class.

        Raises:
            DepthError: if it has none; lists those that have.
        """
        name = type(model).__name__
        if name not in self.heads:
            raise DepthError(
                f"{name} has no counterpart among the depth families; convertible {self.model_type} classes are "
                f"{', '.join(self.heads)}"
            )
        return self.heads[name]

    def convert_config(self, model: PreTrainedModel) -> PreTrainedConfig:
        """The family config that says what a stock model's config says."""
        config = model.config
        for name, value in self.required.items():
            if getattr(config, name) != value:
                raise DepthError(
                    f"A {self.model_type} model with {name}={getattr(config, name)!r} cannot be said by "
                    f"{self.config_class.__name__}, which has {name}={value!r}"
                )
        settings = {name: getattr(config, name) for name in SHARED_SETTINGS}
        settings |= {ours: getattr(config, theirs) for ours, theirs in self.settings.items()}
        settings |= {ours: compute(config) for ours, compute in self.derived.items()}
        settings |= {**self.constants, **self.head(model).settings}
        if _is_bare(model) and getattr(model, "pooler", None) is None:
            settings["pooler_act"] = None
        return self.config_class(**settings)

    def convert_weights(self, model: PreTrainedModel) -> dict[str, Tensor]:
        """A stock model's weights by their names in the family.

        Raises:
            DepthError: for weights that the tables do not know.
        """
        head = self.head(model)
        prefix = f"{model.base_model_prefix}."
        is_bare = _is_bare(model)
        converted: dict[str, Tensor] = {}
        unknown = []
        for name, tensor in model.state_dict().items():
            in_bare = is_bare or name.startswith(prefix)
            module, leaf = name.removeprefix("" if is_bare else prefix).rsplit(".", 1)
            place = _look_up(module, self.weights if in_bare else head.weights)
            if place is None:
                unknown.append(name)
            elif place != UNUSED:
                converted[f"{'model.' if in_bare and not is_bare else ''}{place}.{leaf}"] = tensor
        if unknown:
            raise DepthError(f"Weights of {type(model).__name__} that no table knows: {', '.join(unknown)}")
        return converted


def _is_bare(model: PreTrainedModel) -> bool:
    return model.base_model is model


def _look_up(module: str, table: Mapping[str, str]) -> str | None:
    """The place of a module path in a table whose `*` stands for one number."""
    number = re.search(r"(?<=\.)\d+(?=\.)", module)
    if number is None:
        return table.get(module)
    place = table.get(f"{module[: number.start()]}*{module[number.end() :]}")
    return None if place is None else place.replace("*", number.group())
