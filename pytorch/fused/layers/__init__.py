"""Layers of models that use the fused operators, each with an unfused form for comparison."""
