"""The names of the fabric's program, and plans for it as tests want them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache

from google.protobuf import text_format

from weft.controller import Plan
from weft.controller import fabric_plan as plan_of_wants
from weft.controller.features.aggregation import AggregationJob
from weft.controller.features.faults import losses
from weft.controller.features.pinned_paths import Pin
from weft.controller.features.routes import Paths
from weft.controller.program_names import ProgramNames
from weft.switch.compiler import compile_cached
from weft.switch.messages import p4info_pb2
from weft.topo.clos import Topology
from weft.topo.fabric_program import fabric_program
from weft.topo.faults import LinkLoss


@cache
def program_names() -> ProgramNames:
    """Return the names of what the fabric's program has."""
    p4info = compile_cached(fabric_program()).p4info.read_text()
    return ProgramNames(text_format.Parse(p4info, p4info_pb2.P4Info()))


def name(short: str) -> str:
    """Return the full name of what the program calls ``short``."""
    return program_names().name(short)


def size(short: str) -> int:
    """Return how much room the program has for it."""
    return program_names().size(short)


def fabric_plan(
    topology: Topology,
    *,
    seed: int = 1,
    loss: float = 0.0,
    faults: Iterable[LinkLoss] = (),
    groups: Iterable[Sequence[str]] | None = None,
    without: Collection[str] = (),
    aggregation: Iterable[AggregationJob] = (),
    paths: Paths = "ecmp",
    pins: Iterable[Pin] = (),
    ecn_threshold_packets: int = 0,
) -> Plan:
    """Return the plan for what is wanted of Weft's own features."""
    wants = {
        "routes": paths,
        "pinned_paths": pins,
        "congestion": ecn_threshold_packets,
        "multicast": groups,
        "aggregation": aggregation,
        "faults": losses(topology, loss, faults),
    }
    return plan_of_wants(program_names(), topology, seed=seed, without=without, wants=wants)
