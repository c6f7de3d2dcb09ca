"""Weft: a packet-level testbed for network-offloaded collectives.

From Python::

    from weft import Scenario, run

    results = run(Scenario(world="simulated", size_bytes=65536))
    assert results.verified
    print(results.runs[0].completion_ns)
"""

from __future__ import annotations

from weft.base import VERSION

TYPE_CHECKING = False  # as `typing` has it, without importing that: see __main__.py
if TYPE_CHECKING:
    from typing import Any

    from weft.experiments.families.programs.results import TorchRun
    from weft.experiments.families.resharding.meshes import Mesh
    from weft.experiments.families.resharding.plan import Tensor, plan_resharding
    from weft.experiments.results.results import Results
    from weft.experiments.runner import run
    from weft.experiments.scenario.scenario import Scenario
    from weft.interface.flows.flow import Flow, FlowResult
    from weft.interface.flows.simulation import Simulation, simulate
    from weft.interface.net import Net
    from weft.interface.up import up
    from weft.topo.clos import Topology, fat_tree, leaf_spine, pods, single
    from weft.topo.faults import Fault, LinkLoss
    from weft.topo.own import Network, from_networkx, read_network

__version__ = VERSION

__all__ = [
    "Fault", "Flow", "FlowResult", "LinkLoss", "Mesh", "Net", "Network", "Results", "Scenario",
    "Simulation", "Tensor", "Topology", "TorchRun",
    "fat_tree", "from_networkx", "leaf_spine", "plan_resharding", "pods", "read_network", "run",
    "simulate", "single", "up",
]  # fmt: skip


_HOMES = {
    "Fault": "weft.topo.faults",
    "Flow": "weft.interface.flows.flow",
    "FlowResult": "weft.interface.flows.flow",
    "LinkLoss": "weft.topo.faults",
    "Mesh": "weft.experiments.families.resharding.meshes",
    "Net": "weft.interface.net",
    "Network": "weft.topo.own",
    "Results": "weft.experiments.results.results",
    "Scenario": "weft.experiments.scenario.scenario",
    "Simulation": "weft.interface.flows.simulation",
    "Tensor": "weft.experiments.families.resharding.plan",
    "Topology": "weft.topo.clos",
    "TorchRun": "weft.experiments.families.programs.results",
    "fat_tree": "weft.topo.clos",
    "from_networkx": "weft.topo.own",
    "leaf_spine": "weft.topo.clos",
    "plan_resharding": "weft.experiments.families.resharding.plan",
    "pods": "weft.topo.clos",
    "read_network": "weft.topo.own",
    "run": "weft.experiments.runner",
    "simulate": "weft.interface.flows.simulation",
    "single": "weft.topo.clos",
    "up": "weft.interface.up",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is first asked for: the command line is quick without what
    runs, and ``python -m weft`` first sees to it where modules are looked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from weft.base.signals import signals_held

    with signals_held():  # Python throws a Ctrl-C away that comes at the wrong moment of an import
        return getattr(import_module(_HOMES[name]), name)
