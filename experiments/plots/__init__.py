"""Plots of experiments: which figures they mean, and the drawing.

The modules canvas, draw, draw_heatmap, link_loads and timeline import matplotlib. Others import
them only when something is drawn, so that a run without plots does not wait for it.
"""
