"""Collectives, each by algorithms of its own (`weft.agents.collectives.algorithm`)."""
