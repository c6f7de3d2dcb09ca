"""``weft bench simulator``: how fast the simulated world is, and how that grows with the network.

Its traffic is a random permutation of unicast flows (reliable connections, RDMA WRITE): every host
sends to one other and receives from one other, on a two-tier Clos without oversubscription. The
loop of events alone is timed, and beside it everything from the network's making on. Both are user
time of this process, so that others on the machine matter little. It includes the P4 pipeline of
every switch, queues, the transport with its ICRC and copies, and the trace digest; acknowledgements
are carried, but not counted.

Given a number of cores, the loop on as many is timed in place of all that, by the clock, and beside
it on one: the same events in both.

Given a program of UEC's htsim, both it and ``weft simulate`` carry the same connection matrices,
each as a process of its own, and user time is that of the whole process. A multicast Allgather
follows, on 1,024 ranks, with every byte verified.
"""

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
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
from weft.topo.worlds.simulated.core import Idle
from weft.topo.worlds.simulated.world import SimulatedWorld

HOSTS = (16, 128, 1024, 8192)
RATE_BPS = 10_000_000_000
DELAY_NS = 1_000
PATH_MTU = 4096
LEAST_BYTES = 1 << 20
"""Of a flow, at least, unless all flows together would have more than `MOST_BYTES`."""
ALL_BYTES = 1 << 28
"""Of all flows, at least, so that the loop takes a second or so."""
MOST_BYTES = 1 << 31
LIMIT_NS = 60_000_000_000
ATTEMPTS = 3
"""How often small networks are run; the quickest counts, since other processes can only add
time."""
HTSIM_MATRICES = {128: 64 << 20, 1024: 8 << 20}
"""The bytes of each flow beside htsim, by hosts: two million packets."""
HTSIM_PATHS = ("ecmp", "spray", "reps")
CORES_HOSTS = (128, 1024)
CORES_PAIRS = 3
"""How often several cores are compared to one."""
ALLGATHER_RANKS = 1024
ALLGATHER_SHARD_BYTES = 4096
ALLGATHER_GROUPS = 16


def measure(
    hosts: Collection[int] = HOSTS,
    ranks: int = ALLGATHER_RANKS,
    program: Path | None = None,
    matrices: Mapping[int, int] = HTSIM_MATRICES,
) -> dict[str, Any]:
    """Return the figures by number of hosts, those of the Allgather, and those of htsim.

    Args:
        program: htsim's (`weft.tools.bench.htsim.check`); None: it is not measured.
        matrices: what both carry then: the bytes of each flow, by hosts.
    """
    carry(4, 1 << 14)  # what has to be compiled is
    networks = [
        min(
            (carry(size) for _ in range(ATTEMPTS if size <= 128 else 1)),
            key=itemgetter("user_seconds"),
        )
        for size in hosts
    ]
    beside = []
    if program is not None:
        beside = [compared(program, *each) for each in matrices.items()]
    return {"permutation": networks, "allgather": allgather(ranks), "htsim": beside}


def measure_cores(
    cores: int, hosts: Collection[int] = CORES_HOSTS, message_bytes: int | None = None
) -> dict[str, Any]:
    """Return how long the loop of events takes on several cores and on one, in turn, by the clock:
    `CORES_PAIRS` times for each number of hosts, of which the best counts."""
    carry(16, 1 << 14, cores=min(cores, 4))  # what has to be compiled is
    found = []
    for size in hosts:
        pairs = [
            [carry(size, message_bytes, cores=each) for each in (1, cores)]
            for _ in range(CORES_PAIRS)
        ]
        digests = {row["digest"] for pair in pairs for row in pair}
        refuse(len(digests) > 1, f"{cores} cores do not what one does: {digests}", RunError)
        one, several = (min(row["seconds"] for row in rows) for rows in zip(*pairs, strict=True))
        found.append(
            {
                "hosts": size,
                "data_packets": pairs[0][0]["data_packets"],
                "seconds_on_one": one,
                "seconds": several,
                "ratios": [first["seconds"] / second["seconds"] for first, second in pairs],
            }
        )
    return {"cores": cores, "pairs": found}


