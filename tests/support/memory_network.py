"""Hosts joined in memory, in virtual time: links with rate and delay, multicast, and faults by
packet number or by chance.

    network = MemoryNetwork([a, b], rate_bps=10**9, faults=Faults(lose={3}))
    network.run(until=lambda: done, timeout_ns=10**9)

Every copy of a datagram that is about to be delivered has a number, from 0, in the order in which
copies leave their senders; faults name it. Everything repeats: hosts are served in their order,
random faults come from a seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.support.datagram_rows import Datagram, add, rows_of

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES, Datagrams


class Host(Protocol):
    """What the network joins: an Endpoint, or anything around one."""

    @property
    def address(self) -> int: ...

    @property
    def groups(self) -> Collection[int]: ...

    def receive(self, batch: Datagrams, now_ns: int) -> None: ...

    def transmit(self, now_ns: int, budget_bytes: int) -> Datagrams: ...

    def deadline(self) -> int | None: ...


@dataclass
class Faults:
    """What happens to copies of datagrams: by number, by chance (each with its own probability),
    or as `match` says.

    A late copy arrives `late_ns` after its time, so behind its successors. `only` limits all of
    it to the copies for which it is true; the numbers count those alone.
    """

    lose: Collection[int] = ()
    duplicate: Collection[int] = ()
    corrupt: Collection[int] = ()
    late: Collection[int] = ()
    loss: float = 0.0
    duplication: float = 0.0
    corruption: float = 0.0
    lateness: float = 0.0
    late_ns: int = 100_000
    seed: int = 0
    only: Callable[[Datagram, int], bool] | None = None
    """Called with the datagram and the receiver's address."""

    _random: random.Random = field(init=False, repr=False)
    _number: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def copies(self, datagram: Datagram, receiver: int) -> list[tuple[int, Datagram]]:
        """The copies that arrive in place of this one, each with its extra delay."""
        if self.only is not None and not self.only(datagram, receiver):
            return [(0, datagram)]
        number = self._number
        self._number += 1
        chances = [self._random.random() for _ in range(4)]
        if number in self.lose or chances[0] < self.loss:
            return []
        if number in self.corrupt or chances[1] < self.corruption:
            spoiled = bytearray(datagram.data)
            bit = self._random.randrange(8 * len(spoiled))
            spoiled[bit // 8] ^= 1 << (bit % 8)
            datagram = datagram._replace(data=bytes(spoiled))
        delay = self.late_ns if number in self.late or chances[2] < self.lateness else 0
        copies = [(delay, datagram)]
        if number in self.duplicate or chances[3] < self.duplication:
            copies.append((delay, datagram))
        return copies


class NetworkTimeout(AssertionError):
    """The condition did not come true in time, or nothing was left to happen."""


class MemoryNetwork:
    """Joins hosts by one ideal switch: per host an up and a down link of `rate_bps` (0: no
    limit), `delay_ns` across.

    A down link's queue holds `queue_bytes` (None: any number), then drops; where more than
    `mark_bytes` wait (None: never), ECN-capable datagrams are marked. With `batched` false,
    every datagram is received in a batch of its own. `trace` has (time of arrival, receiver,
    datagram) of each delivery if `keep_trace`.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        *,
        rate_bps: int = 1_000_000_000,
        delay_ns: int = 10_000,
        queue_bytes: int | None = None,
        mark_bytes: int | None = None,
        faults: Faults | None = None,
        batched: bool = True,
        keep_trace: bool = False,
    ) -> None:
        self.hosts = list(hosts)
        self.rate_bps = rate_bps
        self.delay_ns = delay_ns
        self.queue_bytes = queue_bytes
        self.mark_bytes = mark_bytes
        self.faults = faults or Faults()
        self.batched = batched
        self.keep_trace = keep_trace
        self.now_ns = 0
        self.trace: list[tuple[int, int, Datagram]] = []
        self.delivered = 0
        self.dropped = 0
        self._index = {host.address: index for index, host in enumerate(self.hosts)}
        self._up_free = [0] * len(self.hosts)
        self._down_free = [0] * len(self.hosts)
        self._arrivals: list[tuple[int, int, int, Datagram]] = []
        self._order = 0
        self._batch = Datagrams.allocate(64, 2048)
        """What a host receives, filled anew each time: hosts keep no batch."""
        self._deadlines: list[int | None] = [None] * len(self.hosts)
        self._touched = set(range(len(self.hosts)))
        """Hosts whose deadlines may be others than they were."""

    def _duration(self, datagram: Datagram) -> int:
        if not self.rate_bps:
            return 0
        frame = len(datagram.data) + FRAME_OVERHEAD_BYTES
        return -(-frame * 8 * 1_000_000_000 // self.rate_bps)

    def _receivers(self, sender: int, datagram: Datagram) -> list[int]:
        unicast = self._index.get(datagram.destination)
        if unicast is not None:
            return [unicast]
        return [
            index
            for index, host in enumerate(self.hosts)
            if index != sender and datagram.destination in host.groups
        ]

    def _carry(self, sender: int, datagram: Datagram) -> None:
        left = max(self.now_ns, self._up_free[sender]) + self._duration(datagram)
        self._up_free[sender] = left
        for receiver in self._receivers(sender, datagram):
            copies = self.faults.copies(datagram, self.hosts[receiver].address)
            for extra_ns, copy in copies:
                reached = left + self.delay_ns + extra_ns
                start = max(reached, self._down_free[receiver])
                waiting = (start - reached) * self.rate_bps // 8_000_000_000
                if self.queue_bytes is not None and waiting > self.queue_bytes:
                    self.dropped += 1
                    continue
                if self.mark_bytes is not None and waiting > self.mark_bytes and copy.tos & 3:
                    copy = copy._replace(tos=copy.tos | 3)
                arrival = start + self._duration(copy)
                if not extra_ns:
                    self._down_free[receiver] = arrival
                heapq.heappush(self._arrivals, (arrival, self._order, receiver, copy))
                self._order += 1

    def _serve(self, index: int) -> None:
        """Let a host send while its link is free and it has something."""
        host = self.hosts[index]
        while self._up_free[index] <= self.now_ns:
            self._touched.add(index)
            batch = host.transmit(self.now_ns, 1 << 40)
            if not len(batch):
                return
            for datagram in rows_of(batch):
                self._carry(index, datagram)

    def _deliver(self) -> None:
        pending: dict[int, list[Datagram]] = {}
        while self._arrivals and self._arrivals[0][0] <= self.now_ns:
            arrival, _, receiver, datagram = heapq.heappop(self._arrivals)
            pending.setdefault(receiver, []).append(datagram)
            self.delivered += 1
            if self.keep_trace:
                self.trace.append((arrival, self.hosts[receiver].address, datagram))
        self._touched.update(pending)
        for receiver, datagrams in pending.items():
            batches = [datagrams] if self.batched else [[one] for one in datagrams]
            for batch in batches:
                self.hosts[receiver].receive(self._received(batch), self.now_ns)

    def _received(self, datagrams: list[Datagram]) -> Datagrams:
        """A batch with these datagrams, valid until the next call."""
        batch = self._batch
        widest = max(len(datagram.data) for datagram in datagrams)
        if len(datagrams) > batch.capacity or widest > batch.stride:
            rows, stride = max(len(datagrams), batch.capacity), max(widest, batch.stride)
            batch = self._batch = Datagrams.allocate(rows, stride)
        batch.count = 0
        for datagram in datagrams:
            add(batch, datagram)
        return batch

    def _next_time(self) -> int | None:
        times = [self._arrivals[0][0]] if self._arrivals else []
        for index in self._touched:
            self._deadlines[index] = self.hosts[index].deadline()
        self._touched.clear()
        for index, deadline in enumerate(self._deadlines):
            if deadline is not None:
                times.append(max(deadline, self._up_free[index], self.now_ns))
        return min(times, default=None)

    def step(self, untouched: bool = False) -> bool:
        """Serve every host, go to the next event and deliver what arrives; False if nothing is
        left. With `untouched`, nobody but the network has called a host since the last step: a
        host is served if something arrived there, or at its deadline."""
        if not untouched:
            self._touched.update(range(len(self.hosts)))
        for index, deadline in enumerate(self._deadlines):
            if index in self._touched or (deadline is not None and deadline <= self.now_ns):
                self._serve(index)
        upcoming = self._next_time()
        if upcoming is None:
            return False
        self.now_ns = upcoming
        self._deliver()
        return True

    def run(
        self,
        until: Callable[[], bool],
        timeout_ns: int = 10_000_000_000,
        *,
        only_looks: bool = False,
    ) -> int:
        """Go on until the condition holds; returns the time. NetworkTimeout if it does not in
        `timeout_ns` from now. `only_looks`: the condition changes nothing that a host does."""
        end = self.now_ns + timeout_ns
        stuck = 0
        untouched = False
        while not until():
            before = self.now_ns
            if not self.step(untouched):
                if until():
                    break
                raise NetworkTimeout(f"nothing left to happen at {self.now_ns} ns")
            untouched = only_looks
            stuck = stuck + 1 if self.now_ns == before else 0
            if stuck > 10_000:
                raise NetworkTimeout(f"time stands still at {self.now_ns} ns: a host's deadline?")
            if self.now_ns > end:
                raise NetworkTimeout(f"not done at {self.now_ns} ns")
        return self.now_ns

    def settle(self, timeout_ns: int = 10_000_000_000) -> int:
        """Go on until nothing is left to happen; returns the time."""
        end = self.now_ns + timeout_ns
        while self.step():
            if self.now_ns > end:
                raise NetworkTimeout(f"not at rest at {self.now_ns} ns")
        return self.now_ns
