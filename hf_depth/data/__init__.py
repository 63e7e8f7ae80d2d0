"""Texts and batches for the recipes."""

from hf_depth.data.batching import LengthGroupedBatches
from hf_depth.data.text import load_texts, split_held_out

__all__ = ["LengthGroupedBatches", "load_texts", "split_held_out"]
