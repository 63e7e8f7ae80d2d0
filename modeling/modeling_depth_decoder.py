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
"""The decoder family: a causal stack, its cache and its heads.

Shapes: B batch, T tokens, S keys, D hidden size, V vocabulary size, L labels.
"""

import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutputWithPast,
    CausalLMOutputWithPast,
    SequenceClassifierOutputWithPast,
    TokenClassifierOutput,
)
from transformers.modeling_utils import PreTrainedModel, slice_logits_to_keep
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .attention import DepthAttention
from .configuration_depth import DepthDecoderConfig
from .heads import classifier_dropout, last_token
from .layers import DepthLayer, build_norm
from .positions import BIASED, EMBEDDED, DepthRotaryEmbedding, count_positions


class DepthDecoderPreTrainedModel(PreTrainedModel):
    """Loading, saving and initialisation of the decoder family."""

    config: DepthDecoderConfig
    config_class = DepthDecoderConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["DepthLayer"]
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _can_record_outputs = {"hidden_states": DepthLayer, "attentions": DepthAttention}


class DepthDecoderModel(DepthDecoderPreTrainedModel):
    """The bare decoder."""

    def __init__(self, config: DepthDecoderConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.embed_positions = EMBEDDED[config.position](config) if config.position in EMBEDDED else None
        self.rotary_emb = DepthRotaryEmbedding(config) if config.position == "rotary" else None
        self.position_bias = BIASED[config.position](config) if config.position in BIASED else None
        self.embed_norm = build_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layers = nn.ModuleList(DepthLayer(config, layer_idx) for layer_idx in range(config.num_hidden_layers))
        self.norm = build_norm(config) if config.norm_position == "pre" else nn.Identity()
        self.gradient_checkpointing = False
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPast:
        """Run the stack.

        Args:
            input_ids: `[B, T]`, or `inputs_embeds`: `[B, T, D]`, the token embeddings themselves.
            attention_mask: `[B, cached + T]`, 1 for tokens and 0 for padding on either side.
            position_ids: `[B or 1, T]`; counted as `config.positions_from` says by default. Without a cache and a
                mask, positions that start anew start a new text, which sees nothing of the one before it.
            cache: keys and values of the tokens before these.
            use_cache: whether to return a cache; a new one where none is given.

        Returns:
            `last_hidden_state` `[B, T, D]` and the `cache`.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Give exactly one of input_ids and inputs_embeds")
        embeds = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        past = 0 if cache is None else cache.get_seq_length()
        if position_ids is None:
            position_ids = count_positions(self.config, input_ids, attention_mask, embeds, past)

        hidden_states = embeds
        if self.embed_positions is not None:
            hidden_states = hidden_states + self.embed_positions(position_ids, hidden_states.dtype)
        hidden_states = self.dropout(self.embed_norm(hidden_states))
        rotary = None if self.rotary_emb is None else self.rotary_emb(hidden_states, position_ids)
        mask = create_causal_mask(self.config, hidden_states, attention_mask, cache, position_ids)
        bias = self._bias(hidden_states, cache)
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask, rotary, bias, cache=cache, **kwargs)
        return BaseModelOutputWithPast(last_hidden_state=self.norm(hidden_states), cache=cache)

    def _bias(self, hidden_states: torch.Tensor, cache: Cache | None) -> torch.Tensor | None:
        """What the positions add to the scores, `[B, H, T, S]`."""
        if self.position_bias is None:
            return None
        size, length = hidden_states.shape[:2]
        past = 0 if cache is None else cache.get_seq_length()
        keys, first_key = (length, 0) if cache is None else cache.get_mask_sizes(length, 0)
        query = torch.arange(length, device=hidden_states.device) + past
        key = torch.arange(keys, device=hidden_states.device) + first_key
        offset = key - query[:, None]
        return self.position_bias(offset[None], hidden_states.dtype).expand(size, -1, -1, -1)


class DepthDecoderForCausalLM(DepthDecoderPreTrainedModel, GenerationMixin):
    """The decoder with a language-model head."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: DepthDecoderConfig):
        super().__init__(config)
        self.model = DepthDecoderModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Unpack[TransformersKwargs],
    ) -> CausalLMOutputWithPast:
        """Logits `[B, T, V]` of the next tokens.

        Args:
            labels: `[B, T]`, the tokens themselves, -100 where none is to be predicted; they are shifted here. The
                loss is the mean over them, or their sum divided by `num_items_in_batch`.
            logits_to_keep: how many of the last tokens to give logits for, 0 for all; or their indices.
        """
        outputs = self.model(
            input_ids, attention_mask, position_ids, cache, inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs
        )
        logits = self.lm_head(slice_logits_to_keep(outputs.last_hidden_state, logits_to_keep))
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            cache=outputs.cache,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class DepthDecoderForSequenceClassification(DepthDecoderPreTrainedModel):
    """The decoder with a classifier, or regressor, of whole texts on each text's last token."""

    # The loss is a mean over the texts at hand, also for regression and several labels a text.
    accepts_loss_kwargs = False

    def __init__(self, config: DepthDecoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = DepthDecoderModel(config)
        self.dropout = classifier_dropout(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutputWithPast:
        """Logits `[B, L]`; the loss follows `config.problem_type`, which `labels` tell where it is not set.

        The last token is the last that a 2D `attention_mask` keeps, or else the last that is not padding by its id.
        """
        outputs = self.model(
            input_ids, attention_mask, position_ids, cache, inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs
        )
        pooled = last_token(outputs.last_hidden_state, input_ids, attention_mask, self.config.pad_token_id)
        logits = self.score(self.dropout(pooled))
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutputWithPast(
            loss=loss,
            logits=logits,
            cache=outputs.cache,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class DepthDecoderForTokenClassification(DepthDecoderPreTrainedModel):
    """The decoder with a classifier of tokens, each of which sees what stands before it."""

    def __init__(self, config: DepthDecoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = DepthDecoderModel(config)
        self.dropout = classifier_dropout(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> TokenClassifierOutput:
        """Logits `[B, T, L]`; the loss is the mean over the `labels` `[B, T]` that are not -100."""
        outputs = self.model(
            input_ids, attention_mask, position_ids, cache, inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs
        )
        logits = self.score(self.dropout(outputs.last_hidden_state))
        loss = None if labels is None else self.loss_function(logits, labels, self.config, **kwargs)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


__all__ = [
    "DepthDecoderForCausalLM",
    "DepthDecoderForSequenceClassification",
    "DepthDecoderForTokenClassification",
    "DepthDecoderModel",
    "DepthDecoderPreTrainedModel",
]
