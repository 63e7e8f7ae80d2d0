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
"""Configurations of the depth families: one stack of layers whose depth, positions, norms and widths are settings."""

from typing import Any, Literal, Self

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN
from transformers.modeling_rope_utils import RopeParameters
from transformers.utils.type_validators import interval

from .presets import PRESETS

# What `per_layer_config` may set for one layer alone: what no other layer and no shared table depends on.
PER_LAYER_FIELDS = frozenset(
    {
        "intermediate_size",
        "hidden_act",
        "is_gated_act",
        "attention_bias",
        "attention_out_bias",
        "mlp_bias",
        "num_key_value_heads",
    }
)


@strict
class DepthStackConfig(PreTrainedConfig):
    r"""
    What every depth family says about its stack of layers.

    Args:
        vocab_size (`int`, defaults to 30522):
            Number of token ids.
        hidden_size (`int`, defaults to 768):
            Width of the hidden states.
        num_hidden_layers (`int`, defaults to 12):
            Depth: the number of layers, at least 1.
        num_attention_heads (`int`, defaults to 12):
            Query heads of every layer.
        num_key_value_heads (`int`, *optional*, defaults to `num_attention_heads`):
            Key and value heads; fewer than `num_attention_heads` is grouped-query attention (Ainslie et al. 2023).
        head_dim (`int`, *optional*, defaults to `hidden_size // num_attention_heads`):
            Width of one head.
        intermediate_size (`int`, defaults to 3072):
            Width of the feed-forward layer.
        hidden_act (`str`, defaults to `"gelu"`):
            Activation of the feed-forward layer, a key of `transformers.activations.ACT2FN`.
        is_gated_act (`bool`, defaults to `False`):
            Whether the feed-forward layer is gated, `down(act(gate(x)) * up(x))` (Shazeer 2020), or plain,
            `down(act(up(x)))`.
        norm (`"layernorm"` or `"rmsnorm"`, defaults to `"layernorm"`):
            Kind of every norm.
        norm_position (`"pre"` or `"post"`, defaults to `"post"`):
            Whether a block's norm stands before its sub-layer, with one more norm after the last layer (GPT-2,
            Llama), or after the residual sum (BERT).
        norm_eps (`float`, defaults to 1e-12):
            Added to the variance in every norm.
        embedding_norm (`bool`, defaults to `True`):
            Whether the sum of the embeddings is normed before the first layer.
        position (`str`, defaults to `"rotary"`):
            How a token's place enters the model: `"none"`; `"learned"`, a table added to the embeddings (BERT, GPT-2,
            GPT-3); `"sinusoidal"`, fixed sines and cosines added to them (Vaswani et al. 2017, section 3.5);
            `"sinusoidal_mixed"`, `softmax(W PE)` of those, as some surveys print it for GPT-3, which in truth used
            learned positions; `"rotary"` (Su et al. 2021); `"alibi"` (Press et al. 2022); `"bucketed"`, the relative
            bias of T5 (Raffel et al. 2020), one table for all layers.
        max_position_embeddings (`int`, defaults to 512):
            Longest sequence. A hard limit for learned positions; what rotary frequencies are scaled from.
        position_offset (`int`, defaults to 0):
            Rows at the head of the learned table that no position uses (RoBERTa and BART have 2): position `p` is row
            `p + position_offset`, and the table has `max_position_embeddings + position_offset` rows.
        positions_from (`"attention_mask"`, `"index"` or `"pad_token"`, defaults to `"attention_mask"`):
            What positions count when `position_ids` are not given: the tokens that the attention mask keeps, so that
            padding on the left shifts nothing; every index, padding included (BERT, DistilBERT); or the ids that are
            not `pad_token_id` (RoBERTa). The last one gives padding the row before position 0.
        rope_parameters (`dict`, *optional*):
            Rotary settings in transformers' own form, `{"rope_type": ..., "rope_theta": ...}`, for
            `position="rotary"`. `partial_rotary_factor` turns that share of each head; of an odd head the last
            dimension is not turned.
        relative_attention_num_buckets (`int`, *optional*, defaults to 32 for `position="bucketed"`):
            Rows of the relative bias table.
        relative_attention_max_distance (`int`, *optional*, defaults to 128 for `position="bucketed"`):
            Distance from which all tokens share the last bucket.
        attention_bias (`bool`, defaults to `True`):
            Whether the query, key and value projections have biases.
        attention_out_bias (`bool`, *optional*, defaults to `attention_bias`):
            Whether the output projection of the attention has a bias (GPT-Neo: this one alone; Qwen2: all but this).
        attention_scaling (`float`, *optional*, defaults to `head_dim ** -0.5`):
            What the products of queries and keys are multiplied by (T5, GPT-Neo: 1).
        qk_norm (`bool`, defaults to `False`):
            Whether queries and keys are normed, head by head, before they are turned by their positions (Qwen3); the
            norm is an RMSNorm.
        mlp_bias (`bool`, defaults to `True`):
            Whether the feed-forward projections have biases.
        hidden_dropout_prob (`float`, defaults to 0.1):
            Dropout of the embeddings and of every sub-layer's output.
        attention_probs_dropout_prob (`float`, defaults to 0.1):
            Dropout of the attention weights.
        classifier_dropout (`float`, *optional*, defaults to `hidden_dropout_prob`):
            Dropout before a classifier.
        initializer_range (`float`, defaults to 0.02):
            Standard deviation of fresh weights.
        pad_token_id (`int`, *optional*, defaults to 0):
            Id of the padding token; its embedding gets no gradient.
        bos_token_id (`int`, *optional*), eos_token_id (`int`, *optional*):
            Ids of the tokens that begin and end a text.
        tie_word_embeddings (`bool`, defaults to `True`):
            Whether a language-model head shares the token embeddings.
        depth_plan (`dict`, *optional*):
            Where the layers came from, in the form of `hf_depth.DepthPlan.to_dict`; written by `hf_depth.resize`.

    Raises:
        StrictDataclassClassValidationError: for a combination that no model can be built from; the message names the
        fields.
    """

    vocab_size: int = interval(min=1)(default=30522)
    hidden_size: int = interval(min=1)(default=768)
    num_hidden_layers: int = interval(min=1)(default=12)
    num_attention_heads: int = interval(min=1)(default=12)
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int = interval(min=1)(default=3072)
    hidden_act: str = "gelu"
    is_gated_act: bool = False
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    norm_position: Literal["pre", "post"] = "post"
    norm_eps: float = interval(min=0.0)(default=1e-12)
    embedding_norm: bool = True
    position: Literal["none", "learned", "sinusoidal", "sinusoidal_mixed", "rotary", "alibi", "bucketed"] = "rotary"
    max_position_embeddings: int = interval(min=1)(default=512)
    position_offset: int = interval(min=0)(default=0)
    positions_from: Literal["attention_mask", "index", "pad_token"] = "attention_mask"
    rope_parameters: RopeParameters | dict | None = None
    relative_attention_num_buckets: int | None = None
    relative_attention_max_distance: int | None = None
    attention_bias: bool = True
    attention_out_bias: bool | None = None
    attention_scaling: float | int | None = None
    qk_norm: bool = False
    mlp_bias: bool = True
    hidden_dropout_prob: float | int = interval(min=0.0, max=1.0)(default=0.1)
    attention_probs_dropout_prob: float | int = interval(min=0.0, max=1.0)(default=0.1)
    classifier_dropout: float | int | None = None
    initializer_range: float = interval(min=0.0)(default=0.02)
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    tie_word_embeddings: bool = True
    depth_plan: dict | None = None

    # Whether a token sees only itself and what stands before it; fixed by the family.
    is_causal = False

    def __post_init__(self, **kwargs: Any) -> None:
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        if self.head_dim is None and self.hidden_size % self.num_attention_heads == 0:
            self.head_dim = self.hidden_size // self.num_attention_heads
        if self.position == "bucketed":
            self.relative_attention_num_buckets = self.relative_attention_num_buckets or 32
            self.relative_attention_max_distance = self.relative_attention_max_distance or 128
        super().__post_init__(**kwargs)

    def convert_rope_params_to_dict(self, **kwargs: Any) -> dict:
        """Fill in rotary defaults where positions are rotary, and take no rotary settings anywhere else."""
        if self.position == "rotary":
            return super().convert_rope_params_to_dict(**kwargs)
        given = sorted({"rope_theta", "rope_scaling", "partial_rotary_factor"} & kwargs.keys())
        if given:
            raise ValueError(f"{', '.join(given)} need position='rotary', got position={self.position!r}")
        return kwargs

    def validate_heads(self) -> None:
        """Heads divide the width, and key-value heads divide the heads."""
        if self.head_dim is not None and self.head_dim < 1:
            raise ValueError(f"head_dim={self.head_dim} must be at least 1")
        if self.head_dim is None:
            raise ValueError(
                f"hidden_size={self.hidden_size} is not a multiple of num_attention_heads={self.num_attention_heads}: "
                "change one of them, or give head_dim"
            )
        for kv_heads in self._layer_values("num_key_value_heads"):
            if kv_heads < 1 or self.num_attention_heads % kv_heads:
                raise ValueError(
                    f"num_attention_heads={self.num_attention_heads} is not a multiple of "
                    f"num_key_value_heads={kv_heads}"
                )

    def validate_positions(self) -> None:
        """Every setting of a kind of position comes with that kind."""
        if self.position == "rotary" and self.rope_parameters is not None and self.head_dim is not None:
            self._validate_rotary(self.rope_parameters, self.head_dim)
        if self.position != "rotary" and self.rope_parameters is not None:
            raise ValueError(f"rope_parameters are given but position={self.position!r}: they need position='rotary'")
        if self.position.startswith("sinusoidal") and self.hidden_size % 2:
            raise ValueError(f"position={self.position!r} needs an even hidden_size, got {self.hidden_size}")
        if self.position != "learned" and self.position_offset:
            raise ValueError(
                f"position_offset={self.position_offset} moves the rows of a learned table: it needs "
                "position='learned', "
                f"got position={self.position!r}"
            )
        if self.positions_from == "pad_token":
            if self.pad_token_id is None:
                raise ValueError("positions_from='pad_token' needs a pad_token_id, got None")
            if self.position == "learned" and self.position_offset < 1:
                raise ValueError(
                    "positions_from='pad_token' gives padding the row before position 0: position_offset must be at "
                    "least 1, "
                    f"got {self.position_offset}"
                )
        self._validate_buckets()

    @staticmethod
    def _validate_rotary(rope: RopeParameters | dict, head_dim: int) -> None:
        turned = int(head_dim * rope.get("partial_rotary_factor", 1.0))
        if not 2 <= turned <= head_dim:
            raise ValueError(
                f"position='rotary' turns pairs of dimensions, and rope_parameters={rope} ask for {turned} of "
                f"head_dim={head_dim}"
            )
        if turned % 2 and turned == head_dim and rope["rope_type"] != "default":
            raise ValueError(
                f"position='rotary' with rope_type={rope['rope_type']!r} needs an even head_dim, got {head_dim}"
            )

    def _validate_buckets(self) -> None:
        buckets, distance = self.relative_attention_num_buckets, self.relative_attention_max_distance
        if self.position != "bucketed":
            if buckets is not None or distance is not None:
                raise ValueError(
                    f"relative_attention_num_buckets={buckets} and relative_attention_max_distance={distance} need "
                    f"position='bucketed', got position={self.position!r}"
                )
            return
        unit = 2 if self.is_causal else 4
        if not buckets or not distance or buckets % unit or distance <= buckets // 2:
            raise ValueError(
                f"position='bucketed' needs relative_attention_num_buckets to be a multiple of {unit} and "
                "relative_attention_max_distance to be more than half of it, got "
                f"relative_attention_num_buckets={buckets}, relative_attention_max_distance={distance}"
            )

    def validate_activations(self) -> None:
        """Activations are names that transformers knows."""
        for field in self._activation_fields():
            for name in self._layer_values(field):
                if name is not None and name not in ACT2FN:
                    raise ValueError(f"{field}={name!r} is no activation of transformers; known are {sorted(ACT2FN)}")

    def validate_scaling(self) -> None:
        """Scores keep their sign."""
        if self.attention_scaling is not None and self.attention_scaling <= 0:
            raise ValueError(f"attention_scaling={self.attention_scaling} must be more than 0")

    def validate_dropout(self) -> None:
        """The dropout before a classifier is a probability too, where it is given."""
        if self.classifier_dropout is not None and not 0 <= self.classifier_dropout <= 1:
            raise ValueError(f"classifier_dropout={self.classifier_dropout} is no probability, 0 to 1")

    def validate_padding(self) -> None:
        """The padding token is a token."""
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"pad_token_id={self.pad_token_id} is outside of vocab_size={self.vocab_size}")

    def validate_per_layer_config(self) -> None:
        """Layers differ only in what a layer owns."""
        if not self.is_heterogeneous:
            return
        for index, changes in self.to_dict().get("per_layer_config", {}).items():
            unknown = sorted(set(changes) - PER_LAYER_FIELDS)
            if unknown:
                raise ValueError(
                    f"per_layer_config[{index}] sets {', '.join(unknown)}, which a layer cannot have for itself; "
                    f"it can have {', '.join(sorted(PER_LAYER_FIELDS))}"
                )

    @staticmethod
    def _activation_fields() -> tuple[str, ...]:
        return ("hidden_act",)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The config of a known model, with changes: `DepthDecoderConfig.preset("gpt2", num_hidden_layers=6)`.

        Args:
            name: a key of `hf_depth.modeling.presets.PRESETS[cls.model_type]`.
            changes: fields that differ from the preset.

        Raises:
            ValueError: for a name that this family has no preset of; lists those that it has.
        """
        known = PRESETS.get(cls.model_type, {})
        if name not in known:
            raise ValueError(f"{cls.__name__} has no preset {name!r}; it has {', '.join(known)}")
        return cls(**{**known[name], **changes})

    def layer_config(self, layer_idx: int) -> PreTrainedConfig:
        """The config that layer `layer_idx` is built from: this one, with what `per_layer_config` changes."""
        return self.per_layer_config[layer_idx] if self.is_heterogeneous else self

    def _layer_values(self, field: str) -> set:
        return {getattr(self.layer_config(index), field) for index in range(self.num_hidden_layers)}


@strict
class DepthEncoderConfig(DepthStackConfig):
    r"""
    Configuration of the encoder family: bidirectional attention. The defaults are BERT base with rotary positions, and
    padding changes nothing on either side.

    Args:
        type_vocab_size (`int`, defaults to 2):
            Number of segments (`token_type_ids`); 0 for a model without them.
        pooler_act (`str`, *optional*, defaults to `"tanh"`):
            Activation of the dense layer that a pooled token goes through (BERT and RoBERTa: tanh, DistilBERT: relu).
            `None`: no dense layer, `pooler_output` is the pooled token itself.
        pooling (`"first_token"`, `"position_0"` or `"mean"`, defaults to `"first_token"`):
            What is pooled: the first token that the attention mask keeps, whatever stands at index 0 (BERT, RoBERTa,
            DistilBERT; padding, if that is on the left), or the mean of the tokens that the mask keeps.
        mlm_head_act (`str`, *optional*, defaults to `hidden_act`):
            Activation in the masked-language-model head.

    See [`DepthStackConfig`] for all other settings.

    Example:

    ```python
    >>> from hf_depth import DepthEncoderConfig, DepthEncoderModel
    >>> model = DepthEncoderModel(DepthEncoderConfig(num_hidden_layers=3))
    ```
    """

    model_type = "depth-encoder"

    type_vocab_size: int = interval(min=0)(default=2)
    pooler_act: str | None = "tanh"
    pooling: Literal["first_token", "position_0", "mean"] = "first_token"
    mlm_head_act: str | None = None

    @staticmethod
    def _activation_fields() -> tuple[str, ...]:
        return ("hidden_act", "pooler_act", "mlm_head_act")


@strict
class DepthDecoderConfig(DepthStackConfig):
    r"""
    Configuration of the decoder family: causal attention and a cache. The defaults are GPT-2 with rotary positions and
    without dropout.

    Args:
        use_cache (`bool`, defaults to `True`):
            Whether keys and values are kept for the tokens to come.

    Its own defaults: `vocab_size=50257`, `max_position_embeddings=1024`, `hidden_act="gelu_new"`,
    `norm_position="pre"`, `norm_eps=1e-5`, `embedding_norm=False`, no dropout and no padding token. `positions_from`
    is `"attention_mask"` or `"index"`. Biases of the scores (`position="alibi"` or `"bucketed"`) count the tokens
    between query and key, whatever `position_ids` say. See [`DepthStackConfig`] for all other settings.

    Example:

    ```python
    >>> from hf_depth import DepthDecoderConfig, DepthDecoderForCausalLM
    >>> model = DepthDecoderForCausalLM(DepthDecoderConfig.preset("gpt2", num_hidden_layers=6))
    ```
    """

    model_type = "depth-decoder"
    is_causal = True
    keys_to_ignore_at_inference = ["cache"]

    vocab_size: int = interval(min=1)(default=50257)
    hidden_act: str = "gelu_new"
    norm_position: Literal["pre", "post"] = "pre"
    norm_eps: float = interval(min=0.0)(default=1e-5)
    embedding_norm: bool = False
    max_position_embeddings: int = interval(min=1)(default=1024)
    hidden_dropout_prob: float | int = interval(min=0.0, max=1.0)(default=0.0)
    attention_probs_dropout_prob: float | int = interval(min=0.0, max=1.0)(default=0.0)
    pad_token_id: int | None = None
    use_cache: bool = True

    def validate_counting(self) -> None:
        """Positions go on from a cache, which holds no token ids."""
        if self.positions_from == "pad_token":
            raise ValueError(
                "positions_from='pad_token' counts token ids, which a cache does not hold: a decoder takes "
                "'attention_mask' or 'index'"
            )


__all__ = ["DepthDecoderConfig", "DepthEncoderConfig", "DepthStackConfig"]
