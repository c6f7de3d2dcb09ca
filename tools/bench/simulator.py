"""``weft bench simulator``: how fast the simulated world is, and how that grows with the network.

Its traffic is a random permutation of unicast flows (reliable connections, RDMA WRITE): every host
sends to one other and receives from one other, on a two-tier Clos without oversubscription. The
time includes the P4 pipeline of every switch, queues, the transport with its ICRC and copies, and
the trace digest; acknowledgements are carried, but not counted. Given a program of UEC's htsim, it
carries one of these permutations, too, in the same run, so that both are measured on the same
machine. A multicast Allgather follows on as
many ranks as the largest of these networks has, with every byte verified.
"""

import random
import resource
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from weft.agents.collectives.pattern import fill_shard
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import Datagrams
from weft.agents.ranks import OperationConfig
from weft.agents.transport import CompletionKind, Endpoint
from weft.base.errors import RunError, refuse
from weft.controller import Controller, fabric_plan
from weft.controller.features.multicast import trees_of
from weft.controller.features.program import featured_program
from weft.tools.bench import htsim
from weft.topo.clos import leaf_spine
from weft.topo.network import DEFAULT_RATE_BPS, Topology
from weft.topo.worlds.simulated.fabric import Idle
from weft.topo.worlds.simulated.world import SimulatedWorld

HOSTS = (16, 32, 64, 128, 256, 512, 1024)
RATE_BPS = 10_000_000_000
DELAY_NS = 1_000
PATH_MTU = 4096
MESSAGE_BYTES = 1 << 20
LIMIT_NS = 60_000_000_000
ATTEMPTS = 3
"""How often small networks are run; the quickest counts, since other processes can only add
time."""
HTSIM_HOSTS = 128
"""The size at which htsim is measured."""
ALLGATHER_RANKS = 1024
ALLGATHER_SHARD_BYTES = 4096
ALLGATHER_GROUPS = 16


def measure(
    hosts: Collection[int] = HOSTS, ranks: int = ALLGATHER_RANKS, program: Path | None = None
) -> dict[str, Any]:
    """Return the figures by number of hosts, those of the Allgather, and those of htsim.

    Args:
        program: htsim's (`weft.tools.bench.htsim.check`); None: it is not measured.
    """
    carry(4, 1 << 14)  # what has to be compiled is
    networks = [
        min((carry(size) for _ in range(ATTEMPTS if size <= 128 else 1)), key=itemgetter("seconds"))
        for size in hosts
    ]
    beside = None if program is None else compared(program, networks)
    return {"permutation": networks, "allgather": allgather(ranks), "htsim": beside}


