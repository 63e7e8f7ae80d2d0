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
"""One layer of the stack that all families share, and its parts.

Shapes: B batch, T tokens, D hidden size.
"""

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.processing_utils import Unpack
from transformers.pytorch_utils import apply_chunking_to_forward
from transformers.utils import TransformersKwargs

from .attention import DepthAttention
from .configuration_depth import DepthStackConfig

NORMS = {"layernorm": nn.LayerNorm, "rmsnorm": nn.RMSNorm}


def build_norm(config: DepthStackConfig) -> nn.Module:
    """A norm over the hidden size, of the kind that the config names."""
    return NORMS[config.norm](config.hidden_size, eps=config.norm_eps)


class DepthMLP(nn.Module):
    """Feed-forward layer: `down(act(up(x)))`, or gated, `down(act(gate(x)) * up(x))` (Shazeer 2020)."""

    def __init__(self, config: DepthStackConfig, layer_idx: int):
        super().__init__()
        layer_config = config.layer_config(layer_idx)
        width, bias = layer_config.intermediate_size, layer_config.mlp_bias
        self.up_proj = nn.Linear(config.hidden_size, width, bias=bias)
        self.gate_proj = nn.Linear(config.hidden_size, width, bias=bias) if layer_config.is_gated_act else None
        self.down_proj = nn.Linear(width, config.hidden_size, bias=bias)
        self.act = ACT2FN[layer_config.hidden_act]

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[B, T, D]` to `[B, T, D]`."""
        up = self.up_proj(hidden_states)
        return self.down_proj(self.act(up) if self.gate_proj is None else self.act(self.gate_proj(hidden_states)) * up)


class DepthLayer(GradientCheckpointingLayer):
    """Attention and feed-forward, each with a norm before it or after its residual sum.

    Tensors are taken by position: activation checkpointing then carries gradients into all of them. The cache is taken
    by name: activation checkpointing, which runs a layer twice, leaves it out.
    """

    def __init__(self, config: DepthStackConfig, layer_idx: int):
        super().__init__()
        self.norm_first = config.norm_position == "pre"
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.self_attn = DepthAttention(config, layer_idx)
        self.self_attn_norm = build_norm(config)
        self.mlp = DepthMLP(config, layer_idx)
        self.mlp_norm = build_norm(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        rotary: tuple[torch.Tensor, torch.Tensor] | None = None,
        position_bias: torch.Tensor | None = None,
        cache: Cache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        """`[B, T, D]` to `[B, T, D]`."""
        attention_input = self.self_attn_norm(hidden_states) if self.norm_first else hidden_states
        attended, _ = self.self_attn(attention_input, attention_mask, rotary, position_bias, cache=cache, **kwargs)
        hidden_states = hidden_states + self.dropout(attended)
        if not self.norm_first:
            hidden_states = self.self_attn_norm(hidden_states)
        return apply_chunking_to_forward(self.feed_forward, self.chunk_size_feed_forward, 1, hidden_states)

    def feed_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """The second half of the layer, token by token."""
        if self.norm_first:
            return hidden_states + self.dropout(self.mlp(self.mlp_norm(hidden_states)))
        return self.mlp_norm(hidden_states + self.dropout(self.mlp(hidden_states)))
