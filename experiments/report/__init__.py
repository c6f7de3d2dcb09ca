"""Results as one self-contained HTML page."""

from __future__ import annotations

from weft.experiments.report.page import render, write_report

__all__ = ["render", "write_report"]