def user_s(who: int = resource.RUSAGE_SELF) -> float:
    """Return the processor time spent outside the kernel, in s."""
    return resource.getrusage(who).ru_utime


def compared(program: Path, hosts: int, message_bytes: int) -> dict[str, Any]:
    """Return the figures of htsim and of ``weft simulate`` by each of `HTSIM_PATHS`, with start-up
    and in user time, on a network of so many hosts."""
    network = clos(hosts)
    leaves, spines = (len(network.switches_of(level)) for level in ("leaf", "spine"))
    target = permutation(hosts, 1)
    theirs = htsim.measure(
        program,
        htsim.matrix(target, message_bytes),
        htsim.topology(leaves, spines, hosts // leaves, RATE_BPS, DELAY_NS),
        RATE_BPS,
    )
    found = {"htsim": theirs}
    asked = {
        "flows": [
            {
                "id": rank,
                "source": f"h{rank}",
                "destination": f"h{peer}",
                "size_bytes": message_bytes,
            }
            for rank, peer in enumerate(target)
        ],
        "run": True,
    }
    for paths in HTSIM_PATHS:
        command = [
            sys.executable, "-m", "weft", "simulate", "--leaves", str(leaves), "--spines",
            str(spines), "--hosts-per-leaf", str(hosts // leaves), "--rate", f"{RATE_BPS}bit",
            "--delay", f"{DELAY_NS}ns", "--paths", paths, "--congestion", "dctcp",
        ]  # fmt: skip
        before = user_s(resource.RUSAGE_CHILDREN)
        said = subprocess.run(
            command, input=json.dumps(asked).encode(), capture_output=True, check=True
        )
        seconds = user_s(resource.RUSAGE_CHILDREN) - before
        if "error" in (answer := json.loads(said.stdout)):
            raise RunError(f"weft simulate --paths {paths}: {answer['error']}")
        packets = hosts * -(-message_bytes // PATH_MTU)
        found[paths] = {"data_packets": packets, "user_seconds": seconds}
    for row in found.values():
        row["packets_per_s"] = row["data_packets"] / max(row["user_seconds"], 1e-6)
    return {"hosts": hosts, "message_bytes": message_bytes, "by": found}


def message_bytes_on(hosts: int) -> int:
    """Return how much each flow of a permutation on so many hosts carries."""
    return min(max(LEAST_BYTES, ALL_BYTES // hosts), MOST_BYTES // hosts)


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


def carry(
    hosts: int, message_bytes: int | None = None, seed: int = 1, cores: int = 1
) -> dict[str, Any]:
    """Carry a permutation on a network of so many hosts. Raises RunError if data is wrong.

    ``data_packets`` counts the packets of messages, each once when it is delivered end to end;
    neither acknowledgements nor what was sent again is among them. ``hops`` counts all frames that
    crossed a link. ``user_seconds`` are those of the loop of events alone, ``whole_user_seconds``
    those of all, but for the interpreter's own start; ``seconds`` are the loop's by the clock.
    """
    began = user_s()
    message_bytes = message_bytes or message_bytes_on(hosts)
    topology = clos(hosts)
    world = SimulatedWorld(topology, seed=seed, path_mtu=PATH_MTU, cores=cores)
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
    started, started_s = user_s(), time.perf_counter()
    fabric.run(
        stop_ns=LIMIT_NS,
        until=lambda: all(flow.sent or flow.error for flow in flows),
        attended=lambda rank: flows[rank].sent,
    )
    seconds, clock_s = user_s() - started, time.perf_counter() - started_s
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
        "user_seconds": seconds,
        "seconds": clock_s,
        "whole_user_seconds": user_s() - began,
        "packets_per_s": packets / max(seconds, 1e-6),
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
