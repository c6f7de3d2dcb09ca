"""The reader's side of a trace: the array that a switch fills, and what its numbers referred to.

A record says which version of program and tables it is of, so that an entry is told as it was when
the packet hit it, whatever has become of it since.
"""

import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.base.errors import InputError, refuse
from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.engine.codegen.traced import Legend
from weft.switch.engine.control.contents import Version
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.dataplane import trace_layout as at
from weft.switch.engine.dataplane.layout import SwitchRecord

MOST_VERSIONS = 1024
"""How many versions of tables are kept at most until their records are taken."""

TRACE_WORDS = 1 << 20
"""The words of a trace's array: 8 MiB, some 1,500 packets of 80 records."""

MOST_PACKETS = 1 << 40


@dataclass
class Taken:
    """What was taken from a trace: records of ``RECORD`` words, and their versions."""

    records: NDArray[np.int64]
    versions: dict[int, tuple[Version, Legend]]
    packets: int
    """How many packets were traced since the trace began."""
    passed: int
    """How many packets came when as many as were wanted had been traced, or there was no room."""
    lost: int
    """How many records found no room."""


class Tracer:
    """A running trace of one switch: its array, and the versions that its records are of.

    ``packets``: the most that are traced. Raises ``InputError`` for fewer than one. It does not
    keep the control alive: what is traced holds its tracer, and would never go else.
    """

    def __init__(
        self, control: SwitchControl, packets: int = MOST_PACKETS, words: int = TRACE_WORDS
    ) -> None:
        refuse(packets < 1, f"a trace of {packets} packets: it is of one or more")
        self.switch = control.switch
        self._control = weakref.ref(control)
        self._images: dict[int, Version] = {}
        self._versions: dict[int, tuple[Version, Legend]] = {}
        self.array = np.zeros(words, np.int64)
        self.head = at.TraceHead.within(self.array)
        self.head.capacity = words
        self.head.end = at.TRACE_HEAD
        self.head.limit = packets
        self.pipeline: Pipeline | None = None

    @property
    def control(self) -> SwitchControl:
        """Return the control side of the switch, which must be there still."""
        control = self._control()
        if control is None:
            raise InputError(
                f"switch {self.switch}: its control is gone; keep it while it is traced"
            )
        return control

    def remember(self, image: NDArray[np.int64]) -> None:
        """Keep what an image was made of, before packets see it."""
        self._images[image.ctypes.data] = self.control.version()

    def installed(
        self, state: SwitchRecord, image: NDArray[np.int64], traced: Pipeline, legend: Legend
    ) -> None:
        """Know that packets see an image from now on, in a switch with this ``state``."""
        version = self._images.pop(image.ctypes.data, None) or self.control.version()
        number = self.head.version + 1
        while len(self._versions) >= MOST_VERSIONS:
            del self._versions[next(iter(self._versions))]
        self._versions[number] = version, legend
        self.head.version = number
        self.pipeline = traced
        state.trace_head = self.array.ctypes.data

    def take(self) -> Taken:
        """Return all records so far, and make room again. No packet may be under way meanwhile."""
        records = self.array[at.TRACE_HEAD : self.head.end].copy()
        self.head.end = at.TRACE_HEAD
        taken = Taken(
            records.reshape(-1, at.RECORD),
            dict(self._versions),
            self.head.begun,
            self.head.passed,
            self.head.lost,
        )
        for number in [number for number in self._versions if number < self.head.version]:
            del self._versions[number]
        return taken
