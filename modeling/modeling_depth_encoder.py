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
"""The encoder family: a bidirectional stack and its heads.

Shapes: B batch, T tokens, C choices, D hidden size, V vocabulary size, L labels.
"""

from dataclasses import dataclass

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .attention import DepthAttention
from .configuration_depth import DepthEncoderConfig
from .heads import DepthMaskedLMHead, DepthPooler, classifier_dropout
from .layers import DepthLayer, build_norm
from .positions import BIASED, EMBEDDED, DepthRotaryEmbedding, count_positions


class DepthEncoderPreTrainedModel(PreTrainedModel):
    """Loading, saving and initialisation of the encoder family."""

    config: DepthEncoderConfig
    config_class = DepthEncoderConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["DepthLayer"]
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _can_record_outputs = {"hidden_states": DepthLayer, "attentions": DepthAttention}


class DepthEncoderModel(DepthEncoderPreTrainedModel):
    """The bare encoder.

    Args:
        config: the settings of the stack.
        add_pooling_layer: whether `pooler_output` is made; heads on single tokens leave it out.
    """

    def __init__(self, config: DepthEncoderConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.embed_segments = (
            nn.Embedding(config.type_vocab_size, config.hidden_size) if config.type_vocab_size else None
        )
        self.embed_positions = EMBEDDED[config.position](config) if config.position in EMBEDDED else None
        self.rotary_emb = DepthRotaryEmbedding(config) if config.position == "rotary" else None
        self.position_bias = BIASED[config.position](config) if config.position in BIASED else None
        self.embed_norm = build_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layers = nn.ModuleList(DepthLayer(config, layer_idx) for layer_idx in range(config.num_hidden_layers))
        self.norm = build_norm(config) if config.norm_position == "pre" else nn.Identity()
        self.pooler = DepthPooler(config) if add_pooling_layer else None
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """Run the stack.

        Args:
            input_ids: `[B, T]`, or `inputs_embeds`: `[B, T, D]`, the word embeddings themselves.
            attention_mask: `[B, T]`, 1 for tokens and 0 for padding on either side.
            token_type_ids: `[B, T]` segments; zeros by default.
            position_ids: `[B or 1, T]`; counted as `config.positions_from` says by default.

        Returns:
            `last_hidden_state` `[B, T, D]` and `pooler_output` `[B, D]`.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Give exactly one of input_ids and inputs_embeds")
        embeds = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if position_ids is None:
            position_ids = self._count_positions(input_ids, attention_mask, embeds)

        hidden_states = self._embed(embeds, token_type_ids, position_ids)
        rotary = None if self.rotary_emb is None else self.rotary_emb(hidden_states, position_ids)
        bias = None
        if self.position_bias is not None:
            offset = position_ids[:, None, :] - position_ids[:, :, None]
            bias = self.position_bias(offset, hidden_states.dtype).expand(len(hidden_states), -1, -1, -1)
        mask = create_bidirectional_mask(self.config, hidden_states, attention_mask)
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask, rotary, bias, **kwargs)
        hidden_states = self.norm(hidden_states)
        return BaseModelOutputWithPooling(
            last_hidden_state=hidden_states,
            pooler_output=None if self.pooler is None else self.pooler(hidden_states, attention_mask),
        )

    def _count_positions(
        self, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None, inputs_embeds: torch.Tensor
    ) -> torch.Tensor:
        if self.embed_positions is None:  # only differences count, and padding does not change those
            return torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device).unsqueeze(0)
        return count_positions(self.config, input_ids, attention_mask, inputs_embeds)

    def _embed(
        self, inputs_embeds: torch.Tensor, token_type_ids: torch.Tensor | None, position_ids: torch.Tensor
    ) -> torch.Tensor:
        hidden_states = inputs_embeds
        if self.embed_segments is not None:
            if token_type_ids is None:
                token_type_ids = torch.zeros_like(inputs_embeds[..., 0], dtype=torch.long)
            hidden_states = hidden_states + self.embed_segments(token_type_ids)
        elif token_type_ids is not None:
            raise ValueError(
                "token_type_ids are given, but the model has no segments (type_vocab_size=0): leave them out, for a "
                "tokenizer with return_token_type_ids=False"
            )
        if self.embed_positions is not None:
            hidden_states = hidden_states + self.embed_positions(position_ids, hidden_states.dtype)
        return self.dropout(self.embed_norm(hidden_states))


class DepthEncoderForMaskedLM(DepthEncoderPreTrainedModel):
    """The encoder with a masked-language-model head."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: DepthEncoderConfig):
        super().__init__(config)
        self.model = DepthEncoderModel(config, add_pooling_layer=False)
        self.head = DepthMaskedLMHead(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> MaskedLMOutput:
        """Logits `[B, T, V]`; the loss is the mean over the `labels` `[B, T]` that are not -100.

        With `num_items_in_batch` the loss is the sum over them divided by that number.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        logits = self.lm_head(self.head(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size, **kwargs)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


@dataclass
class DepthEncoderForPreTrainingOutput(ModelOutput):
    """What [`DepthEncoderForPreTraining`] returns.

    Attributes:
        loss: masked-language-model loss plus next-sentence loss.
        prediction_logits: `[B, T, V]`.
        seq_relationship_logits: `[B, 2]`; class 0 says that the second text follows the first, 1 that it is random.
        hidden_states: where asked for, `num_hidden_layers + 1` of `[B, T, D]`.
        attentions: where asked for, `num_hidden_layers` of `[B, H, T, T]`.
    """

    loss: torch.Tensor | None = None
    prediction_logits: torch.Tensor | None = None
    seq_relationship_logits: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None


class DepthEncoderForPreTraining(DepthEncoderPreTrainedModel):
    """The encoder with BERT's two pretraining heads: masked language model and next sentence (Devlin et al. 2019)."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: DepthEncoderConfig):
        super().__init__(config)
        self.loss_type = "ForMaskedLM"
        self.model = DepthEncoderModel(config)
        self.head = DepthMaskedLMHead(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        next_sentence_label: torch.Tensor | None = None,
        num_sequences_in_batch: torch.Tensor | int | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> DepthEncoderForPreTrainingOutput:
        """Logits of both heads; the loss is the sum of the losses whose labels are given.

        Args:
            labels: `[B, T]`, the masked tokens, -100 elsewhere.
            next_sentence_label: `[B]`, 0 where the second text follows the first and 1 where it does not.
            num_sequences_in_batch: where a batch is split, the number of its texts; with `num_items_in_batch` (the
                number of its masked tokens) the losses of the parts then add up to exactly that of the whole.

        `Trainer` splits batches too but counts masked tokens alone. So with `num_items_in_batch` and without
        `num_sequences_in_batch` each text's next-sentence loss is weighted by its share of the masked tokens: the
        parts add up to the whole here as well, and texts with equally many masked tokens weigh the same.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        prediction_logits = self.lm_head(self.head(outputs.last_hidden_state))
        seq_relationship_logits = self.seq_relationship(outputs.pooler_output)
        losses = []
        if labels is not None:
            losses.append(self.loss_function(prediction_logits, labels, vocab_size=self.config.vocab_size, **kwargs))
        if next_sentence_label is not None:
            each = nn.functional.cross_entropy(
                seq_relationship_logits.float(), next_sentence_label.view(-1), reduction="none"
            )
            if num_sequences_in_batch is not None:
                losses.append(each.sum() / num_sequences_in_batch)
            elif labels is not None and kwargs.get("num_items_in_batch") is not None:
                losses.append((each * (labels != -100).sum(-1)).sum() / kwargs["num_items_in_batch"])
            else:
                losses.append(each.mean())
        return DepthEncoderForPreTrainingOutput(
            loss=torch.stack(losses).sum() if losses else None,
            prediction_logits=prediction_logits,
            seq_relationship_logits=seq_relationship_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class DepthEncoderForSequenceClassification(DepthEncoderPreTrainedModel):
    """The encoder with a classifier, or regressor, of whole texts on the pooled vector."""

    # The loss is a mean over the texts at hand, also for regression and several labels a text.
    accepts_loss_kwargs = False

    def __init__(self, config: DepthEncoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = DepthEncoderModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Logits `[B, L]`; the loss follows `config.problem_type`, which `labels` tell where it is not set."""
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class DepthEncoderForMultipleChoice(DepthEncoderPreTrainedModel):
    """The encoder with a score for each of several texts, of which one is right."""

    # The loss is a mean over the questions at hand.
    accepts_loss_kwargs = False

    def __init__(self, config: DepthEncoderConfig):
        super().__init__(config)
        self.model = DepthEncoderModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> MultipleChoiceModelOutput:
        """Logits `[B, C]` for inputs `[B, C, T]` (`inputs_embeds` `[B, C, T, D]`); `labels` `[B]` name a choice."""
        given = inputs_embeds if input_ids is None else input_ids
        if given is None or given.dim() < 3:
            raise ValueError(
                "Multiple choice takes input_ids of shape [batch, choices, seq] (or inputs_embeds with one dimension "
                "more), "
                f"got {None if given is None else tuple(given.shape)}"
            )
        flat = [
            None if tensor is None else tensor.flatten(0, 1)
            for tensor in (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        ]
        outputs = self.model(*flat, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output)).view(given.shape[:2])
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return MultipleChoiceModelOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class DepthEncoderForTokenClassification(DepthEncoderPreTrainedModel):
    """The encoder with a classifier of tokens."""

    def __init__(self, config: DepthEncoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = DepthEncoderModel(config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> TokenClassifierOutput:
        """Logits `[B, T, L]`; the loss is the mean over the `labels` `[B, T]` that are not -100."""
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None if labels is None else self.loss_function(logits, labels, self.config, **kwargs)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class DepthEncoderForQuestionAnswering(DepthEncoderPreTrainedModel):
    """The encoder with scores for where an answer starts and ends."""

    def __init__(self, config: DepthEncoderConfig):
        super().__init__(config)
        self.model = DepthEncoderModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> QuestionAnsweringModelOutput:
        """Logits `[B, T]` twice; positions `[B]` outside of the text are left out of the loss, and so is padding."""
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        start_logits, end_logits = self.qa_outputs(outputs.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            scores = [start_logits.float(), end_logits.float()]
            if attention_mask is not None and attention_mask.dim() == 2:
                lowest = torch.finfo(torch.float32).min
                scores = [score.masked_fill(attention_mask == 0, lowest) for score in scores]
            loss = self.loss_function(*scores, start_positions, end_positions, **kwargs)
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


__all__ = [
    "DepthEncoderForMaskedLM",
    "DepthEncoderForMultipleChoice",
    "DepthEncoderForPreTraining",
    "DepthEncoderForPreTrainingOutput",
    "DepthEncoderForQuestionAnswering",
    "DepthEncoderForSequenceClassification",
    "DepthEncoderForTokenClassification",
    "DepthEncoderModel",
    "DepthEncoderPreTrainedModel",
]
