"""Traces of the switches of a running process, started and taken by other threads.

The traced form of a program is made before packets see it, beside the packet loop, which
forwards meanwhile; between two batches the switch then changes over. Taking a trace copies its
array between two batches; the events are decoded afterwards.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from weft.base.errors import InputError, refuse
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane
from weft.switch.engine.trace.decoder import Decoder, Event
from weft.switch.engine.trace.tracer import MOST_PACKETS, Tracer


@dataclass
class Traces:
    """The traces of a process: at most one of each switch at a time."""

    controls: Mapping[str, SwitchControl]
    """Those of all switches, by name."""
    dataplane: Dataplane
    building: AbstractContextManager[Any]
    """Held while programs are compiled."""
    at_once: Callable[[Callable[[], None]], None]
    """Runs an action while no packet is under way."""
    _traces: dict[str, tuple[Tracer, Decoder]] = field(default_factory=dict)

    def _control(self, name: str) -> SwitchControl:
        if name not in self.controls:
            raise InputError(f"there is no switch {name!r}; there are: {', '.join(self.controls)}")
        return self.controls[name]

    def start(self, name: str, packets: int = MOST_PACKETS) -> None:
        """Trace the next packets of a switch; a trace of it that goes on already ends.

        Takes as long as compiling the program if its traced form has not been compiled before,
        unless programs run at once.
        Raises ``InputError``, ``ProgramError``.
        """
        control = self._control(name)
        if not 0 < packets <= MOST_PACKETS:
            raise InputError(f"a trace of {packets} packets of {name!r}: 1 to {MOST_PACKETS}")
        tracer = Tracer(control, packets)
        self.end(name)
        with self.building:
            self.dataplane.prepare_trace(tracer)
        self.at_once(lambda: self.dataplane.start_trace(tracer))
        self._traces[name] = tracer, Decoder()

    def take(self, name: str) -> dict[str, Any]:
        """Return the ``events`` that were traced since this was last called; and how many
        ``packets`` were traced since the start, how many ``passed`` untraced, and how many
        ``lost_records`` found no room; and in which ``form`` the program runs now
        (`Dataplane.form`). Raises ``InputError`` for a switch that is not traced.
        """
        switch = self._control(name).switch
        refuse(
            name not in self._traces, f"switch {name!r} is not traced: start a trace of it first"
        )
        tracer, decoder = self._traces[name]
        taken = []
        self.at_once(lambda: taken.append(tracer.take()))
        events: list[Event] = decoder.feed(taken[0])
        return {
            "events": events,
            "packets": taken[0].packets,
            "passed": taken[0].passed,
            "lost_records": taken[0].lost,
            "form": self.dataplane.form(switch)["form"],
        }

    def end(self, name: str) -> None:
        """Trace a switch no longer; do nothing if it is not traced."""
        number = self._control(name).switch
        if self._traces.pop(name, None) is not None:
            self.at_once(lambda: self.dataplane.end_trace(number))
