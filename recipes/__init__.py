"""Runnable recipes: `accelerate launch -m hf_depth.recipes.NAME CONFIG.yaml --field value`."""
