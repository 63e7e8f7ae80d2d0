"""What transformers' own suites run on beside the default encoder: the settings that conversions give, BERT's."""

_BERT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "position": "learned",
    "positions_from": "index",
    "pooling": "position_0",
}
_NO_ROTARY = "learned positions are not turned, so rotary scaling changes nothing"

TARGETS = {
    "encoder_learned": {
        "kind": "encoder",
        "imports": ("hf_depth",),
        "config": "hf_depth:DepthEncoderConfig",
        "base": "hf_depth:DepthEncoderModel",
        "heads": {
            "AutoModelForMaskedLM": "hf_depth:DepthEncoderForMaskedLM",
            "AutoModelForSequenceClassification": "hf_depth:DepthEncoderForSequenceClassification",
            "AutoModelForTokenClassification": "hf_depth:DepthEncoderForTokenClassification",
            "AutoModelForQuestionAnswering": "hf_depth:DepthEncoderForQuestionAnswering",
            "AutoModelForMultipleChoice": "hf_depth:DepthEncoderForMultipleChoice",
        },
        "config_kwargs": _BERT,
        "config_tester_kwargs": {"hidden_size": 36},
        "pipelines": ("feature-extraction", "fill-mask", "text-classification", "token-classification", "zero-shot"),
        "training": "loss",
        "training_head": "AutoModelForMaskedLM",
        "peer": "bert_encoder",
        "skips": {
            "test_model_rope_scaling_from_config": _NO_ROTARY,
            "test_model_rope_scaling_from_config_0_linear": _NO_ROTARY,
            "test_model_rope_scaling_from_config_1_dynamic": _NO_ROTARY,
            "test_model_rope_scaling_from_config_2_yarn": _NO_ROTARY,
            "test_model_rope_with_partial_rotation": _NO_ROTARY,
        },
    },
}
