"""Forged, mutated and replayed packets, against the agents alone and through the switches, too."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
from tests.support.collective_group import EVERY, Group, name_of
from tests.support.datagram_rows import Datagram, batch_of
from tests.support.fabric import fabric_plan
from tests.support.operations import gather
from tests.support.rocev2_packet import icrc

from weft.agents.collectives.agent import Done
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import Datagrams
from weft.agents.ranks import RankReport
from weft.agents.wire.headers import Opcode
from weft.base.errors import RunError
from weft.controller import Controller
from weft.controller.features.multicast import trees_of as multicast_trees
from weft.switch.compiler import ProgramFiles, compile_cached
from weft.tools.attack.kind import Broken, Trial
from weft.topo.clos import leaf_spine
from weft.topo.fabric_program import fabric_program
from weft.topo.worlds.simulated.operation import SimulatedProgress
from weft.topo.worlds.simulated.world import SimulatedWorld

SHARE = 1.5
DEADLINE_S = 240.0
NEEDS_ROOT = False

TIMEOUT_NS = 2_000_000_000
LIMIT_NS = 30_000_000_000
"""Of virtual time, for operations that give up after `TIMEOUT_NS`."""
KEPT = 64
"""Packets that a forger remembers."""
GUARD = 4096
"""Elements in front of and behind each array, which nothing may write to."""
PATTERN = 0xA5


def attack(trial: Trial) -> str:
    """Let operations run while packets are forged."""
    return _through_switches(trial) if trial.chance(0.4) else _among_agents(trial)


# -- what a forger makes


@dataclass
class Forger:
    """A maker of datagrams from ones that it has seen.

    Without ``authority`` it makes only what a receiver can tell from what its peer said: with a
    wrong ICRC, for queue pairs that are not there, or said before. Those may cost time, and
    nothing else. With it, it makes anything, right ICRC and all, but for other payload: that is
    indeed indistinguishable, in RoCEv2, from what the peer says.
    """

    random: Random
    authority: bool

    def __post_init__(self) -> None:
        self.seen: list[Datagram] = []
        self.made = 0

    def see(self, datagram: Datagram) -> None:
        """Remember a datagram."""
        if len(self.seen) < KEPT:
            self.seen.append(datagram)
        else:
            self.seen[self.random.randrange(KEPT)] = datagram

    def make(self) -> Datagram:
        """The next datagram; something has been seen."""
        self.made += 1
        random = self.random
        seen = random.choice(self.seen)
        kinds: list[Callable[[Datagram], Datagram]] = [
            self._spoiled, self._of_no_pair, self._cut, self._nonsense, lambda datagram: datagram,
        ]  # fmt: skip
        if self.authority:
            kinds += [self._header_flipped, self._field_set, self._cut_right, self._of_opcode] * 2
        return random.choice(kinds)(seen)

    def _spoiled(self, seen: Datagram) -> Datagram:
        """Some bits are flipped, and the ICRC is not made anew."""
        data = bytearray(seen.data)
        for bit in self.random.sample(range(8 * len(data)), self.random.randint(1, 4)):
            if bit // 8 != 4:  # which the ICRC does not cover
                data[bit // 8] ^= 1 << bit % 8
        return seen._replace(data=bytes(data)) if bytes(data) != seen.data else self._cut(seen)

    def _of_no_pair(self, seen: Datagram) -> Datagram:
        """For a queue pair that nobody has, with the right ICRC."""
        number = self.random.randrange(1 << 20, 1 << 24)
        data = seen.data[:5] + number.to_bytes(3, "big") + seen.data[8:]
        return _signed(seen._replace(data=data))

    def _cut(self, seen: Datagram) -> Datagram:
        """Shorter or longer, with a wrong ICRC."""
        size = self.random.randint(0, len(seen.data) - 1)
        data = seen.data[:size] + self.random.randbytes(self.random.choice([0, 1, 4, 60]))
        return seen._replace(data=data if data != seen.data else b"")

    def _nonsense(self, seen: Datagram) -> Datagram:
        """Bytes of any kind."""
        return seen._replace(data=self.random.randbytes(self.random.choice([0, 3, 16, 60, 300])))

    def _header_flipped(self, seen: Datagram) -> Datagram:
        """Bits of its headers are flipped; the ICRC is right."""
        data = bytearray(seen.data)
        for _ in range(self.random.randint(1, 3)):
            bit = self.random.randrange(8 * min(28, len(data) - 4))
            data[bit // 8] ^= 1 << bit % 8
        return _signed(seen._replace(data=bytes(data)))

    def _field_set(self, seen: Datagram) -> Datagram:
        """A word of its headers is another; the ICRC is right."""
        at = self.random.choice([8, 12, 16, 20, 24])
        word = self.random.choice([0, 1, 0xFFFFFFFF, 1 << 31, self.random.getrandbits(32)])
        if at + 4 > len(seen.data) - 4:
            return self._header_flipped(seen)
        data = seen.data[:at] + struct.pack(">I", word) + seen.data[at + 4 :]
        return _signed(seen._replace(data=data))

    def _cut_right(self, seen: Datagram) -> Datagram:
        """Shorter or longer; the ICRC is right."""
        body = seen.data[: self.random.randint(12, max(12, len(seen.data) - 4))]
        body += bytes(self.random.choice([0, 0, 4, 32]))
        return _signed(seen._replace(data=body + bytes(4)))

    def _of_opcode(self, seen: Datagram) -> Datagram:
        """Of another opcode; the ICRC is right."""
        opcode = self.random.choice([*map(int, Opcode), self.random.randrange(256)])
        return _signed(seen._replace(data=bytes([opcode]) + seen.data[1:]))


def _signed(datagram: Datagram) -> Datagram:
    """With the ICRC that its bytes call for."""
    body = datagram.data[:-4]
    if len(body) < 12:
        return datagram
    code = icrc(body, datagram.source, datagram.destination, datagram.source_port)
    return datagram._replace(data=body + struct.pack("<I", code))


# -- against the agents alone


def _among_agents(trial: Trial) -> str:
    random = trial.random
    size = random.choice([2, 3, 4])
    request = replace(
        random.choice(EVERY),
        counts=random.choice([1, 600, 5000]),
        timeout_ns=TIMEOUT_NS,
    )
    forger = Forger(random, trial.chance(0.6))
    often = random.choice([0.05, 0.3, 1.0])
    operations = random.randint(1, 2)
    trial.note(
        f"{size} ranks, {name_of(request)}, {request.counts} elements, authority "
        f"{forger.authority}, {often:g} a step, {operations} operations"
    )
    group = Group(size, rate_bps=100_000_000, keep_trace=True)
    outcomes = []
    for _ in range(operations):
        outcomes.append(_operate(trial, group, request, forger, often))
        if outcomes[-1] != "verified":
            break
    trial.note(f"{forger.made} packets were forged")
    if not forger.authority and set(outcomes) != {"verified"}:
        raise Broken(f"packets that are to be thrown away did harm: {outcomes}")
    return min(outcomes).partition(":")[0]


def _operate(trial: Trial, group: Group, request: Request, forger: Forger, often: float) -> str:
    number = group.prepare(request)
    guards = [_guarded(group.buffers[number]), _guarded(group.outputs[number])]
    for rank in range(group.size):
        group.start_on(rank, number)
    ended: dict[int, Any] = {}
    network = group.network
    end_ns = network.now_ns + LIMIT_NS
    while len(ended) < group.size:
        if not network.step() and len(ended) < group.size and not _take(group, ended):
            raise Broken(f"ranks {sorted(ended)} have ended, and nothing is left to happen")
        if network.now_ns > end_ns:
            raise Broken(f"only ranks {sorted(ended)} have ended after {LIMIT_NS} ns")
        for _, _, datagram in network.trace:
            forger.see(datagram)
        network.trace.clear()
        if forger.seen and forger.random.random() < often:
            forged = forger.make()
            receiver = forger.random.randrange(group.size)
            for index, agent in enumerate(group.agents):
                if agent.address == forged.destination:
                    receiver = index
            group.agents[receiver].receive(batch_of([forged], stride=64), network.now_ns)
        _take(group, ended)
    for whole in (one for each in guards for one in each):
        if (
            not (_bytes(whole[:GUARD]) == PATTERN).all()
            or not (_bytes(whole[-GUARD:]) == PATTERN).all()
        ):
            raise Broken("memory outside of a rank's array was written to")
    failed = [event.error for event in ended.values() if not isinstance(event, Done)]
    if failed:
        if not any("rank" in error for error in failed):
            raise Broken(f"no error names a rank: {failed}")
        return f"ended with an error: {failed}"
    workload = group.workloads[number]
    for rank in range(group.size):
        buffer, output = group.buffers[number][rank], group.outputs[number][rank]
        if workload.check(rank, buffer, output):
            return "wrong data, found by verification"
    return "verified"


def _take(group: Group, ended: dict[int, Any]) -> bool:
    before = len(ended)
    for rank, agent in enumerate(group.agents):
        if rank not in ended and (event := agent.next_event()) is not None:
            ended[rank] = event
    return len(ended) > before


def _guarded(arrays: list[Any]) -> list[Any]:
    """Put guards around arrays, in place in the list; the larger arrays."""
    larger = []
    for index, array in enumerate(arrays):
        if array is None:
            continue
        whole = np.empty(len(array) + 2 * GUARD, array.dtype)
        _bytes(whole)[:] = PATTERN
        inner = whole[GUARD : GUARD + len(array)]
        inner[:] = array
        arrays[index] = inner
        larger.append(whole)
    return larger


def _bytes(array: Any) -> Any:
    return array.view(np.uint8)


# -- through the switches


@lru_cache(maxsize=1)
def _program() -> ProgramFiles:
    return compile_cached(fabric_program())


def _through_switches(trial: Trial) -> str:
    random = trial.random
    topology = leaf_spine(2, random.choice([1, 2]), random.choice([1, 2]))
    forger = Forger(random, trial.chance(0.6))
    algorithm = random.choice(["ring", "multicast", "linear"])
    size_bytes = random.choice([4096, 30_000])
    trial.note(f"{topology.describe()}, {algorithm}, {size_bytes}, authority {forger.authority}")
    world = SimulatedWorld(topology, seed=random.randrange(100), path_mtu=1024)
    fabric = world.fabric
    directions = [each.ends for each in topology.directions]

    def look(_progress: SimulatedProgress) -> None:
        for batch in (fabric.core.sending, fabric.core.received):
            if batch.length[0] > 12:
                forger.see(first_of(batch))
        if forger.seen:
            frame = framed(random, forger.make())
            fabric.inject(random.choice(directions), frame)

    attend = fabric.run

    def run(**how: Any) -> bool:
        """As it is, with a look after each call of an agent: pauses are too seldom."""
        attended = how.pop("attended")

        def after(rank: int) -> None:
            attended(rank)
            look(SimulatedProgress(0, 0, 0, 0))

        return attend(**how, attended=after)

    fabric.run = run  # type: ignore[method-assign]
    with Controller(topology, world.switch_addresses, _program()) as controller:
        plan = fabric_plan(topology, seed=1)
        controller.apply(plan)
        try:
            operation = gather(algorithm, size_bytes, timeout_ns=TIMEOUT_NS)
            results = world.run_operation(
                operation, groups=[group.address for group in multicast_trees(plan)]
            )
        except RunError as error:
            if forger.authority:
                return f"run error: {error}"[:40]
            raise
    trial.note(f"{forger.made} packets were forged")
    return _judge(results, forger)


def _judge(results: list[RankReport], forger: Forger) -> str:
    errors = [result.error for result in results if not result.verified]
    if any(not error for error in errors):
        raise Broken(f"ranks did not verify, without an error: {results}")
    if not errors:
        return "verified"
    if not forger.authority:
        raise Broken(f"packets that are to be thrown away did harm: {errors}")
    if any("is wrong" in error for error in errors):
        return "wrong data, found by verification"
    if not any("rank" in error for error in errors):
        raise Broken(f"no error names a rank: {errors}")
    return "ended with an error"


def first_of(batch: Datagrams) -> Datagram:
    """The first datagram of a batch."""
    data = batch.data[0, : batch.length[0]].tobytes()
    return Datagram(
        int(batch.source[0]), int(batch.destination[0]), int(batch.source_port[0]),
        int(batch.tos[0]), data,
    )  # fmt: skip


def framed(random: Random, datagram: Datagram, whole: bool = False) -> bytes:
    """A datagram as a frame; unless it is to be whole, at times with headers in front of it that
    make no sense."""
    size = len(datagram.data)
    udp = struct.pack(">HHHH", datagram.source_port, 4791, size + 8, 0)
    head = struct.pack(
        ">BBHHHBBHII", 0x45, datagram.tos, size + 28, 0, 0x4000, 64, 17, 0,
        datagram.source, datagram.destination,
    )  # fmt: skip
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack(">H", ~total & 0xFFFF) + head[12:]
    to = random.randbytes(6)
    if datagram.destination >> 28 == 0xE:
        to = (0x01005E000000 | datagram.destination & 0x7FFFFF).to_bytes(6, "big")
    ethernet = to + random.randbytes(6) + b"\x08\x00"
    frame = bytearray(ethernet + head + udp + datagram.data)
    if whole:
        return bytes(frame)
    if random.random() < 0.2:
        for _ in range(random.randint(1, 3)):
            frame[random.randrange(42)] ^= 1 << random.randrange(8)
    if random.random() < 0.05:
        del frame[random.randrange(1, len(frame)) :]
    return bytes(frame)
