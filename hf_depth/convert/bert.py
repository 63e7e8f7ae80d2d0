"""BERT (Devlin et al. 2019) as a depth encoder."""

from hf_depth.convert.architecture import UNUSED, Architecture, Head
from hf_depth.modeling import modeling_depth_encoder as encoder
from hf_depth.modeling.configuration_depth import DepthEncoderConfig

# Shared by all architectures whose modules are named as BERT's are.
BERT_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "hidden_act": "hidden_act",
    "norm_eps": "layer_norm_eps",
    "type_vocab_size": "type_vocab_size",
    "hidden_dropout_prob": "hidden_dropout_prob",
    "attention_probs_dropout_prob": "attention_probs_dropout_prob",
    "classifier_dropout": "classifier_dropout",
}
BERT_WEIGHTS = {
    "embeddings.word_embeddings": "embed_tokens",
    "embeddings.position_embeddings": "embed_positions",
    "embeddings.token_type_embeddings": "embed_segments",
    "embeddings.LayerNorm": "embed_norm",
    "encoder.layer.*.attention.self.query": "layers.*.self_attn.q_proj",
    "encoder.layer.*.attention.self.key": "layers.*.self_attn.k_proj",
    "encoder.layer.*.attention.self.value": "layers.*.self_attn.v_proj",
    "encoder.layer.*.attention.output.dense": "layers.*.self_attn.o_proj",
    "encoder.layer.*.attention.output.LayerNorm": "layers.*.self_attn_norm",
    "encoder.layer.*.intermediate.dense": "layers.*.mlp.up_proj",
    "encoder.layer.*.output.dense": "layers.*.mlp.down_proj",
    "encoder.layer.*.output.LayerNorm": "layers.*.mlp_norm",
    "pooler.dense": "pooler.dense",
}
DECODER_SETTINGS_REFUSED = {"is_decoder": False, "add_cross_attention": False}

CLASSIFIER = {"classifier": "classifier"}
ANSWER = {"qa_outputs": "qa_outputs"}
_MASKED_LM = {
    "cls.predictions": UNUSED,  # a second name of the decoder's bias
    "cls.predictions.decoder": "lm_head",
    "cls.predictions.transform.dense": "head.dense",
    "cls.predictions.transform.LayerNorm": "head.norm",
}

BERT = Architecture(
    model_type="bert",
    config_class=DepthEncoderConfig,
    settings={**BERT_SETTINGS, "max_position_embeddings": "max_position_embeddings"},
    constants={"position": "learned", "positions_from": "index", "pooling": "position_0", "pooler_act": "tanh"},
    required=DECODER_SETTINGS_REFUSED,
    weights=BERT_WEIGHTS,
    heads={
        "BertModel": Head(encoder.DepthEncoderModel),
        "BertForMaskedLM": Head(encoder.DepthEncoderForMaskedLM, _MASKED_LM),
        "BertForPreTraining": Head(
            encoder.DepthEncoderForPreTraining, {**_MASKED_LM, "cls.seq_relationship": "seq_relationship"}
        ),
        "BertForSequenceClassification": Head(encoder.DepthEncoderForSequenceClassification, CLASSIFIER),
        "BertForMultipleChoice": Head(encoder.DepthEncoderForMultipleChoice, CLASSIFIER),
        "BertForTokenClassification": Head(encoder.DepthEncoderForTokenClassification, CLASSIFIER),
        "BertForQuestionAnswering": Head(encoder.DepthEncoderForQuestionAnswering, ANSWER),
    },
    leftovers=r"^cls\.|^bert\.pooler\.|embeddings\.position_ids$",
)
