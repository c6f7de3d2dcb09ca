"""Fused operators for programs of PyTorch: computation whose results leave tile by tile."""
