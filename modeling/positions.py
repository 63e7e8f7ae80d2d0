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
"""How a token's place enters the model: added to the embeddings, turned into queries and keys, or added to the scores.

Shapes: B batch, T tokens, S keys, D hidden size, H heads.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from .configuration_depth import DepthStackConfig


def count_positions(
    config: DepthStackConfig,
    input_ids: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    inputs_embeds: torch.Tensor,
    past: int | torch.Tensor = 0,
) -> torch.Tensor:
    """Positions `[1 or B, T]` of tokens that come without `position_ids`, as `config.positions_from` says.

    Tokens that are not counted get -1 (the row before position 0) for `"pad_token"` and 0 for `"attention_mask"`.

    Args:
        attention_mask: of the tokens in a cache and the `T` that are new, `[B, past + T]`.
        past: number of tokens in a cache, padding included.
    """
    length = inputs_embeds.shape[1]
    counted: torch.Tensor | None = None
    uncounted = 0
    if config.positions_from == "attention_mask" and attention_mask is not None and attention_mask.dim() == 2:
        counted = attention_mask != 0
    elif config.positions_from == "pad_token" and input_ids is not None:
        assert config.pad_token_id is not None  # the config sees to that
        counted, uncounted = input_ids.ne(config.pad_token_id), -1
    if counted is None:
        return (torch.arange(length, device=inputs_embeds.device) + past).unsqueeze(0)
    return (counted.cumsum(-1) - 1).masked_fill(~counted, uncounted)[:, -length:]


class LearnedPositions(nn.Embedding):
    """A table of vectors added to the embeddings; position `p` is row `p + position_offset` (Devlin et al. 2019)."""

    def __init__(self, config: DepthStackConfig):
        self.offset = config.position_offset
        super().__init__(
            config.max_position_embeddings + self.offset,
            config.hidden_size,
            padding_idx=self.offset - 1 if config.positions_from == "pad_token" else None,
        )

    def forward(self, input: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Positions `[B, T]` to `[B, T, D]`; the table has its own dtype, so `dtype` is not needed."""
        limit = self.num_embeddings - self.offset
        is_traced = torch.compiler.is_compiling() or input.is_meta or not input.numel()
        length = input.shape[-1] if is_traced else input.max() + 1
        if length > limit:
            raise ValueError(
                f"The sequence has {int(length)} tokens, but the model has learned positions for "
                f"max_position_embeddings={limit}: truncate the text (the tokenizer's truncation=True, max_length=) "
                "and generate fewer tokens"
            )
        return super().forward(input + self.offset)


class SinusoidalPositions(nn.Module):
    """Sines and cosines in turn, `PE[p, 2i] = sin(p / 10000^(2i/D))` (Vaswani et al. 2017, section 3.5)."""

    def __init__(self, config: DepthStackConfig):
        super().__init__()
        self.size = config.hidden_size

    def forward(self, position_ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """`[B, T]` to `[B, T, D]`, computed in float32 and returned as `dtype`."""
        pairs = torch.arange(0, self.size, 2, dtype=torch.float32, device=position_ids.device)
        angles = position_ids[..., None].float() * 10000.0 ** (-pairs / self.size)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).to(dtype)


class MixedSinusoidalPositions(SinusoidalPositions):
    """`softmax(W PE)`: sinusoids mixed by a learned matrix, then a softmax over the width.

    Some surveys print this as GPT-3's position encoding. GPT-3 used learned positions (Brown et al. 2020, section
    2.1); the variant is here so that it can be tried, not because a known model has it.
    """

    def __init__(self, config: DepthStackConfig):
        super().__init__(config)
        self.mix = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, position_ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """`[B, T]` to `[B, T, D]`; each vector is positive and sums to 1."""
        return self.mix(super().forward(position_ids, self.mix.weight.dtype)).float().softmax(-1).to(dtype)