def compared(program: Path, networks: Collection[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of htsim beside Weft's, with start-up and in processor time, on the
    network of `HTSIM_HOSTS` hosts, or the largest that there is below."""
    hosts = max((row["hosts"] for row in networks if row["hosts"] <= HTSIM_HOSTS), default=16)
    network = clos(hosts)
    leaves, spines = (len(network.switches_of(level)) for level in ("leaf", "spine"))
    given = (
        htsim.matrix(permutation(hosts, 1), MESSAGE_BYTES),
        htsim.topology(leaves, spines, hosts // leaves, RATE_BPS, DELAY_NS),
    )
    theirs, ours = [], []
    for _ in range(ATTEMPTS):
        theirs.append(htsim.measure(program, *given, RATE_BPS))
        before = time.process_time()
        packets = carry(hosts)["data_packets"]
        ours.append({"data_packets": packets, "processor_seconds": time.process_time() - before})
    found: dict[str, Any] = {"hosts": hosts, "message_bytes": MESSAGE_BYTES}
    for name, rows in (("htsim", theirs), ("weft", ours)):
        best = min(rows, key=itemgetter("processor_seconds"))
        rate = best["data_packets"] / max(best["processor_seconds"], 1e-6)
        found[name] = {**best, "packets_per_s": rate}
    return found


@dataclass(eq=False)
class Flow(Idle):
    """A host of the benchmark: an endpoint that writes to one peer and is written to by another."""

    sent: bool = False
    error: str = ""

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Take the transport's completions."""
        self.endpoint.take_events(batch)
        for completion in self.endpoint.poll():
            if completion.kind is CompletionKind.ERROR:
                self.error = completion.error
            elif completion.kind is CompletionKind.SENT:
                self.sent = True


def clos(hosts: int, rate_bps: int = RATE_BPS, delay_ns: int = DELAY_NS) -> Topology:
    """Return a two-tier Clos without oversubscription; the number of hosts is a power of two."""
    below = min(1 << (hosts.bit_length() - 1) // 2, 32)
    return leaf_spine(hosts // below, below, below, rate_bps, delay_ns=delay_ns)


def permutation(size: int, seed: int) -> list[int]:
    """Return the rank that each rank sends to. All ranks are in one random cycle."""
    order = list(range(size))
    random.Random(seed).shuffle(order)
    following = dict(zip(order, [*order[1:], order[0]], strict=True))
    return [following[rank] for rank in range(size)]


def carry(hosts: int, message_bytes: int = MESSAGE_BYTES, seed: int = 1) -> dict[str, Any]:
    """Carry a permutation on a network of so many hosts. Raises RunError if data is wrong.

    ``data_packets`` counts the packets of messages, each once when it is delivered end to end;
    neither acknowledgements nor what was sent again is among them. ``hops`` counts all frames that
    crossed a link.
    """
    topology = clos(hosts)
    world = SimulatedWorld(topology, seed=seed, path_mtu=PATH_MTU)
    fabric = world.fabric
    with Controller(topology, world.switch_addresses, featured_program()) as owner:
        owner.apply(fabric_plan(owner.names, topology, seed=seed, wants={"multicast": []}))
    flows = [
        Flow(Endpoint(host.address, PATH_MTU, rate_bps=RATE_BPS, seed=seed + host.rank))
        for host in topology.hosts
    ]
    size = len(flows)
    target = permutation(size, seed)
    data = np.zeros(message_bytes, np.uint8)
    fill_shard(data, seed, 0, 0)
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
        refuse(
            flow.error or not flow.sent,
            f"a flow of the benchmark failed: {flow.error or 'it did not end'}",
            RunError,
        )
    if not all(np.array_equal(buffer, data) for buffer in buffers):
        raise RunError("a flow of the benchmark brought wrong data")
    packets = size * -(-message_bytes // PATH_MTU)
    hops = fabric.world.frames
    return {
        "hosts": size,
        "data_packets": packets,
        "hops": hops,
        "seconds": seconds,
        "packets_per_s": packets / seconds,
        "ns_per_hop": seconds * 1e9 / hops,
        "simulated_ns": fabric.now_ns,
        "retransmitted_packets": sum(
            flow.endpoint.statistics.retransmitted_packets for flow in flows
        ),
        "digest": world.digest,
    }


def allgather(ranks: int, shard_bytes: int = ALLGATHER_SHARD_BYTES) -> dict[str, Any]:
    """Run a multicast Allgather from nothing to its verified end, over links of 100 Mbit/s."""
    started = time.perf_counter()
    topology = clos(ranks, DEFAULT_RATE_BPS, delay_ns=0)
    world = SimulatedWorld(topology, path_mtu=PATH_MTU)
    with Controller(topology, world.switch_addresses, featured_program()) as owner:
        everybody = [host.name for host in topology.hosts]
        groups = [everybody] * min(len(topology.hosts_of("leaf0")), ALLGATHER_GROUPS)
        plan = fabric_plan(owner.names, topology, wants={"multicast": groups})
        owner.apply(plan)
        results = world.run_operation(
            OperationConfig(Request(0, "allgather", "multicast", shard_bytes)),
            groups=[group.address for group in trees_of(plan)],
        )
    for result in results:
        if not result.verified:
            raise RunError(f"the benchmark's Allgather: rank {result.rank}: {result.error}")
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "ranks": ranks,
        "shard_bytes": shard_bytes,
        "seconds": time.perf_counter() - started,
        "simulated_ns": max(result.completion_ns for result in results),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
        "digest": world.digest,
    }
