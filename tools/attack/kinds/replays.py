"""Packets of long ago, sent again when their numbers have come round."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

from tests.support.collective_group import EVERY, Group, name_of
from tests.support.datagram_rows import Datagram, batch_of
from tests.support.long_ago import ROUND, begin_anew

import weft
from weft.agents.collectives.agent import Done
from weft.agents.wire.headers import Opcode
from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.kinds.packets import first_of, framed
from weft.topo.clos import leaf_spine
from weft.topo.worlds.emulated.namespaces import in_namespace

SHARE = 1.0
DEADLINE_S = 240.0
NEEDS_ROOT = False

LATER = [255, 256, 512, 1 << 16, 1 << 24]
"""After so many operations more, or nearly so many, fields for their number have come round."""
OFTEN = [0.1, 0.5, 2.0]
"""How many old packets come for each step,"""
MOST = 20_000
"""and in all: whoever sends them may hear them, too."""


def attack(trial: Trial) -> str:
    """Let operations run while packets of earlier ones are sent again."""
    drawn = trial.random.random()
    if drawn < 0.1 and os.geteuid() == 0:
        return _in_namespaces(trial)
    return _through_switches(trial) if drawn < 0.3 else _among_agents(trial)


class Memory:
    """Remembers all packets, and finds old ones that could be taken for new ones."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._old: list[Datagram] = []
        self._alike: dict[bytes, list[Datagram]] = defaultdict(list)
        self._fresh: list[Datagram] = []
        self._chunk = b""
        """The operation of the last chunk, as its immediate has it."""
        self.sent = 0

    def see(self, datagram: Datagram) -> None:
        """Remember a packet; it is old once there is another operation."""
        self._fresh.append(datagram)
        if datagram.data[0] == Opcode.UD_SEND_ONLY_WITH_IMMEDIATE:
            self._chunk = datagram.data[20:21]

    def grow_old(self) -> None:
        """Let all packets so far be of long ago."""
        for datagram in self._fresh:
            if datagram.data[0] == Opcode.UD_SEND_ONLY_WITH_IMMEDIATE:
                self._alike[datagram.data[20:21]].append(datagram)
        self._old += self._fresh
        self._fresh.clear()

    def some(self, often: float) -> Iterator[Datagram]:
        """Old packets for one step."""
        number = int(often) + (self._random.random() < often % 1)
        for _ in range(number if self._old and self.sent < MOST else 0):
            alike = self._alike.get(self._chunk)
            self.sent += 1
            yield self._random.choice(alike if alike and self._random.random() < 0.5 else self._old)


# -- against the agents alone


def _among_agents(trial: Trial) -> str:
    random = trial.random
    size, often = random.choice([2, 3, 4]), random.choice(OFTEN)
    memory = Memory(random)
    epoch = 1
    group = Group(size, keep_trace=True)
    trial.note(f"{size} ranks, {often:g} a step")
    for _ in range(random.randint(2, 4)):
        request = replace(random.choice(EVERY), counts=random.choice([1, 600, 3000]))
        if trial.chance(0.5):
            request = replace(random.choice(_MULTICAST), counts=request.counts)
        trial.note(f"{name_of(request)} of {request.counts} elements, number {group.number}")
        _operate(group, request, memory, often)
        memory.grow_old()
        for change in random.sample(["operations", "packets", "group"], random.randint(1, 2)):
            trial.note(f"then other {change}")
            if change == "operations":
                group.number += random.choice(LATER) - random.randint(0, 1)
            elif change == "packets":
                members = [agent.communicator for agent in group.agents]
                pairs = (pair for each in members for pair in each.queue_pairs.values())
                begin_anew(pairs, random.randint(1, 100) * ROUND)
            else:
                epoch += 1
                group = Group(size, keep_trace=True, epoch=epoch)
    trial.note(f"{memory.sent} packets were sent again")
    return "verified"


_MULTICAST = [request for request in EVERY if request.algorithm == "multicast"]


def _operate(group: Group, request: Any, memory: Memory, often: float) -> None:
    hosts = {agent.address: agent for agent in group.agents}
    network = group.network

    def send(datagram: Datagram) -> None:
        to = [hosts[datagram.destination]] if datagram.destination in hosts else group.agents
        for agent in to:
            agent.receive(batch_of([datagram], stride=64), network.now_ns)

    number = group.start(request)
    for datagram in memory.some(50 * often):
        send(datagram)
    ended: set[int] = set()
    while len(ended) < group.size:
        if not network.step():
            raise Broken(f"ranks {sorted(ended)} have ended, and nothing is left to happen")
        for datagram in memory.some(often):
            send(datagram)
        for rank, agent in enumerate(group.agents):
            event = agent.next_event()
            if event is not None and not isinstance(event, Done):
                raise Broken(f"packets that are to be thrown away did harm: {event.error}")
            if event is not None:
                ended.add(rank)
    workload = group.workloads[number]
    for rank in range(group.size):
        buffers = group.buffers[number][rank], group.outputs[number][rank]
        if wrong := workload.check(rank, *buffers):
            raise Broken(f"packets of long ago were taken: {wrong}")
    network.settle(30_000_000_000)
    for _, _, datagram in network.trace:
        memory.see(datagram)
    network.trace.clear()


# -- through the switches


def _fabric_of(net: Any) -> Any:
    """The fabric of a simulated network."""
    return net.backend.fabric