class AlibiPositions(nn.Module):
    """A penalty on the scores that grows with distance, one slope a head (Press et al. 2022).

    Between tokens `d` apart head `h` adds `-slope[h] * |d|`, on both sides.
    """

    def __init__(self, config: DepthStackConfig):
        super().__init__()
        self.num_heads = config.num_attention_heads

    @property
    def slopes(self) -> list[float]:
        """`2^(-8h/H)` for H a power of two, else those of the lower power and every other one of the higher."""
        lower = 2 ** math.floor(math.log2(self.num_heads))

        def geometric(heads: int) -> list[float]:
            return [2 ** (-8 * (head + 1) / heads) for head in range(heads)]

        return geometric(lower) + geometric(2 * lower)[0::2][: self.num_heads - lower]

    def forward(self, offset: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Key position minus query position, `[B, T, S]`, to biases `[B, H, T, S]`, computed in float32."""
        slopes = torch.tensor(self.slopes, dtype=torch.float32, device=offset.device)
        return (-slopes[:, None, None] * offset.abs()[:, None]).to(dtype)


class BucketedPositions(nn.Module):
    """T5's relative bias: distances share buckets that widen with distance (Raffel et al. 2020, section 2.1).

    In a causal stack all buckets are for keys before the query, else half of them, and half for keys after it. Within
    a side, the first half of the buckets hold one distance each, the rest grow logarithmically up to
    `relative_attention_max_distance`.
    """

    def __init__(self, config: DepthStackConfig):
        super().__init__()
        assert config.relative_attention_num_buckets is not None  # the config fills these in
        assert config.relative_attention_max_distance is not None
        self.num_buckets = config.relative_attention_num_buckets
        self.max_distance = config.relative_attention_max_distance
        self.is_causal = config.is_causal
        self.table = nn.Embedding(self.num_buckets, config.num_attention_heads)

    def bucket(self, offset: torch.Tensor) -> torch.Tensor:
        """Bucket of each `key position - query position`."""
        side = self.num_buckets if self.is_causal else self.num_buckets // 2
        exact = side // 2
        distance = (-offset).clamp(min=0) if self.is_causal else offset.abs()
        # The clamp only keeps the logarithm finite where the exact bucket is taken anyway.
        growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        wide = (exact + growth * (side - exact)).long().clamp(max=side - 1)
        bucket = torch.where(distance < exact, distance, wide)
        return bucket if self.is_causal else bucket + torch.where(offset > 0, side, 0)

    def forward(self, offset: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Key position minus query position, `[B, T, S]`, to biases `[B, H, T, S]`."""
        return self.table(self.bucket(offset)).permute(0, 3, 1, 2).to(dtype)


class DepthRotaryEmbedding(LlamaRotaryEmbedding):
    """Angles that queries and keys are turned by (Su et al. 2021), with transformers' scalings (`rope_parameters`)."""

    @staticmethod
    def compute_default_rope_parameters(config: DepthStackConfig, **kwargs: Any) -> tuple[torch.Tensor, float]:
        """Radians a position turns each pair by; a whole head of odd size leaves its last dimension alone."""
        assert config.head_dim is not None  # the config fills these in
        assert config.rope_parameters is not None
        size = int(config.head_dim * config.rope_parameters.get("partial_rotary_factor", 1.0))
        if size == config.head_dim:
            size -= size % 2
        exponents = torch.arange(0, size, 2, dtype=torch.float32) / size
        return 1.0 / config.rope_parameters["rope_theta"] ** exponents, 1.0

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "DepthRotaryEmbedding":
        """Move the tables without changing their dtype: `model.to(torch.bfloat16)` must not round the frequencies."""
        exact = {name: buffer for name, buffer in self.named_buffers() if buffer is not None}
        super()._apply(fn, recurse)
        for name, buffer in exact.items():
            moved = getattr(self, name)
            if moved.dtype != buffer.dtype:
                setattr(self, name, buffer.to(moved.device))
        return self


def apply_rotary(
    query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn the first `R` of `E` dimensions of queries and keys `[B, heads, T, E]` by angles `[B, T, R]`."""
    turned = cos.shape[-1]
    if turned == query.shape[-1]:
        return apply_rotary_pos_emb(query, key, cos, sin)
    parts = apply_rotary_pos_emb(query[..., :turned], key[..., :turned], cos, sin)
    return torch.cat((parts[0], query[..., turned:]), -1), torch.cat((parts[1], key[..., turned:]), -1)


# Kinds that give `[B, T, D]`, to be added to the embeddings, and kinds that give `[B, H, T, S]`, to be added to the
# scores.
EMBEDDED = {
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "sinusoidal_mixed": MixedSinusoidalPositions,
}
BIASED = {"alibi": AlibiPositions, "bucketed": BucketedPositions}
