"""The families themselves: what travels to the Hub beside the weights. Imports nothing but torch and transformers."""
