"""Tiny checkpoints on disk with a tokenizer, for what works on folders."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

WORDS = [f"w{number}" for number in range(60)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Words `w0` to `w59`, in `[CLS] ... [SEP]`."""
    vocabulary = {token: index for index, token in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **names)


def tiny_bert(folder: Path, masked: bool = False, layers: int = 4) -> Path:
    """A stock BERT with its tokenizer."""
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(SPECIAL + WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=32,
    )
    (BertForMaskedLM if masked else BertModel)(config).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_text(path: Path, lines: int = 60) -> Path:
    """Lines of two to nine words."""
    generator = torch.Generator().manual_seed(7)
    numbers = torch.randint(0, 60, (lines, 9), generator=generator).tolist()
    path.write_text("".join(" ".join(f"w{n}" for n in row[: 2 + row[0] % 8]) + "\n" for row in numbers))
    return path
