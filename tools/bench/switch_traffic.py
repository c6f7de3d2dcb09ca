"""Frames that go through switches under test, and what comes out behind them."""

import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.base.children import (
    DIE_WITH_PARENT,
    how_it_ended,
)
from weft.base.errors import RunError
from weft.base.system_calls import Timespec
from weft.switch.engine.control.memory import rows
from weft.switch.realtime import bare

WINDOWS = (16, 64, 512)
"""How many frames may be under way: the most, or fewer if that is better by `CLEARLY`, as on a
switch whose own queues overflow."""
CLEARLY = 1.25
ATTEMPTS = 5
"""How often a turn is tried in which nothing came through."""
WARM_UP_S = 0.08
START_DEADLINE_S = 300.0
FLOWS = 64

HOST = (10 << 24) + 2


@dataclass
class ForwardingDevice:
    """A switch under test: a process."""

    name: str
    command: list[str]
    ready: Callable[[subprocess.Popen[str]], bool]
    """Tells of the process whether the switch takes connections, or is ready otherwise."""
    start_s: float = 0.0
    start_bytes: int = 0
    process: subprocess.Popen[str] = field(init=False)

    def start(self, log: Path) -> None:
        """Start it and wait until it takes P4Runtime connections, or is ready otherwise."""
        started = time.monotonic()
        with open(log, "w") as errors:
            self.process = subprocess.Popen(
                [*DIE_WITH_PARENT, *self.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        while not self.ready(self.process):
            status = self.process.poll()
            if status is not None or time.monotonic() - started > START_DEADLINE_S:
                how = "takes too long" if status is None else how_it_ended(status)
                raise RunError(
                    f"{self.name} (pid {self.process.pid}) {how} at its start: "
                    f"{log.read_text().strip()[-300:] or 'it said nothing'}"
                )
        self.start_s = time.monotonic() - started
        self.start_bytes = self.memory_bytes()

    def memory_bytes(self) -> int:
        """Return what it has in memory now."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)

    def cpu_ns(self) -> int:
        """Return the processor time of all its threads; clock ids as in clock_getcpuclockid(3)."""
        return time.clock_gettime_ns((~self.process.pid << 3) | 2)


@dataclass
class BenchmarkRow:
    """What a row measures: frames of one kind that go through devices, and what comes
    of them."""

    what: str
    traffic: str
    frame_bytes: int
    letter: str
    devices: Sequence[ForwardingDevice]
    hops: int = 1
    copies: int = 1
    destination: int = HOST
    window: int = WINDOWS[0]
    turns: list[dict[str, float]] = field(default_factory=list)

    def counters(self) -> list[str]:
        """Return the files in which the kernel counts what comes to the sinks."""
        names = (f"{self.letter}{2 + i}" for i in range(self.copies))
        return [f"/sys/class/net/{name}/statistics/rx_packets" for name in names]


def frames(size: int, destination: int) -> list[bytes]:
    """Return RoCEv2 data packets (RC SEND ONLY) of some flows to an IPv4 address; their ICRC is not
    valid."""
    found = []
    for flow in range(FLOWS):
        addresses = struct.pack(">II", (10 << 24) + 1, destination)
        head = struct.pack(">BBHHHBB", 0x45, 2, size - 14, 0, 0x4000, 64, 17)
        total = sum(struct.unpack(">9H", head[:10] + addresses))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        ip = head + struct.pack(">H", ~total & 0xFFFF) + addresses
        udp = struct.pack(">HHHH", 0xC000 + flow, 4791, size - 34, 0)
        bth = struct.pack(">BBHII", 4, 0x40, 0xFFFF, 7, flow)
        ethernet = bytes.fromhex("060000000001 020000000001 0800")
        found.append((ethernet + ip + udp + bth).ljust(size, b"\xa5"))
    return found


def chosen_window(rates: Mapping[int, float]) -> int:
    """Return the window to measure with, chosen by the rates that trials had."""
    best = max(rates, key=lambda window: rates[window])
    largest = max(rates)
    return best if rates[best] > CLEARLY * rates[largest] else largest


class TrafficGenerator:
    """A generator that sends to a device and counts what comes out behind it."""

    def __init__(self) -> None:
        self._messages = bare.FrameMessages()
        self._text = np.zeros(bare.COUNTER_BYTES, np.uint8)
        self._times = rows(Timespec, 2)
        self._generate(bare.generator_state(2, 1, stop=1), -1, np.zeros(0, np.int64))

    def _generate(self, state: bare.GeneratorRecord, port: int, sinks: NDArray[np.int64]) -> None:
        times = self._times.ctypes.data
        bare.generate(state, port, self._messages.headers, sinks, self._text, times)

    def run(
        self, row: BenchmarkRow, port: socket.socket, window: int, turn_s: float
    ) -> dict[str, float]:
        """Run one turn. RunError if nothing comes through."""
        for _ in range(ATTEMPTS):
            turn = self._run(row, port, window, turn_s)
            if turn is not None:
                return turn
        raise RunError(f"{row.what}, {row.traffic}, {row.frame_bytes} bytes: nothing comes through")

    def _run(
        self, row: BenchmarkRow, port: socket.socket, window: int, turn_s: float
    ) -> dict[str, float] | None:
        self._messages.fill(frames(row.frame_bytes, row.destination))
        state = bare.generator_state(window, row.copies)
        sinks = np.array([os.open(path, os.O_RDONLY) for path in row.counters()], np.int64)
        thread = threading.Thread(target=self._generate, args=(state, port.fileno(), sinks))
        thread.start()

        def counted() -> NDArray[np.int64]:
            cpu_ns = sum(device.cpu_ns() for device in row.devices)
            return np.array([time.monotonic_ns(), state.through, state.lost, cpu_ns], np.int64)

        try:
            time.sleep(WARM_UP_S)
            start = counted()
            time.sleep(turn_s)
            spent_ns, through, lost, cpu_ns = (counted() - start).tolist()
        finally:
            state.stop = 1
            thread.join()
            for file in sinks:
                os.close(file)
        time.sleep(0.01)  # what is under way is not the next turn's
        if through <= 0:
            return None
        return {
            "packets_per_s": through * 1e9 / spent_ns,
            "cpu_ns_per_packet": cpu_ns / through,
            "lost": lost,
        }
