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
"""What stands on top of a stack: pooling of a text into one vector, dropout, and the masked-language-model transform.

Shapes: B batch, T tokens, D hidden size.
"""

import torch
from torch import nn
from transformers.activations import ACT2FN

from .configuration_depth import DepthEncoderConfig, DepthStackConfig
from .layers import build_norm


def pool(hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, pooling: str) -> torch.Tensor:
    """One vector a text, `[B, T, D]` to `[B, D]`.

    Args:
        attention_mask: `[B, T]`, 1 for tokens and 0 for padding, or `None` where nothing is padding.
        pooling: `"first_token"`, `"position_0"` or `"mean"`, as in `DepthEncoderConfig`.

    Raises:
        ValueError: for a mask of another shape where padding has to be known.
    """
    if pooling == "position_0" or (pooling == "first_token" and attention_mask is None):
        return hidden_states[:, 0]
    if attention_mask is None:
        return hidden_states.mean(1)
    if attention_mask.dim() != 2:
        raise ValueError(
            f"pooling={pooling!r} has to know the padding: it takes an attention_mask of shape [batch, seq], "
            f"got {tuple(attention_mask.shape)}"
        )
    kept = (attention_mask != 0).to(hidden_states.dtype)
    if pooling == "first_token":
        return hidden_states[torch.arange(len(kept), device=kept.device), kept.argmax(-1)]
    return (hidden_states * kept.unsqueeze(-1)).sum(1) / kept.sum(-1, keepdim=True).clamp(min=1)


class DepthPooler(nn.Module):
    """Pools a text into one vector and, unless `pooler_act` is `None`, sends it through a dense layer."""

    def __init__(self, config: DepthEncoderConfig):
        super().__init__()
        self.pooling = config.pooling
        has_dense = config.pooler_act is not None
        self.dense = nn.Linear(config.hidden_size, config.hidden_size) if has_dense else nn.Identity()
        self.act = ACT2FN[config.pooler_act] if has_dense else nn.Identity()

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """`[B, T, D]` to `[B, D]`."""
        return self.act(self.dense(pool(hidden_states, attention_mask, self.pooling)))


class DepthMaskedLMHead(nn.Module):
    """Dense layer, activation and norm before the vocabulary projection (Devlin et al. 2019)."""

    def __init__(self, config: DepthEncoderConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.act = ACT2FN[config.mlm_head_act or config.hidden_act]
        self.norm = build_norm(config)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[B, T, D]` to `[B, T, D]`."""
        return self.norm(self.act(self.dense(hidden_states)))


def classifier_dropout(config: DepthStackConfig) -> nn.Dropout:
    """The dropout before a classifier."""
    return nn.Dropout(config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout)


def last_token(
    states: torch.Tensor,
    input_ids: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    pad_token_id: int | None,
) -> torch.Tensor:
    """The state of each text's last token, `[B, T, ...]` to `[B, ...]`; in a causal stack it alone saw them all.

    Padding, on either side, is what a 2D `attention_mask` leaves out; without one, what is `pad_token_id`.
    """
    if attention_mask is not None and attention_mask.dim() == 2:
        kept = attention_mask[:, -states.shape[1] :] != 0
    elif attention_mask is None and input_ids is not None and pad_token_id is not None:
        kept = input_ids != pad_token_id
    else:
        return states[:, -1]
    rows, tokens = (torch.arange(size, device=states.device) for size in kept.shape)
    return states[rows, (tokens * kept).argmax(-1)]
