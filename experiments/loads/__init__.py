"""Figures that are computed from plans: what links carry. Nothing here controls or runs a
network."""
