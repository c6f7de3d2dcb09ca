"""Figures of the documentation: measured by a command, kept as files, put into pages as tables."""
