"""Workloads of flows: files of other simulators, and training steps of language models.

A workload becomes a `FlowGraph` between numbered ranks; `load.graph_of` is the way in.
"""
