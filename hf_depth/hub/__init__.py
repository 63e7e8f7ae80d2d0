"""What goes to the Hub beside the weights: model cards with measured numbers."""

from hf_depth.hub.cards import model_card

__all__ = ["model_card"]
