"""How fast the simulated world is: packets carried end to end a second, and the cost of a hop.

Traffic: a random permutation of unicast flows (reliable connections, RDMA WRITE), every host sends
to one other and receives from one other, on a two-tier Clos without oversubscription. The P4
pipeline of every switch, queues, and the transport with its ICRC and copies are all in it;
acknowledgements are carried, and not counted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from agents.datagrams import Datagrams
from agents.transport import CompletionKind, Endpoint
from controller import Controller, fabric_plan
from switch.compiler import compile_cached
from switch.errors import RunError
from switch.program_files import fabric_program
from topo import simulated_layout as at
from topo.clos import leaf_spine
from topo.network import Topology
from topo.simulated import SimulatedWorld

HOSTS = (16, 32, 64, 128, 256, 512, 1024)
RATE_BPS = 10_000_000_000
MESSAGE_BYTES = 1 << 20
PATH_MTU = 4096
LIMIT_NS = 60_000_000_000


@dataclass(frozen=True)
class Measured:
    """One size of network."""

    hosts: int
    data_packets: int
    """Of the messages, each delivered end to end; neither acknowledgements nor what was sent again
    is counted."""
    hops: int
    """Frames that crossed a link, acknowledgements included."""
    seconds: float
    simulated_ns: int
    retransmitted: int

    @property
    def packets_per_s(self) -> float:
        """Data packets delivered a second of this machine's time."""
        return self.data_packets / self.seconds

    @property
    def ns_per_hop(self) -> float:
        """This machine's time for a frame on a link."""
        return self.seconds * 1e9 / self.hops


class Flow:
    """A host of the benchmark: an endpoint that writes to one peer and is written to by another."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.groups: Collection[int] = ()
        self.due_ns: int | None = None
        self.attentive = False
        self.sent = False
        self.error = ""

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        self.endpoint.take_events(batch)
        for completion in self.endpoint.poll():
            if completion.kind is CompletionKind.ERROR:
                self.error = completion.error
            elif completion.kind is CompletionKind.SENT:
                self.sent = True


def clos(hosts: int) -> Topology:
    """A two-tier Clos without oversubscription of about ``hosts`` hosts (a power of two)."""
    below = 1 << (hosts.bit_length() - 1) // 2
    below = min(below, 32)
    return leaf_spine(hosts // below, below, below, RATE_BPS, delay_ns=1000)


def permutation(size: int, seed: int) -> list[int]:
    """To whom each sends: everyone to another one, one cycle of all."""
    order = list(range(size))
    random.Random(seed).shuffle(order)
    target = [0] * size
    for place, rank in enumerate(order):
        target[rank] = order[(place + 1) % size]
    return target


def measure(hosts: int, message_bytes: int = MESSAGE_BYTES, seed: int = 1) -> Measured:
    """Carry a permutation on a network of so many hosts. Raises RunError if data is wrong."""
    topology = clos(hosts)
    world = SimulatedWorld(topology, seed=seed, path_mtu=PATH_MTU)
    fabric = world.fabric
    with Controller(topology, world.switch_addresses, compile_cached(fabric_program())) as owner:
        owner.apply(fabric_plan(topology, seed=seed, groups=[]))
    flows = [
        Flow(Endpoint(host.address, PATH_MTU, rate_bps=RATE_BPS, seed=seed + host.rank))
        for host in topology.hosts
    ]
    size = len(flows)
    target = permutation(size, seed)
    data = np.random.default_rng(seed).integers(0, 256, message_bytes, np.uint8)
    buffers = [np.zeros(message_bytes, np.uint8) for _ in flows]
    regions = [flow.endpoint.register(buffer) for flow, buffer in zip(flows, buffers, strict=True)]
    for rank, flow in enumerate(flows):
        peer = target[rank]
        pair, other = flow.endpoint.create_rc(), flows[peer].endpoint.create_rc()
        pair.connect(other.local)
        other.connect(pair.local)
        source = flow.endpoint.register(data)
        pair.post_write(source, 0, message_bytes, regions[peer].address, regions[peer].rkey)
    fabric.attach(dict(enumerate(flows)))
    started = time.perf_counter()
    fabric.run(stop_ns=LIMIT_NS, until=lambda: all(flow.sent or flow.error for flow in flows))
    seconds = time.perf_counter() - started
    for flow in flows:
        if flow.error or not flow.sent:
            raise RunError(f"a flow of the benchmark failed: {flow.error or 'it did not end'}")
    if not all(np.array_equal(buffer, data) for buffer in buffers):
        raise RunError("a flow of the benchmark brought wrong data")
    return Measured(
        size,
        size * -(-message_bytes // PATH_MTU),
        int(fabric.world[at.W_FRAMES]),
        seconds,
        fabric.now_ns,
        sum(flow.endpoint.statistics.retransmitted_packets for flow in flows),
    )


def main(say: Callable[[str], None] = print, sizes: Collection[int] = HOSTS) -> list[Measured]:
    """Measure all sizes and say it line by line."""
    measure(4, 1 << 16)  # compile
    say(
        f"{'hosts':>6} {'data packets':>13} {'seconds':>8} {'packets/s':>10} {'ns/hop':>7}"
        f" {'simulated ms':>12} {'resent':>7}"
    )
    found = []
    for size in sizes:
        result = measure(size)
        found.append(result)
        say(
            f"{result.hosts:>6} {result.data_packets:>13} {result.seconds:>8.2f} "
            f"{result.packets_per_s:>10.0f} {result.ns_per_hop:>7.0f} "
            f"{result.simulated_ns / 1e6:>12.3f} {result.retransmitted:>7}"
        )
    return found


if __name__ == "__main__":
    main()
