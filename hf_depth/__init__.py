"""hf-depth: depth as a setting of Hugging Face models. Importing it registers the families with the Auto classes."""

import importlib
from pathlib import Path
from typing import Any

# In a source folder these lie beside the package, and a wheel or an editable install puts them into it. Python started
# in the source folder finds the package there first, whatever is installed.
if not (Path(__file__).parent / "modeling").exists():
    __path__.append(str(Path(__file__).parents[1]))

# `convert` and `resize` share their name with the packages they live in, so they are bound here, after those, and not
# lazily.
from hf_depth.convert import convert
from hf_depth.register import register_families
from hf_depth.resize import resize

__version__ = "0.1.0"

# Public names and the modules they live in; a module is imported when its name is first used.
_EXPORTS = {
    "hf_depth.modeling.configuration_depth": ["DepthDecoderConfig", "DepthEncoderConfig"],
    "hf_depth.modeling.modeling_depth_decoder": [
        "DepthDecoderForCausalLM",
        "DepthDecoderForSequenceClassification",
        "DepthDecoderForTokenClassification",
        "DepthDecoderModel",
    ],
    "hf_depth.modeling.modeling_depth_encoder": [
        "DepthEncoderForMaskedLM",
        "DepthEncoderForMultipleChoice",
        "DepthEncoderForPreTraining",
        "DepthEncoderForQuestionAnswering",
        "DepthEncoderForSequenceClassification",
        "DepthEncoderForTokenClassification",
        "DepthEncoderModel",
    ],
    "hf_depth.errors": ["DepthError"],
    "hf_depth.plan": ["DepthPlan"],
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = ["convert", "resize", *_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hf_depth' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_families()
