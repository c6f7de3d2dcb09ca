"""Figures from plans: what links carry. Nothing here controls or runs a network."""
