"""The parts of a network that is cut, and the threads that drive them."""

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.base.jit import words_of
from weft.base.machine_code import bound
from weft.base.pages import zeroed
from weft.switch.engine.control.memory import rows
from weft.switch.engine.dataplane.layout import NONE, Chain
from weft.topo.worlds.simulated import layout as at
from weft.topo.worlds.simulated.core import Core
from weft.topo.worlds.simulated.parts import run_part

Words = npt.NDArray[np.int64]

FIRST_ROOM = 1 << 12
"""How many events, and arrivals, a part writes down before it needs more room."""
COUNTS = ("frames", "delivered", "events")
"""What each world counts, and all together have."""


class PartCore(Core):
    """The loop of a part."""

    def __init__(
        self, first: Core, path_mtu: int, owners: Words, peers: Words, words: at.PartRecord
    ) -> None:
        """Make it.

        Args:
            first: that of the whole network, which becomes that of the first part.
            owners: int64[port indices]: the part that each port is of, whose events are its own.
            peers: int64[port indices]: the port at the other end of its link, or NONE.
            words: its record, which has its number.
        """
        memory = first.memory if words.number == 0 else first.memory.beside()
        world = first.world
        if words.number:
            world = at.WorldRecord.zeroed()
            words_of(world)[:] = words_of(first.world)
            memory.context.passes_end = first.memory.context.passes_end
        super().__init__(world, memory, path_mtu)
        self.words = words
        world.part = words.location
        far = np.where(peers == NONE, owners, owners[peers])
        outgoing = (owners == words.number) & (far != words.number)
        coming = np.flatnonzero((owners != words.number) & (far == words.number))
        self._outbound = np.where(outgoing, far, NONE)
        self._inbound = np.full(len(owners), NONE)
        self._inbound[coming] = np.arange(len(coming))
        self._crossings = rows(Chain, len(coming))
        self._crossings.head = self._crossings.tail = NONE
        parts = 1 + int(owners.max())
        self._outgoing = zeroed((parts, max(int(outgoing.sum()), 1)), np.int64)
        self._counts = zeroed(parts, np.int64)
        self._noted = zeroed(len(owners), np.int64)
        self._events = zeroed(FIRST_ROOM, at.LoggedEvent.dtype)
        self._arrivals = zeroed(FIRST_ROOM, at.LoggedArrival.dtype)
        self._kept: list[Any] = []
        """Memory that other parts may still read."""
        words.fill(
            world=world.location,
            context=int(memory.context.address),
            inbound=self._inbound.ctypes.data,
            crossings=self._crossings.ctypes.data,
            outbound=self._outbound.ctypes.data,
            noted=self._noted.ctypes.data,
            outgoing=self._outgoing.ctypes.data,
            outgoing_room=self._outgoing.shape[1],
            outgoing_counts=self._counts.ctypes.data,
        )
        self._lead()

    def _lead(self) -> None:
        self.words.fill(
            events=self._events.ctypes.data,
            event_room=len(self._events),
            arrivals=self._arrivals.ctypes.data,
            arrival_room=len(self._arrivals),
        )

    @cached_property
    def _run_part(self) -> Callable[[], int]:
        return bound(run_part, self.words.location, self.memory.context)

    def go_on(self) -> int:
        """See `Core.go_on`."""
        return self._run_part()

    def leave(self) -> bool:
        """See `Core.leave`: the others may be ahead by less than a window, so all end it."""
        self.words.done = 1
        return False

    def grow(self) -> None:
        """See `Core.grow`."""
        context, memory = self.memory.context, self.memory
        needed = max(self.world.margin, self.words.wanted)
        while min(context.free_packet_count, context.free_buffer_count) < needed:
            self._kept.append((memory.buffers, memory.packets, memory.headers))
            memory.grow(
                packets=bool(context.free_packet_count < needed),
                buffers=bool(context.free_buffer_count < needed),
            )
        if self.words.event_count >= len(self._events):
            self._events = np.concatenate([self._events, np.zeros_like(self._events)])
        if self.words.arrival_count >= len(self._arrivals):
            self._arrivals = np.concatenate([self._arrivals, np.zeros_like(self._arrivals)])
        self._lead()

    def begin(self, first: Core) -> None:
        """Get ready to go on."""
        if self.memory is not first.memory:
            self.memory.follow(first.memory)
            self.world.fill(
                rules=first.world.rules,
                rule_count=first.world.rule_count,
                headers_alone=first.world.headers_alone,
            )
        self.left_ns = NONE
        self._kept.clear()
        self.words.fill(step=at.TAKES, round=0, done=0, over=0, sender=0, place=0)


class Team:
    """The parts of a network, whose events are those of the whole network in the same order."""

    def __init__(
        self, first: Core, path_mtu: int, owners: Words, peers: Words, window_ns: int
    ) -> None:
        """Make the parts; the arguments are those of `PartCore`, and how far a part may go
        ahead."""
        count = 1 + int(owners.max())
        self._table = zeroed(count, at.PartRecord.dtype)
        self._merged = zeroed((count, 2), np.int64)
        self._words = at.TeamRecord.zeroed(
            parts=self._table.ctypes.data,
            count=count,
            window_ns=window_ns,
            merged=self._merged.ctypes.data,
        )
        self.cores: list[PartCore] = []
        for number in range(count):
            words = at.PartRecord.at(self._table.ctypes.data, number)
            words.fill(number=number, team=self._words.location)
            self.cores.append(PartCore(first, path_mtu, owners, peers, words))

    def run(self, stop_ns: int, drive: Callable[[Core], int]) -> int:
        """Go on up to a time, and return why no further: IDLE, STOPPED; CALL if nothing was waited
        for any more.

        Args:
            drive: called for each part, on a thread of its own (for the first, on this one), until
                it is to come back; what it raises for one is raised once all have come back.
        """
        first = self.cores[0]
        self._words.fill(stop_ns=stop_ns, halt=0)
        for core in self.cores:
            core.begin(first)
        reasons, failures = self._driven(drive)
        for core in self.cores[1:]:
            for name in COUNTS:
                setattr(first.world, name, getattr(first.world, name) + getattr(core.world, name))
                setattr(core.world, name, 0)
        if failures:
            del failures[1:]
            raise failures.pop()
        if any(core.words.done for core in self.cores):
            reason, now_ns = at.CALL, max(core.left_ns for core in self.cores)
        else:
            reason, now_ns = reasons[0], max(core.world.now_ns for core in self.cores)
        self.set_now(stop_ns if reason == at.STOPPED else now_ns)
        return reason

    def set_now(self, now_ns: int) -> None:
        """Let the time of all parts be the same."""
        for core in self.cores:
            core.world.now_ns = now_ns

    def _driven(self, drive: Callable[[Core], int]) -> tuple[Sequence[int], list[BaseException]]:
        """Drive all parts; return why each has come back, and what went wrong."""
        reasons = [at.HALTED] * len(self.cores)
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                reasons[number] = drive(self.cores[number])
            except BaseException as error:
                failures.append(error)
                self._words.halt = 1

        threads = [
            Thread(target=work, args=(number,), name=f"part {number}", daemon=True)
            for number in range(1, len(self.cores))
        ]

        def start() -> None:
            for thread in threads:
                thread.start()
            work(0)

        def join() -> None:
            for thread in threads:
                if thread.is_alive():
                    thread.join()

        # Signals may raise anything anywhere, and what threads work on is there until they end.
        for action in (start, join, join):
            try:
                action()
            except BaseException as error:
                failures.append(error)
                self._words.halt = 1
        return reasons, failures
