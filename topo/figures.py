"""Figures that a network can have: of its links, its queues, and its port to the controller."""

from collections.abc import Sequence
from dataclasses import replace

from weft.base.arguments import whole
from weft.base.errors import InputError, refuse
from weft.base.units import format_duration
from weft.switch.priority_queues import check_priority_queues, queue_changes
from weft.topo.network import (
    CPU_PORT,
    DEFAULT_QUEUE_BYTES,
    DROP_PORT,
    MAX_DELAY_NS,
    Switch,
    Topology,
)


def check_link_figures(rate_bps: int, delay_ns: int, queue_bytes: int, jitter_ns: int = 0) -> None:
    """Raise InputError unless a link could have these figures."""
    whole("link rate in bit/s", rate_bps, "100_000_000")
    whole("link delay in ns", delay_ns, "1000")
    whole("queue bound in bytes", queue_bytes, str(DEFAULT_QUEUE_BYTES))
    refuse(
        rate_bps <= 0,
        f"link rate {rate_bps} bit/s: a rate is above 0, such as 100Mbit",
    )
    if not 0 <= delay_ns <= MAX_DELAY_NS:
        raise InputError(
            f"link delay {delay_ns} ns: a delay is 0 to {format_duration(MAX_DELAY_NS)}"
        )
    if not 0 <= jitter_ns <= delay_ns:
        raise InputError(
            f"link jitter {format_duration(jitter_ns)}: it is at most the delay, which is "
            f"{format_duration(delay_ns)}"
        )
    refuse(
        queue_bytes < 1,
        f"queue bound {queue_bytes} bytes: a port's queue holds at least one packet; "
        f"the default is {DEFAULT_QUEUE_BYTES}",
    )


def with_cpu_port(topology: Topology, port: int) -> Topology:
    """Return the network with another number of the port to the controller. Raises InputError for
    one that there cannot be, or that a link has."""
    port = whole("CPU port", port, str(CPU_PORT))
    if not 0 < port < DROP_PORT:
        raise InputError(
            f"CPU port {port}: the numbers are 1 to {DROP_PORT - 1}; {DROP_PORT} means drop"
        )
    for direction in topology.directions:
        node, number = direction.source.node, direction.source.number
        if number == port and isinstance(topology.nodes[node], Switch):
            raise InputError(
                f"CPU port {port}: link {direction.link.name} has port {port} of {node}; choose "
                "another number"
            )
    return replace(topology, cpu_port=port)


def with_priority_queues(
    topology: Topology,
    queues: int | None = None,
    weights: Sequence[int] = (),
    rates_pps: Sequence[int] = (),
    depths_bytes: Sequence[int] = (),
) -> Topology:
    """Return the network with so many queues at each port of its switches, of priorities from 0 on,
    and what holds for each; None stands for as many as it has. Raises InputError for what there
    cannot be."""
    queues = topology.priority_queues if queues is None else whole("priority queues", queues, "8")
    check_priority_queues(queues)
    changes = queue_changes(queues, weights, rates_pps, depths_bytes)
    if queues == topology.priority_queues:
        changes = changes or topology.queue_changes
    return replace(topology, priority_queues=queues, queue_changes=changes)
