"""Templates of model cards, one a family."""
