"""Runs of a scenario in one of the worlds, and the judgement whether their figures can be
believed."""
