"""Sentence embeddings of an encoder: the mean of its last hidden states over the tokens that are not padding."""

from collections.abc import Sequence

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase


def sentence_embeddings(last_hidden_state: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean over real tokens, `[batch, seq, hidden]` and `[batch, seq]` to `[batch, hidden]`, in float32."""
    kept = attention_mask.unsqueeze(-1).float()
    return (last_hidden_state.float() * kept).sum(1) / kept.sum(1).clamp(min=1)


def embed_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    max_length: int,
    batch_size: int = 32,
    dtype: torch.dtype | None = None,
    progress: bool = False,
) -> Tensor:
    """Sentence embeddings `[texts, hidden]`, in the order of the texts, float32 on the CPU.

    Args:
        model: a bare encoder.
        tokenizer: its tokenizer.
        texts: what is embedded; texts of like length share a batch.
        max_length: tokens after which a text is cut.
        batch_size: texts a batch.
        dtype: computes under autocast in this dtype; `None` computes in the model's own.
        progress: whether a progress bar is shown.
    """
    tokens = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    order = sorted(range(len(texts)), key=lambda index: len(tokens[index]))
    starts = range(0, len(order), batch_size)
    embeddings: dict[int, Tensor] = {}
    was_training = model.training
    model.eval()
    with torch.inference_mode(), torch.autocast(model.device.type, dtype=dtype, enabled=dtype is not None):
        for start in tqdm(starts, desc="Embedding", disable=not progress, leave=False):
            chosen = order[start : start + batch_size]
            batch = tokenizer.pad({"input_ids": [tokens[index] for index in chosen]}, return_tensors="pt")
            batch = batch.to(model.device)
            outputs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
            pooled = sentence_embeddings(outputs.last_hidden_state, batch["attention_mask"]).cpu()
            embeddings |= dict(zip(chosen, pooled, strict=True))
    model.train(was_training)
    return torch.stack([embeddings[index] for index in range(len(texts))])
