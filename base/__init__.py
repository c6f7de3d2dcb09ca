"""What every other package stands on: errors, units, caches, files, documents, child processes."""

VERSION = "0.1.0"
"""Weft's version, which ``weft --version`` and ``weft switch --version`` tell."""
