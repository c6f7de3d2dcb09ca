"""Weights of a model that move from a trainer to inference engines."""
