"""Plots of experiments: what a scenario file asks for, the figures it means, and the drawing.

Only `weft.experiments.plots.draw` imports matplotlib, and nothing here imports that by itself: a
run without plots does not wait for it.
"""

from weft.experiments.plots.spec import PlotSpec

__all__ = ["PlotSpec"]
