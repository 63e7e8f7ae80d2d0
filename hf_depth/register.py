"""Makes transformers' Auto classes know the depth families."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from hf_depth.modeling import modeling_depth_decoder as decoder
from hf_depth.modeling import modeling_depth_encoder as encoder
from hf_depth.modeling.configuration_depth import DepthDecoderConfig, DepthEncoderConfig

FAMILIES = {
    DepthEncoderConfig: {
        AutoModel: encoder.DepthEncoderModel,
        AutoModelForMaskedLM: encoder.DepthEncoderForMaskedLM,
        AutoModelForPreTraining: encoder.DepthEncoderForPreTraining,
        AutoModelForSequenceClassification: encoder.DepthEncoderForSequenceClassification,
        AutoModelForTokenClassification: encoder.DepthEncoderForTokenClassification,
        AutoModelForQuestionAnswering: encoder.DepthEncoderForQuestionAnswering,
        AutoModelForMultipleChoice: encoder.DepthEncoderForMultipleChoice,
    },
    DepthDecoderConfig: {
        AutoModel: decoder.DepthDecoderModel,
        AutoModelForCausalLM: decoder.DepthDecoderForCausalLM,
        AutoModelForSequenceClassification: decoder.DepthDecoderForSequenceClassification,
        AutoModelForTokenClassification: decoder.DepthDecoderForTokenClassification,
    },
}


def register_families() -> None:
    """Register every family's config and heads; calling it again changes nothing."""
    for config_class, heads in FAMILIES.items():
        AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
        for auto_class, model_class in heads.items():
            auto_class.register(config_class, model_class, exist_ok=True)


def auto_class_name(model_class: type) -> str:
    """Name of the Auto class that loads a family's class, e.g. `"AutoModelForMaskedLM"`."""
    return next(
        auto_class.__name__
        for heads in FAMILIES.values()
        for auto_class, registered in heads.items()
        if registered is model_class
    )
