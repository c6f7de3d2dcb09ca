"""What drives the switches, as their control side sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine.build import Pipeline


class Host(Protocol):
    """What drives the switches: it builds programs and takes new versions over."""

    def build(self, bmv2_json: str) -> Pipeline:
        """Translate and compile; raises ProgramError."""

    def install(
        self, switch: int, pipeline: Pipeline, image: NDArray[np.int64], *, fresh: bool
    ) -> None:
        """Let packets see an image; ``fresh``: of another program, with counters at 0."""

    def at_once(self, action: Callable[[], None]) -> None:
        """Run an action, which may install an image, while no packet is under way."""

    def counters(self, switch: int) -> NDArray[np.int64]:
        """The switch's counter cells, live: int64[cells, 2] of packets, bytes."""

    def registers(self, switch: int) -> NDArray[np.int64]:
        """The switch's register cells, live."""

    def meters(self, switch: int) -> NDArray[np.int64]:
        """The switch's meters, live: ``METER_CELL`` words each."""

    def hits(self, switch: int) -> NDArray[np.int64]:
        """When entries of tables that support timeouts were last hit, live, in ns."""

    def set_timeout(self, switch: int, cell: int, timeout_ns: int) -> None:
        """An entry, by its place among ``hits``, counts as hit now; 0 = no timeout."""

    def idle_cells(self, switch: int, now_ns: int) -> list[int]:
        """Entries whose idle timeout has ended, by their place among ``hits``, each once a hit."""

    def timeouts(self, switch: int) -> NDArray[np.int64]:
        """Idle timeouts of the same entries in ns; 0 = none."""

    def clock_ns(self) -> int:
        """The present, on the clock of the packets."""

    def epoch_ns(self, switch: int) -> int:
        """Zero of the switch's timestamps."""

    def set_listener(self, switch: int, listener: Callable[[], None] | None) -> None:
        """Have a function called when a switch has events."""

    def take_records(self, switch: int) -> list[tuple[int, int, int, NDArray[np.int64]]]:
        """What is in the switch's outbox: kind, time in ns, subject, words."""

    def events_lost(self, switch: int) -> int:
        """Events that found no room."""

    def packet_out(self, switch: int, frame: bytes) -> None:
        """A packet from the controller arrives at the CPU port."""

    def cpu_port(self, switch: int) -> int | None:
        """The port that leads to the controller."""

    @property
    def drop_port(self) -> int:
        """The egress port that means drop."""

    @property
    def frame_bytes(self) -> int:
        """Of the longest frame."""