def _through_switches(trial: Trial) -> str:
    """Runs on one network, one after the other, with packets of those before."""
    random = trial.random
    topology = leaf_spine(2, random.choice([1, 2]), 2)
    memory = Memory(random)
    often = random.choice(OFTEN)
    runs = random.randint(2, 3)
    with (
        weft.up(topology, world="simulated", mtu=1024) as net,
        _rogue(_fabric_of(net), memory, random, often),
    ):
        for _ in range(runs):
            algorithm = random.choice(["multicast", "multicast", "ring"])
            operations = random.choice([1, 2, 270])
            size = 4 * random.randint(500, 2500)  # by which the same chunks have other data
            trial.note(f"{algorithm}, {operations} operations of {size} bytes")
            run = net.allgather(size=size, algorithm=algorithm, operations=operations)
            if not run.verified:
                raise Broken(f"packets of long ago did harm: {run.error}")
            memory.grow_old()
    trial.note(f"{memory.sent} packets were sent again")
    return "verified"


@contextmanager
def _rogue(fabric: Any, memory: Memory, random: Random, often: float) -> Iterator[None]:
    """Let a host hear everything, and send what is old."""
    link = random.choice([each.ends for each in fabric.topology.directions])
    steps = 0

    def look() -> None:
        nonlocal steps
        for batch in (fabric.core.sending, fabric.core.received):
            if batch.length[0] > 12:
                memory.see(first_of(batch))
        steps += 1
        if steps % 500 == 0:  # some operations at a time have gone by
            memory.grow_old()
        for datagram in memory.some(often):
            fabric.inject(link, framed(random, datagram, whole=True))

    attend = fabric.run

    def run(**how: Any) -> bool:
        attended = how.pop("attended", lambda rank: None)

        def after(rank: int) -> None:
            attended(rank)
            look()

        found: bool = attend(**how, attended=after)
        return found

    fabric.run = run
    try:
        yield
    finally:
        fabric.run = attend


# -- in namespaces


def _in_namespaces(trial: Trial) -> str:
    """Emulated runs on one network, with a host that is in none of them and sends what is old."""
    random = trial.random
    often = random.choice(OFTEN)
    with weft.up(weft.single(hosts=4), mtu=1024) as net:
        rogue = _Rogue(net, Memory(random), often)
        rogue.start()
        try:
            for _ in range(2):
                operations = random.choice([2, 2, 270])
                size = 4 * random.randint(500, 2500)
                trial.note(f"emulated, {operations} operations of {size} bytes")
                run = net.allgather(
                    hosts=("h0", "h1", "h2"),
                    size=size,
                    algorithm="multicast",
                    operations=operations,
                )
                if not run.verified:
                    raise Broken(f"packets of long ago did harm: {run.error}")
                rogue.grow_old()
        finally:
            rogue.ended.set()
            rogue.join()
    trial.note(f"{rogue.memory.sent} packets were sent again")
    if not rogue.memory.sent:
        raise Broken("nothing was heard that could be sent again")
    return "verified, emulated"


class _Rogue(threading.Thread):
    """Hears what comes to a rank of a network that is up, and sends from another host."""

    def __init__(self, net: Any, memory: Memory, often: float) -> None:
        super().__init__(daemon=True)
        world = net.backend
        self._heard = in_namespace(world.host_pid(0), lambda: _open(world.host_interface(0)))
        self._sends = in_namespace(world.host_pid(3), lambda: _open(world.host_interface(3)))
        own = net.host("h3").interfaces[0]
        self._macs = bytes.fromhex((own.gateway_mac + own.mac).replace(":", ""))
        self.memory = memory
        self._often = often
        self._lock = threading.Lock()
        self.ended = threading.Event()

    def grow_old(self) -> None:
        """Let all that was heard so far be of long ago."""
        with self._lock:
            self.memory.grow_old()

    def run(self) -> None:
        heard = 0
        with self._heard, self._sends:
            while not self.ended.is_set():
                if not select.select([self._heard], [], [], 0.05)[0]:
                    continue
                frame = self._heard.recv(9100)
                if frame[12:14] != b"\x08\x00" or frame[23] != 17 or frame[36:38] != b"\x12\xb7":
                    continue
                heard += 1
                with self._lock:
                    self.memory.see(_datagram_of(frame))
                    if heard % 2000 == 0:
                        self.memory.grow_old()
                    again = list(self.memory.some(self._often))
                for datagram in again:
                    self._send(datagram)

    def _send(self, datagram: Datagram) -> None:
        macs = self._macs
        if datagram.destination >> 28 == 0xE:
            group = 0x01005E000000 | datagram.destination & 0x7FFFFF
            macs = group.to_bytes(6, "big") + macs[6:]
        frame = framed(Random(0), datagram, whole=True)
        with suppress(OSError):  # the queue of the interface is full
            self._sends.send(macs + frame[12:])


def _open(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    opened.bind((interface, 0))
    return opened


def _datagram_of(frame: bytes) -> Datagram:
    size = int.from_bytes(frame[38:40], "big") - 8
    source, destination = (int.from_bytes(frame[at : at + 4], "big") for at in (26, 30))
    port = int.from_bytes(frame[34:36], "big")
    return Datagram(source, destination, port, frame[15], frame[42 : 42 + size])
