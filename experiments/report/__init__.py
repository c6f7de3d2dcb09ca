"""The report: results as one self-contained HTML page."""

from weft.experiments.report.base import write_page
from weft.experiments.report.page import render

__all__ = ["render", "write_page"]
