"""Figures of the documentation: a command measures them, files keep them, and pages show them as
tables."""
