"""Plots of experiments: what a scenario file asks for, which figures it means, and the drawing.

The modules canvas, draw, draw_heatmap, link_loads and timeline import matplotlib. Others import
them only when something is drawn, so that a run without plots does not wait for it.
"""

from weft.experiments.plots.spec import PlotSpec

__all__ = ["PlotSpec"]
