"""DistilBERT (Sanh et al. 2019) as a depth encoder: BERT without segments, a rectified layer before classifiers.

Its sinusoidal positions, where a config asks for them, are stored as a table and become a learned one.
"""

from hf_depth.convert.architecture import Architecture, Head
from hf_depth.convert.bert import ANSWER, CLASSIFIER
from hf_depth.modeling import modeling_depth_encoder as encoder
from hf_depth.modeling.configuration_depth import DepthEncoderConfig

_POOLED_CLASSIFIER = {"pre_classifier": "model.pooler.dense", "classifier": "classifier"}

DISTILBERT = Architecture(
    model_type="distilbert",
    config_class=DepthEncoderConfig,
    settings={
        "vocab_size": "vocab_size",
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "max_position_embeddings": "max_position_embeddings",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "classifier_dropout": "seq_classif_dropout",
    },
    constants={
        "position": "learned",
        "positions_from": "index",
        "norm_eps": 1e-12,
        "type_vocab_size": 0,
        "pooling": "position_0",
        "pooler_act": "relu",
    },
    weights={
        "embeddings.word_embeddings": "embed_tokens",
        "embeddings.position_embeddings": "embed_positions",
        "embeddings.LayerNorm": "embed_norm",
        "transformer.layer.*.attention.q_lin": "layers.*.self_attn.q_proj",
        "transformer.layer.*.attention.k_lin": "layers.*.self_attn.k_proj",
        "transformer.layer.*.attention.v_lin": "layers.*.self_attn.v_proj",
        "transformer.layer.*.attention.out_lin": "layers.*.self_attn.o_proj",
        "transformer.layer.*.sa_layer_norm": "layers.*.self_attn_norm",
        "transformer.layer.*.ffn.lin1": "layers.*.mlp.up_proj",
        "transformer.layer.*.ffn.lin2": "layers.*.mlp.down_proj",
        "transformer.layer.*.output_layer_norm": "layers.*.mlp_norm",
    },
    heads={
        "DistilBertModel": Head(encoder.DepthEncoderModel),
        "DistilBertForMaskedLM": Head(
            encoder.DepthEncoderForMaskedLM,
            {"vocab_transform": "head.dense", "vocab_layer_norm": "head.norm", "vocab_projector": "lm_head"},
        ),
        "DistilBertForSequenceClassification": Head(encoder.DepthEncoderForSequenceClassification, _POOLED_CLASSIFIER),
        "DistilBertForMultipleChoice": Head(encoder.DepthEncoderForMultipleChoice, _POOLED_CLASSIFIER),
        "DistilBertForTokenClassification": Head(
            encoder.DepthEncoderForTokenClassification, CLASSIFIER, {"classifier_dropout": None}
        ),
        "DistilBertForQuestionAnswering": Head(encoder.DepthEncoderForQuestionAnswering, ANSWER),
    },
    leftovers=r"^vocab_|embeddings\.position_ids$",
)
