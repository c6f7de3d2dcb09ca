"""Traces of the switches of a running process, started and taken by other threads.

The traced form of a program is compiled before packets see it, beside the packet loop, which
forwards meanwhile; between two batches the switch then changes over. Taking a trace copies its
array between two batches, and tells the events afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.base.errors import InputError
from weft.switch.engine.trace import Decoder, Event
from weft.switch.engine.tracer import MOST_PACKETS, Tracer

if TYPE_CHECKING:
    from weft.switch.realtime.process import SwitchProcess


class Traces:
    """The traces of a process, one a switch at a time."""

    def __init__(self, process: SwitchProcess) -> None:
        self._process = process
        self._traces: dict[int, tuple[Tracer, Decoder]] = {}

    def _number(self, name: str) -> int:
        names = [switch.name for switch in self._process.config.switches]
        if name not in names:
            raise InputError(f"there is no switch {name!r}; there are: {', '.join(names)}")
        return names.index(name)

    def start(self, name: str, packets: int = MOST_PACKETS) -> None:
        """Trace the next packets of a switch, instead of what it has been tracing, if anything.

        Takes as long as compiling the program where its traced form has not been compiled before.
        Raises ``InputError``, ``ProgramError``.
        """
        number = self._number(name)
        if not 0 < packets <= MOST_PACKETS:
            raise InputError(f"a trace of {packets} packets of {name!r}: 1 to {MOST_PACKETS}")
        process = self._process
        tracer = Tracer(process.controls[number], packets)
        self.end(name)
        with process.building:
            process.dataplane.prepare_trace(tracer)
        process.between_batches(lambda: process.dataplane.start_trace(tracer))
        self._traces[number] = tracer, Decoder()

    def take(self, name: str) -> dict[str, Any]:
        """What has been traced since it was last taken: ``events``; and, since the start, how many
        ``packets`` were traced, how many ``passed`` untraced, and how many ``lost_records`` found
        no room. Raises ``InputError`` for a switch that is not traced.
        """
        number = self._number(name)
        if number not in self._traces:
            raise InputError(f"switch {name!r} is not traced: start a trace of it first")
        tracer, decoder = self._traces[number]
        taken = []
        self._process.between_batches(lambda: taken.append(tracer.take()))
        events: list[Event] = decoder.feed(taken[0])
        return {
            "events": events,
            "packets": taken[0].packets,
            "passed": taken[0].passed,
            "lost_records": taken[0].lost,
        }

    def end(self, name: str) -> None:
        """Trace a switch no longer; nothing if it is not traced."""
        number = self._number(name)
        if self._traces.pop(number, None) is not None:
            process = self._process
            process.between_batches(lambda: process.dataplane.end_trace(number))
