"""Workloads of flows: files of other simulators, and training steps of language models.

A workload becomes a `FlowGraph` in numbers of ranks; `load.graph_of` is the way in.
"""
