"""What drives the switches, as their control side sees it."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.engine.dataplane.layout import PortRecord, QueueRecord


class Surroundings(Protocol):
    """What drives the switches: it builds programs, and takes new versions over."""

    def build(self, bmv2_json: str) -> Pipeline:
        """Translate and compile a program. Raises ProgramError."""

    def install(
        self, switch: int, pipeline: Pipeline, image: NDArray[np.int64], *, fresh: bool
    ) -> None:
        """Let packets see an image; a ``fresh`` one is of another program, with counters at 0."""

    def at_once(self, action: Callable[[], None]) -> None:
        """Run an action, which may install an image, while no packet is under way."""

    def clock_ns(self) -> int:
        """Return the present, on the clock of the packets."""

    def expect(self, time_ns: int) -> None:
        """Take note that an idle timeout ends at a time of that clock."""

    def set_listener(self, switch: int, listener: Callable[[], None] | None) -> None:
        """Have a function called when a switch has events."""

    def packet_out(self, switch: int, frame: bytes) -> None:
        """Let a packet from the controller arrive at the CPU port."""

    def port(self, switch: int, port: int) -> PortRecord:
        """Return the record of a port, its queues and its link."""

    def queues_of(self, switch: int, port: int) -> list[QueueRecord]:
        """Return the records of a port's queues, by priority."""

    def hold(self, switch: int, port: int, priority: int, until_ns: int) -> None:
        """Let a port's link take nothing from its queue of a priority until a time."""

    @property
    def frame_bytes(self) -> int:
        """Return the length of the longest frame, in bytes."""
