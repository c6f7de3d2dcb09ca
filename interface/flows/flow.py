"""Flows that wait for each other, as others give them, and what became of them."""

from collections.abc import Collection, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from weft.base import arguments as given
from weft.base.errors import InputError, did_you_mean
from weft.base.units import shown

MOST_BYTES = 1 << 44
MOST_NS = 1 << 60


@dataclass(frozen=True)
class Flow:
    """A flow from one host to another: a connection of its own that carries so many bytes."""

    id: Hashable
    """What its result is found by."""
    source: str
    """The name of a host."""
    destination: str
    size_bytes: int
    after: Collection[Hashable] = ()
    """The ids of flows that must have ended before it begins."""
    start_ns: int = 0
    """When it begins at the earliest, in virtual time from the start of the simulation."""


@dataclass(frozen=True)
class FlowResult:
    """What became of a flow. Times are virtual, in ns from the start of the simulation."""

    start_ns: int
    """When its first byte could be sent."""
    end_ns: int
    """When its destination had all of it."""
    retransmitted_packets: int
    """How many packets had been sent again by then."""


def check_flow(flow: Flow, hosts: Mapping[str, int]) -> None:
    """Raise InputError for a flow that makes no sense, which names it."""
    name = f"flow {shown(flow.id)}"
    for end, host in (("source", flow.source), ("destination", flow.destination)):
        if not isinstance(host, str) or host not in hosts:
            hint = did_you_mean(str(host), hosts)
            some = ", ".join([*hosts][:8]) + (" and others" if len(hosts) > 8 else "")
            raise InputError(f"{name}: {end} {shown(host)} is no host{hint}; there are {some}")
    if flow.source == flow.destination:
        raise InputError(f"{name}: it goes from {flow.source} to itself: from one to another host")
    size = given.whole(f"{name}: size_bytes", flow.size_bytes, "4096")
    if not 1 <= size <= MOST_BYTES:
        raise InputError(f"{name}: size_bytes {size}: it is 1 to {MOST_BYTES}")
    start_ns = given.whole(f"{name}: start_ns", flow.start_ns, "0")
    if not 0 <= start_ns <= MOST_NS:
        raise InputError(f"{name}: start_ns {start_ns}: it is 0 to {MOST_NS}")


def in_order(flows: Sequence[Flow], known: Container[Hashable]) -> list[Flow]:
    """Return new flows in an order in which each comes behind those that it waits for.

    Raises InputError for an id that is there twice, a predecessor that is nowhere, and flows that
    wait for each other, with the cycle.
    """
    new: dict[Hashable, Flow] = {}
    for flow in flows:
        if flow.id in new or flow.id in known:
            raise InputError(f"flow {shown(flow.id)} is there already: each has an id of its own")
        new[flow.id] = flow
    for flow in flows:
        if isinstance(flow.after, (str, bytes)):
            raise InputError(
                f"flow {shown(flow.id)}: after {shown(flow.after)}: give a list of ids, "
                f"[{shown(flow.after)}]"
            )
        for other in flow.after:
            if other not in new and other not in known:
                hint = did_you_mean(str(other), [str(each) for each in new])
                raise InputError(
                    f"flow {shown(flow.id)}: after {shown(other)}: there is no such flow{hint}"
                )
    graph = {flow.id: [each for each in flow.after if each in new] for flow in flows}
    try:
        return [new[each] for each in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        cycle = " before ".join(shown(each) for each in error.args[1])
        raise InputError(f"flows wait for each other, and none can begin: {cycle}") from None
