"""Weft's own congestion controls, a module each."""
