"""Configs of recipes."""
