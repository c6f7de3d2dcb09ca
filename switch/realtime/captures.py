"""Captures inside the process: the packet loop fills a bounded ring, which goes to pcap files."""

import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from weft.base import files
from weft.switch.engine.dataplane import captures as ring
from weft.switch.engine.dataplane.layout import HEADROOM
from weft.switch.engine.switches import Dataplane

RING_BYTES = 16 << 20
DRAIN_INTERVAL_S = 0.01

PCAP_MAGIC = 0xA1B23C4D  # times in nanoseconds
LINKTYPE_ETHERNET = 1
FILE_HEADER = struct.pack("=IHHiIII", PCAP_MAGIC, 2, 4, 0, 0, 65535, LINKTYPE_ETHERNET)

Port = tuple[int, int]


class Captures:
    """The capture files of ports: what comes in and what goes out, each to a file or to none.

    Times are those of the loop's clock, CLOCK_MONOTONIC, told as the time of day. A frame on a
    patch link has the time at which it reaches the far end, at both ends, as on a pair of veths;
    one that arrives at an interface, when it was read. What found no room in the ring is counted
    as lost: packets never wait for a capture.
    """

    def __init__(
        self,
        dataplane: Dataplane,
        files: dict[Port, tuple[str | None, str | None]],
        ring_bytes: int = RING_BYTES,
    ) -> None:
        """Begin captures. No packet may be under way meanwhile.

        ``files`` names, for each (switch, port), the file for frames that come in and the file for
        those that go out, which may be the same. Raises InputError if a file cannot be written.
        """
        self._dataplane = dataplane
        paths = sorted({path for both in files.values() for path in both if path is not None})
        numbers = {path: number for number, path in enumerate(paths)}
        self._paths = paths
        self._files = [_created(path) for path in paths]
        words = 1 << max(ring_bytes // 8 - 1, 8 * HEADROOM).bit_length()
        self._records = np.zeros(words, np.int64)
        self._out = np.zeros(8 * words, np.uint8)
        self._counts = np.zeros((max(len(paths), 1), 2), np.int64)
        self._ring = ring.CaptureRing.zeroed()
        self._ring.words = words
        self._ring.records = self._records.ctypes.data
        self._ring.counts = self._counts.ctypes.data
        self._ring.files = len(self._counts)
        dataplane.context.capture = self._ring.location
        for (switch, port), both in files.items():
            row = dataplane.ports[switch * dataplane.port_count + port]
            for name, path in zip(("capture_in", "capture_out"), both, strict=True):
                setattr(row, name, 0 if path is None else numbers[path] + 1)
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        """One offset for all frames, as two readings of the clocks would differ."""
        self.failure = ""
        """Why a file misses packets that were captured; empty if no file does."""
        self._ended = threading.Event()
        self._draining = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="captures", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(DRAIN_INTERVAL_S):
            self.flush()

    def flush(self) -> None:
        """Write out what the ring holds."""
        with self._draining:
            until = int(self._ring.head)
            if until == self._ring.tail:
                return
            for number, file in enumerate(self._files):
                size = ring.drain(self._ring.location, number, until, self._offset_ns, self._out)
                try:
                    files.write_all(file, self._out[:size].tobytes())
                except OSError as error:
                    self.failure = f"{self._paths[number]}: {error.strerror}"
            self._ring.tail = until

    def counts(self) -> list[dict[str, Any]]:
        """Return, for each file, its path, the packets that it holds or will hold, and those it
        lost."""
        return [
            {"path": path, "packets": int(captured), "lost": int(lost)}
            for path, (captured, lost) in zip(self._paths, self._counts, strict=False)
        ]

    def silence(self) -> None:
        """Capture nothing more. No packet may be under way meanwhile."""
        self._dataplane.ports.capture_in = self._dataplane.ports.capture_out = 0

    def close(self) -> None:
        """Write the rest and close the files. To be called after `silence`."""
        self._ended.set()
        self._thread.join()
        self.flush()
        for file in self._files:
            os.close(file)
        self._files = []


def _created(path: str) -> int:
    with files.told_as_input(f"capture file {path} cannot be written"):
        files.make_folder(Path(path).parent)
        file = files.create(Path(path))
        os.write(file, FILE_HEADER)
        return file
