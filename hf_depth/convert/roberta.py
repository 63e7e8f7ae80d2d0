"""RoBERTa (Liu et al. 2019) as a depth encoder: BERT, with positions that skip padding and another classifier."""

from hf_depth.convert.architecture import UNUSED, Architecture, Head
from hf_depth.convert.bert import ANSWER, BERT_SETTINGS, BERT_WEIGHTS, CLASSIFIER, DECODER_SETTINGS_REFUSED
from hf_depth.modeling import modeling_depth_encoder as encoder
from hf_depth.modeling.configuration_depth import DepthEncoderConfig

ROBERTA = Architecture(
    model_type="roberta",
    config_class=DepthEncoderConfig,
    settings=BERT_SETTINGS,
    derived={
        "position_offset": lambda config: config.pad_token_id + 1,
        "max_position_embeddings": lambda config: config.max_position_embeddings - config.pad_token_id - 1,
    },
    constants={
        "position": "learned",
        "positions_from": "pad_token",
        "pooling": "position_0",
        "pooler_act": "tanh",
        "mlm_head_act": "gelu",
    },
    required=DECODER_SETTINGS_REFUSED,
    weights=BERT_WEIGHTS,
    heads={
        "RobertaModel": Head(encoder.DepthEncoderModel),
        "RobertaForMaskedLM": Head(
            encoder.DepthEncoderForMaskedLM,
            {
                "lm_head": UNUSED,  # a second name of the decoder's bias
                "lm_head.decoder": "lm_head",
                "lm_head.dense": "head.dense",
                "lm_head.layer_norm": "head.norm",
            },
        ),
        "RobertaForSequenceClassification": Head(
            encoder.DepthEncoderForSequenceClassification,
            {"classifier.dense": "model.pooler.dense", "classifier.out_proj": "classifier"},
        ),
        "RobertaForMultipleChoice": Head(encoder.DepthEncoderForMultipleChoice, CLASSIFIER),
        "RobertaForTokenClassification": Head(encoder.DepthEncoderForTokenClassification, CLASSIFIER),
        "RobertaForQuestionAnswering": Head(encoder.DepthEncoderForQuestionAnswering, ANSWER),
    },
    leftovers=r"^roberta\.pooler\.|embeddings\.position_ids$",
)
