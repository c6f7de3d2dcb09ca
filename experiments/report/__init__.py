"""The report: results as one self-contained HTML page."""

from weft.experiments.report.page import render, write_report

__all__ = ["render", "write_report"]
