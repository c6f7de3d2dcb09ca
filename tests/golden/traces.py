"""Every datagram of random work on a few endpoints, for the golden set: the transport by itself, so
that its kernels can run in their plain form, too."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from tests.support.aggregation_switches import JobPlan
from tests.support.aggregation_workers import Workers
from tests.support.memory_network import Faults, MemoryNetwork

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.datagrams import ipv4
from weft.agents.transport import ChunkSink, Endpoint, RcQueuePair, TransportOptions

MTU = 256
MEMORY_BYTES = 1 << 15
HOSTS = [ipv4("10.0.0.1"), ipv4("10.0.1.2"), ipv4("10.0.2.3")]
GROUP = ipv4("239.0.0.1")
OPTIONS = {each.name for each in fields(TransportOptions)}
FAULTS = {each.name for each in fields(Faults) if each.init}
ROUNDS = 6


class Exchange:
    """Three endpoints, with queue pairs between all of them and one multicast group."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        """``told``: options of the transport, of `Faults` and of `MemoryNetwork` by their names;
        ``pairs`` between two hosts, of which ``lanes`` take turns; ``ports``: how many source
        ports each has; ``seed``, ``actions`` a round, ``longest`` of a message in bytes, and
        ``reads``: whether there is nothing else."""
        self.told = dict(told)
        of_network = {"queue_bytes", "mark_bytes", "delay_ns", "batched"}
        options = TransportOptions(**{name: told[name] for name in told.keys() & OPTIONS})
        faults = Faults(**{name: told[name] for name in sorted(told.keys() & FAULTS)})
        rate_bps = told.get("rate_bps", 10**8)
        self.hosts = [Endpoint(each, MTU, rate_bps, 1, options) for each in HOSTS]
        memory = np.random.default_rng(told["seed"])
        self.memory = [memory.integers(0, 256, MEMORY_BYTES, np.uint8) for _ in HOSTS]
        self.regions = [
            host.register(own) for host, own in zip(self.hosts, self.memory, strict=True)
        ]
        self.pairs: list[tuple[int, int, RcQueuePair]] = []
        for near in range(len(HOSTS)):
            for far in range(near):
                self._join(near, far)
        self.groups = [host.create_ud(GROUP, 7) for host in self.hosts]
        shards = [told.get("longest", 3000)] * len(HOSTS)
        self.sinks = [
            ChunkSink(np.zeros(sum(shards), np.uint8), 1, MTU, shards) for _ in self.hosts
        ]
        for pair, sink in zip(self.groups, self.sinks, strict=True):
            pair.attach(sink)
        more = {name: told[name] for name in told.keys() & of_network}
        self.network = MemoryNetwork(
            self.hosts, rate_bps=rate_bps, faults=faults, keep_trace=True, **more
        )
        self.done: list[tuple[Any, ...]] = []

    def _join(self, near: int, far: int) -> None:
        count, lanes = self.told.get("pairs", 2), self.told.get("lanes", 0)
        ends = [[self.hosts[each].create_rc() for _ in range(count)] for each in (near, far)]
        for left, right in zip(*ends, strict=True):
            left.connect(right.local)
            right.connect(left.local)
        for own, other, pairs in ((near, far, ends[0]), (far, near, ends[1])):
            for number, pair in enumerate(pairs):
                if ports := self.told.get("ports", 0):
                    first = 50_000 + 100 * number + 10 * own
                    pair.set_source_ports(range(first, first + ports))
                    pair.move_acknowledgements()
                if number < lanes:
                    pair.share_turns(pairs[0], lanes)
                self.pairs.append((own, other, pair))

    def act(self, choose: random.Random, turn: int) -> None:
        """Post random work."""
        longest = self.told.get("longest", 3000)
        for number in range(choose.randrange(self.told.get("actions", 8))):
            own, other, pair = choose.choice(self.pairs)
            here, there = self.regions[own], self.regions[other]
            offset = choose.randrange(MEMORY_BYTES - longest)
            length = choose.choice([0, 1, MTU, 700, longest])
            name, immediate = (turn, number), choose.choice([None, 77])
            kind = 2 if self.told.get("reads") else choose.randrange(4)
            far = there.address + offset
            if kind == 0:
                pair.post_send(
                    self.memory[own][offset : offset + length].tobytes(), name, immediate
                )
            elif kind == 1:
                pair.post_write(here, offset, length, far, there.rkey, immediate, name)
            elif kind == 2:
                pair.post_read(here, offset, length, far, there.rkey, name)
            else:
                chunks = self.sinks[own].chunks_of(own)
                first = choose.choice([0, choose.randrange(len(chunks))])
                self.groups[own].post_chunks(
                    here, first, choose.randrange(len(chunks) - first + 1), MTU,
                    self.sinks[own].number_base + chunks.start, choose.choice([0, 10**7]), name,
                    length=longest, batch=choose.choice([1, 4]),
                )  # fmt: skip

    def poll(self) -> None:
        """Note what has completed, and when."""
        for own, host in enumerate(self.hosts):
            for done in host.poll():
                told = (done.qp.number, done.kind.value, done.context, done.length, done.error)
                self.done.append((self.network.now_ns, own, *told, done.data))


def trace_entry(line: str) -> dict[str, Any]:
    """What came of the exchange that a line of ``traces.txt`` describes."""
    told = {name: _value(text) for name, _, text in (part.partition("=") for part in line.split())}
    return _sums(told) if "ranks" in told else _exchange(told)


def _exchange(told: Mapping[str, Any]) -> dict[str, Any]:
    exchange = Exchange(told)
    choose = random.Random(told["seed"])
    for turn in range(ROUNDS):
        exchange.act(choose, turn)
        for _ in range(choose.randrange(30)):
            exchange.network.step()
        exchange.poll()
    exchange.network.settle(60_000_000_000)
    exchange.poll()
    seen: list[Any] = [own.tobytes() for own in exchange.memory]
    for sink in exchange.sinks:
        gaps = [sink.gaps(shard) for shard in range(sink.shards)]
        seen += [sink.buffer.tobytes(), gaps, sink.missing, sink.duplicates, sink.received]
    return {
        **_entry(exchange.network, seen),
        "completions": _hash(exchange.done),
        "failed": sum(bool(each[6]) for each in exchange.done),
        "statistics": _counted([host.statistics for host in exchange.hosts]),
    }


def _sums(told: dict[str, Any]) -> dict[str, Any]:
    """Reductions one after the other, and two at a time, of ``ranks`` workers below a tree of
    switches of so many ``levels`` and at most ``fan`` children; of ``count`` elements."""
    size, count = told["ranks"], told.get("count", 100)
    faults = Faults(**{name: told[name] for name in sorted(told.keys() & FAULTS)})
    job = JobPlan(slots=told.get("slots", 8), values=told.get("values", 4))
    options = TransportOptions(**{name: told[name] for name in told.keys() & OPTIONS})
    workers = Workers(
        size, [job], levels=told.get("levels", 1), fan=told.get("fan", 0), faults=faults,
        rate_bps=told.get("rate_bps", 10**9), keep_trace=True, options=options,
    )  # fmt: skip
    drawn = np.random.default_rng(told["seed"])
    dtype = dtype_of(told.get("dtype", "float32"))
    seen: list[Any] = []
    kept: list[np.ndarray[Any, Any]] = []
    for number, average in enumerate((False, True, False)):
        scale = 10.0 ** drawn.integers(-6, 6, (size, count)) if told.get("mixed") else 1000.0
        inputs = list((drawn.standard_normal((size, count)) * scale).astype(dtype))
        shards = [count // size + (rank < count % size) for rank in range(size)]
        posted, results = workers.post(
            inputs, number, average=average, shards=shards if number == 1 else None
        )
        kept += [*inputs, *results]
        if number != 1:  # the last one is posted while that is under way
            seen += [workers.run(posted), [each.error for each in posted]]
        if any(each.error for each in posted):
            break
    seen += [each.tobytes() for each in kept]
    return {
        **_entry(workers.network, seen),
        "completions": _hash(
            [
                [(done.kind.value, done.context, done.length, done.error) for done in each]
                for each in workers.completions
            ]
        ),
        "statistics": _counted([host.statistics for host in workers.hosts]),
        "jobs": _counted([pairs.statistics for pairs in workers.pairs[0]]),
    }


def _entry(network: MemoryNetwork, seen: list[Any]) -> dict[str, Any]:
    trace = [(arrival, receiver, tuple(datagram)) for arrival, receiver, datagram in network.trace]
    return {"datagrams": len(trace), "end_ns": network.now_ns, "digest": _hash((trace, seen))}


def _hash(what: Any) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def _counted(statistics: list[Any]) -> dict[str, list[int]]:
    """What was counted, by name, of each host; names of which nothing was are left out."""
    counted = [asdict(each) for each in statistics]
    names = [name for name in counted[0] if any(each[name] for each in counted)]
    return {name: [each[name] for each in counted] for name in names}


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
