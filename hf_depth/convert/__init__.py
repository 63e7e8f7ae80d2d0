"""Stock checkpoints into the depth families, with the same numbers."""

import copy
from pathlib import Path

from transformers import PreTrainedModel

from hf_depth.checkpoint import build_model, load_checkpoint
from hf_depth.convert.architecture import NOTHING, Architecture
from hf_depth.convert.bert import BERT
from hf_depth.convert.distilbert import DISTILBERT
from hf_depth.convert.roberta import ROBERTA
from hf_depth.errors import DepthError
from hf_depth.register import FAMILIES

ARCHITECTURES: dict[str, Architecture] = {table.model_type: table for table in (BERT, ROBERTA, DISTILBERT)}
# The families' own types, whose checkpoints hold nothing that is not used.
FAMILY_TYPES = {config_class.model_type: NOTHING for config_class in FAMILIES}


def convert(model_or_path: PreTrainedModel | str | Path) -> PreTrainedModel:
    """A family model with the numbers of a stock one.

    Args:
        model_or_path: a stock model, or the folder or Hub id of one in safetensors. A family model is copied as it is.

    Returns:
        A new model: copied weights in the family's own names, and the dtype, device, mode and attention implementation
        of the source. Hidden states and logits are those of the source, padding included.

    Raises:
        DepthError: for an architecture, a head or a setting without a counterpart, and for weights that are missing,
            unexpected or of another shape.
    """
    model = model_or_path
    if not isinstance(model, PreTrainedModel):
        model = load_checkpoint(
            model, {**{name: table.leftovers for name, table in ARCHITECTURES.items()}, **FAMILY_TYPES}
        )
    if model.config.model_type in FAMILY_TYPES:
        return model if model is not model_or_path else copy.deepcopy(model)
    architecture = ARCHITECTURES.get(model.config.model_type)
    if architecture is None:
        raise DepthError(
            f"A {type(model).__name__} (model type {model.config.model_type!r}) cannot be converted; convertible are "
            f"{', '.join(ARCHITECTURES)}"
        )
    target = architecture.head(model).target
    return build_model(target, architecture.convert_config(model), architecture.convert_weights(model), like=model)
