"""What tests of transport many share with others."""

from __future__ import annotations

import random
from typing import Any

from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.transport_pair import A, B, pattern

from weft.agents.datagrams import ipv4
from weft.agents.transport import (
    Endpoint,
    TransportOptions,
)

PATIENT = TransportOptions(retries=100)


MTU = 256


class Many:
    """Two endpoints with many queue pairs between them; `regions` and `memory` by host."""

    def __init__(
        self,
        pairs: int,
        *,
        rate_bps: int = 10**9,
        faults: Faults | None = None,
        options: TransportOptions = PATIENT,
        kind: type[Endpoint] = Endpoint,
        size: int = 1 << 16,
        connected: bool = True,
        groups: int = 0,
    ) -> None:
        self.hosts = [kind(address, MTU, rate_bps, 1, options) for address in (A, B)]
        self.pairs = [[host.create_rc() for _ in range(pairs)] for host in self.hosts]
        self.groups = [
            [host.create_ud(ipv4("239.0.0.1") + group, 1) for group in range(groups)]
            for host in self.hosts
        ]
        self.memory = [pattern(size, 1), pattern(size, 2)]
        self.regions = [
            host.register(memory) for host, memory in zip(self.hosts, self.memory, strict=True)
        ]
        if connected:
            for index in range(pairs):
                self.connect(index)
        self.network = MemoryNetwork(self.hosts, rate_bps=rate_bps, faults=faults, keep_trace=True)
        self.done: list[tuple[Any, ...]] = []

    def connect(self, index: int) -> None:
        left, right = self.pairs[0][index], self.pairs[1][index]
        left.connect(right.local)
        right.connect(left.local)

    def poll(self) -> None:
        """Note completions: host, queue pair's number, kind, context, length, data, error."""
        for side, host in enumerate(self.hosts):
            for done in host.poll():
                self.done.append(
                    (
                        side,
                        done.qp.number,
                        done.kind,
                        done.context,
                        done.length,
                        done.data,
                        done.error,
                    )
                )


def act(many: Many, choose: random.Random, actions: int, active: int, context: int) -> None:
    """Post random work to some of the first `active` queue pairs."""
    for number in range(actions):
        side = choose.randrange(2)
        index = choose.randrange(active)
        pair = many.pairs[side][index]
        here, there = many.regions[side], many.regions[1 - side]
        offset, length = choose.randrange(1 << 15), choose.choice([0, 1, MTU, 700, 5000])
        what = choose.randrange(4 if many.groups[side] else 3)
        name = (context, number)
        if what == 0:
            pair.post_send(bytes(length), name)
        elif what == 1:
            pair.post_write(here, offset, length, there.address + offset, there.rkey, context=name)
        elif what == 2:
            pair.post_read(here, offset, length, there.address + offset, there.rkey, name)
        else:
            group = choose.choice(many.groups[side])
            rate = choose.choice([0, 10**7, 10**8])
            chunks = choose.choice([0, 1, 9])
            group.post_chunks(here, 0, chunks, MTU, 0, rate, name, batch=choose.choice([1, 4]))


def random_run(kind: type[Endpoint], seed: int, pairs: int, **how: Any) -> Many:
    """Rounds of random activity on a network with faults, then until nothing is left to happen."""
    many = Many(pairs, kind=kind, connected=False, **how)
    choose = random.Random(seed)
    late = set(choose.sample(range(pairs), pairs // 4))
    for index in range(pairs):
        if index not in late:
            many.connect(index)
    for context in range(6):
        act(many, choose, choose.randrange(12), choose.choice([1, pairs]), context)
        for _ in range(choose.randrange(30)):
            many.network.step()
        many.poll()
    for index in sorted(late):
        many.connect(index)
    many.network.settle(60_000_000_000)
    many.poll()
    return many
