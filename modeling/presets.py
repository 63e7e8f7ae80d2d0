# Copyright 2026 the hf-depth authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""Settings of known models, by family and name."""

from typing import Any

_BERT = {
    "position": "learned",
    "positions_from": "index",
    "pooling": "position_0",
}
_ROBERTA = {
    **_BERT,
    "vocab_size": 50265,
    "position_offset": 2,
    "positions_from": "pad_token",
    "max_position_embeddings": 512,
    "type_vocab_size": 1,
    "norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}

# Brown et al. 2020, table 2.1; GPT-2 of Radford et al. 2019 has learned positions and GELU's tanh form too.
_GPT = {
    "position": "learned",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
}


def _gpt(layers: int, width: int, heads: int, **others: Any) -> dict[str, Any]:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    return {**_GPT, **sizes, "intermediate_size": 4 * width, **others}


def _gpt3(layers: int, width: int, heads: int, **others: Any) -> dict[str, Any]:
    return _gpt(layers, width, heads, max_position_embeddings=2048, **others)


# One stack of T5 1.0 (Raffel et al. 2020); a decoder stack without its cross-attention.
_T5 = {
    "vocab_size": 32128,
    "hidden_act": "relu",
    "norm": "rmsnorm",
    "norm_position": "pre",
    "norm_eps": 1e-6,
    "embedding_norm": False,
    "position": "bucketed",
    "attention_bias": False,
    "attention_scaling": 1.0,
    "mlp_bias": False,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
_T5_SIZES = {
    "t5-small": {
        "hidden_size": 512,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2048,
    },
    "t5-base": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "head_dim": 64,
        "intermediate_size": 3072,
    },
    "t5-large": {**_LARGE, "head_dim": 64},
}

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "depth-encoder": {
        "bert-base": _BERT,
        "bert-large": {**_BERT, **_LARGE},
        "roberta-base": _ROBERTA,
        "roberta-large": {**_ROBERTA, **_LARGE},
        **{name: {**_T5, **sizes, "type_vocab_size": 0} for name, sizes in _T5_SIZES.items()},
    },
    "depth-decoder": {
        "gpt2": _gpt(12, 768, 12),
        "gpt2-medium": _gpt(24, 1024, 16),
        "gpt2-large": _gpt(36, 1280, 20),
        "gpt2-xl": _gpt(48, 1600, 25),
        "gpt3-125m": _gpt3(12, 768, 12),
        "gpt3-350m": _gpt3(24, 1024, 16),
        "gpt3-760m": _gpt3(24, 1536, 16),
        "gpt3-1.3b": _gpt3(24, 2048, 32, head_dim=64),
        "gpt3-2.7b": _gpt3(32, 2560, 32),
        "gpt3-6.7b": _gpt3(32, 4096, 32),
        "gpt3-13b": _gpt3(40, 5120, 40),
        "gpt3-175b": _gpt3(96, 12288, 96),
        **{name: {**_T5, **sizes} for name, sizes in _T5_SIZES.items()},
    },
}

__all__ = ["PRESETS"]
