"""Flows in virtual time for whoever has a workload of its own: ``weft.simulate``."""
