"""Depth surgery: the layer stacks of any transformers model, and plans applied to them."""

from hf_depth.resize.apply import resize
from hf_depth.resize.stacks import LayerStack, find_stacks

__all__ = ["LayerStack", "find_stacks", "resize"]
