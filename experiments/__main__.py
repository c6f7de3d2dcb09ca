"""``python -m experiments`` is the ``weft`` command."""

from __future__ import annotations

from experiments.cli import main

main()
