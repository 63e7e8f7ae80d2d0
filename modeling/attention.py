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
"""Self-attention of every family, through transformers' attention interface.

Shapes: B batch, H query heads, K key-value heads, T queries, S keys, E head size, D hidden size.
"""

from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import repeat_kv
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from .configuration_depth import DepthStackConfig
from .positions import apply_rotary


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    position_bias: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention written out, the reference for all other implementations.

    Args:
        query: `[B, H, T, E]`; key, value: `[B, K, S, E]`.
        attention_mask: added to the scores, `[B, 1, T, S]`, or `None`.
        position_bias: added to the scores, `[B or 1, H, T, S]`, or `None`.

    Returns:
        Output `[B, T, H, E]` and weights `[B, H, T, S]`.
    """
    key, value = (repeat_kv(states, module.num_key_value_groups) for states in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if position_bias is not None:
        scores = scores + position_bias
    if attention_mask is not None:
        # A biased score plus the lowest number must not become -inf: a row of those has no softmax.
        scores = (scores + attention_mask).clamp(min=torch.finfo(scores.dtype).min)
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class DepthAttention(nn.Module):
    """Multi-head or grouped-query self-attention, causal or not as the family is.

    Args:
        config: the family's config; its attention implementation is read at every call.
        layer_idx: index of the layer in its stack.
    """

    def __init__(self, config: DepthStackConfig, layer_idx: int):
        super().__init__()
        layer_config = config.layer_config(layer_idx)
        assert config.head_dim is not None  # the config fills it in
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = config.is_causal
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // layer_config.num_key_value_heads
        self.scaling = self.head_dim**-0.5 if config.attention_scaling is None else config.attention_scaling
        self.attention_dropout = config.attention_probs_dropout_prob
        query_size = config.num_attention_heads * self.head_dim
        key_size = layer_config.num_key_value_heads * self.head_dim
        bias = layer_config.attention_bias
        out_bias = bias if layer_config.attention_out_bias is None else layer_config.attention_out_bias
        self.q_proj = nn.Linear(config.hidden_size, query_size, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, key_size, bias=bias)
        self.v_proj = nn.Linear(config.hidden_size, key_size, bias=bias)
        self.o_proj = nn.Linear(query_size, config.hidden_size, bias=out_bias)
        self.q_norm = nn.RMSNorm(self.head_dim, eps=config.norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(self.head_dim, eps=config.norm_eps) if config.qk_norm else nn.Identity()

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        rotary: tuple[torch.Tensor, torch.Tensor] | None,
        position_bias: torch.Tensor | None,
        cache: Cache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """`[B, T, D]` to `[B, T, D]`, and the weights `[B, H, T, S]` where the implementation returns them.

        The keys and values of the `T` tokens are added to the `cache`, and the keys are all that it then holds.
        """
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_norm(self.q_proj(hidden_states).view(shape)).transpose(1, 2)
        key = self.k_norm(self.k_proj(hidden_states).view(shape)).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if rotary is not None:
            query, key = apply_rotary(query, key, *rotary)
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx, kwargs=kwargs)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        if position_bias is not None:
            kwargs["position_bias"] = position_bias
        output, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            scaling=self.scaling,
            dropout=self.attention_dropout if self.training else 0.0,
            **kwargs,
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights
