"""``weft bench progress-engine``: the receive path of one host as worker threads.

It measures the receive path of the SC24 multicast Allgather (SmartNIC offload): chunks a second by
number of workers, chunk size and mode. In mode direct, each payload is copied once; in mode staged,
it goes through a staging ring and is copied twice. In memory every worker goes again and again
through a ring of prepared RoCEv2 packets, ICRC included. Over sockets it empties the full receive
buffer of a UDP socket of its own, in a network namespace that belongs to the benchmark. If anything
did not arrive whole, byte for byte, the benchmark fails.

What workers cost is measured on this host, on the cores that there are. How many workers a rate
takes is an interval (`progress_scaling`), and what a SmartNIC's threads do is a model of published
figures: it is called modelled wherever it stands, and is never drawn as if it was measured.
"""

import json
import os
import shutil
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import UDP_PORT, Datagrams, ipv4, ipv4_text
from weft.agents.drivers.compiled_udp import send_many
from weft.agents.drivers.progress_engine import (
    Messages,
    ProgressEngine,
    RingSource,
    SocketSource,
    Source,
)
from weft.agents.transport import ChunkSink, Endpoint, ReceiveWorker, TransportOptions
from weft.agents.transport.settings import PATH_MTUS
from weft.base.children import DIE_WITH_PARENT, last_words, python_command, python_path, run_tool
from weft.base.errors import MachineError, RunError, refuse
from weft.base.libc import CLONE_NEWNET, check_call, libc
from weft.tools.bench.progress_needs import MODES, OWN, PAPER, needs_of
from weft.tools.bench.timing import BENCHMARK_LIMIT_S, quickest_ns
from weft.topo.worlds.emulated.namespaces import run_batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (64, 256, 1024, 4096, 16_384, 65_536)
"""Bytes a chunk; a chunk above the path MTU is several packets, and counts when all are there."""
WORKERS = (1, 2, 4)
PATH_MTU = 4096
MESSAGE_BYTES = 8 << 20
MESSAGE_PACKETS = 8192
"""The most packets that a worker receives before it starts anew: the paper's message and queue
depth."""
ATTEMPTS = 40
SOCKET_ATTEMPTS = 5
"""How many attempts are made; the quickest counts, since other processes can only add time."""
ATTEMPT_NS = 6_000_000
"""How long an attempt in memory takes. There are many short ones, so that other processes leave
some undisturbed on a machine that is not idle; there are up to five times as many if the quickest
had no cores of its own (`OWN`)."""
DEADLINE_S = 60.0
"""How long an attempt over sockets may take, since a lost packet would be waited for."""
_ADDRESS, _SENDER = ipv4("10.9.0.2"), ipv4("10.9.0.1")
_FIRST_GROUP = ipv4("239.9.0.1")
_QKEY = 9


@dataclass(frozen=True)
class WorkerShare:
    """One worker's share: its bytes, and the ring of packets that carries them."""

    group: int
    data: npt.NDArray[np.uint8]
    ring: Datagrams


def measure(
    sizes: Collection[int] = SIZES, workers: Collection[int] = WORKERS, sockets: bool = True
) -> dict[str, Any]:
    """Return figures by source, mode, chunk size and number of workers, each of the quickest
    attempt; and the processor time of a worker for each chunk.

    Beside them, memcpy and zlib's CRC-32 are measured on the same bytes.
    """
    figures: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "path_mtu": PATH_MTU,
        "memory": _rows(sizes, workers, _from_memory),
        "sockets": [],
        "sockets_skipped": "not asked for",
        "references": [_reference(size) for size in sizes],
        "memcpy": _memcpy_rows(workers),
        "paper": PAPER,
    }
    if sockets:
        figures["sockets"], figures["sockets_skipped"] = _in_namespace(sizes, workers)
    return {**figures, **needs_of(figures)}


def _rows(
    sizes: Collection[int],
    workers: Collection[int],
    run: Callable[[list[WorkerShare], int, str], tuple[float, float]],
) -> list[dict[str, Any]]:
    rows = []
    cores = len(os.sched_getaffinity(0))
    run(_parts(4096, 1), 4096, "direct")  # what has to be compiled is
    for size in sizes:
        parts = _parts(size, max(workers))
        for mode in MODES:
            for count in workers:
                wall_ns, cpu_ns = run(parts[:count], size, mode)
                rows.append(
                    {
                        "workers": count,
                        "more_workers_than_cores": count > cores,
                        "mode": mode,
                        "chunk_bytes": size,
                        "chunks_per_s": count / wall_ns * 1e9,
                        "gbytes_per_s_per_worker": size / wall_ns,
                        "cpu_ns_per_chunk": cpu_ns,
                    }
                )
    return rows


def _parts(chunk_bytes: int, workers: int) -> list[WorkerShare]:
    """Return what each of so many workers receives."""
    packet_bytes = min(chunk_bytes, PATH_MTU)
    packets = min(MESSAGE_PACKETS, MESSAGE_BYTES // packet_bytes)
    path_mtu = next(mtu for mtu in PATH_MTUS if mtu >= packet_bytes)
    parts = []
    for worker in range(workers):
        data = np.frombuffer(
            np.random.default_rng(worker).bytes(packets * packet_bytes), np.uint8
        ).copy()
        sender = Endpoint(
            _SENDER, path_mtu, seed=worker, options=TransportOptions(batch_packets=packets)
        )
        pair = sender.create_ud(_FIRST_GROUP + worker, _QKEY)
        pair.post_chunks(sender.register(data), 0, packets, packet_bytes, 1 << 24, 0)
        parts.append(WorkerShare(pair.group_address, data, sender.transmit(0)))
    return parts


class _Gathering:
    """Workers that receive their parts of one buffer; what they gathered is checked each time."""

    def __init__(self, parts: list[WorkerShare], chunk_bytes: int, mode: str) -> None:
        packet_bytes = min(chunk_bytes, PATH_MTU)
        sizes = [len(part.data) for part in parts]
        self.chunks = sum(sizes) // chunk_bytes
        self._data = [part.data for part in parts]
        self._rounds = 0
        self._whole = [0] * len(parts)
        self._buffer = np.empty(sum(sizes), np.uint8)
        self.workers, self.sinks = [], []
        offset = 0
        for part, size in zip(parts, sizes, strict=True):
            worker = ReceiveWorker(
                _ADDRESS, [(part.group, _QKEY)], staged=mode == "staged", slot_bytes=packet_bytes
            )
            sink = ChunkSink(
                self._buffer, 1, packet_bytes, [size], [offset],
                packets_per_chunk=chunk_bytes // packet_bytes,
            )  # fmt: skip
            worker.attach(sink)
            self.workers.append(worker)
            self.sinks.append(sink)
            offset += size

    def on_whole(self, index: int, sink: ChunkSink) -> None:
        self._whole[index] += 1
        if self._whole[index] < self._rounds:
            sink.rearm()

    def run(self, sources: list[Source], rounds: int = 1) -> tuple[float, float]:
        """Let the workers gather for some rounds; return the wall time and the processor time (ns)
        that a chunk takes one worker.

        Raises RunError if anything is missing or wrong.
        """
        self._rounds, self._whole = rounds, [0] * len(sources)
        self._buffer.fill(0xA5)  # and so its pages are there
        for sink in self.sinks:
            sink.rearm()
        cores = sorted(os.sched_getaffinity(0))
        pinned = cores[: len(sources)] if len(sources) <= len(cores) else None
        parts = list(zip(self.workers, sources, strict=True))
        with ProgressEngine(parts, self.on_whole, pinned) as engine:
            watchdog = threading.Timer(DEADLINE_S, engine.stop)
            watchdog.start()
            try:
                times = engine.wait()
            finally:
                watchdog.cancel()
        missing = sum(sink.missing for sink in self.sinks)
        refuse(
            any(count != self._rounds for count in self._whole)
            or not np.array_equal(self._buffer, np.concatenate(self._data)),
            f"the benchmark's data did not arrive whole: {len(self.workers)} workers completed"
            f" {self._whole} of {self._rounds} rounds, {missing} packets are missing",
            RunError,
        )
        wall_ns = max(one.ended_ns for one in times) - min(one.started_ns for one in times)
        chunks = self.chunks * self._rounds
        return wall_ns * len(parts) / chunks, sum(one.cpu_ns for one in times) / chunks


def _from_memory(parts: list[WorkerShare], chunk_bytes: int, mode: str) -> tuple[float, float]:
    gathering = _Gathering(parts, chunk_bytes, mode)

    def attempt(rounds: int) -> tuple[float, float]:
        return gathering.run([RingSource(part.ring, rounds) for part in parts], rounds)

    first, _ = attempt(1)
    message_ns = first * len(parts[0].data) / chunk_bytes
    rounds = max(2, round(ATTEMPT_NS / message_ns))
    best = min(attempt(rounds) for _ in range(ATTEMPTS))
    more = 4 * ATTEMPTS if len(parts) <= len(os.sched_getaffinity(0)) else 0
    while more and best[1] < OWN * best[0]:  # others were on these cores
        best, more = min(best, attempt(rounds)), more - 1
    return best


class _UntilWhole(SocketSource):
    """A socket source that ends as soon as one sink is whole."""

    def carry(self, worker: ReceiveWorker, stop: npt.NDArray[np.int64]) -> bool:
        super().carry(worker, stop)
        return False


def _from_sockets(parts: list[WorkerShare], chunk_bytes: int, mode: str) -> tuple[float, float]:
    gathering = _Gathering(parts, chunk_bytes, mode)

    def attempt() -> tuple[float, float]:
        sources: list[Source] = [
            _UntilWhole(_ADDRESS, [part.group], receive_buffer_bytes=64 << 20) for part in parts
        ]
        for part in parts:
            _send(part.ring)
        return gathering.run(sources)

    return min(attempt() for _ in range(SOCKET_ATTEMPTS))


def _send(ring: Datagrams) -> None:
    """Multicast a ring's packets over the loopback interface."""
    messages = Messages(None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((ipv4_text(_SENDER), int(ring.source_port[0])))
        own = socket.inet_aton(ipv4_text(_SENDER))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        first = 0
        while first < ring.count:
            count = ring.count - first
            sent = send_many(
                sender.fileno(), ring.address, first, count, messages.headers, UDP_PORT, False
            )
            if sent < 0:
                raise MachineError(f"multicast on the loopback interface: {os.strerror(-sent)}")
            first += sent


def _in_namespace(
    sizes: Collection[int], workers: Collection[int]
) -> tuple[list[dict[str, Any]], str]:
    """Return the rows over sockets, from a process in a network namespace of its own; or why there
    are none."""
    if os.geteuid() != 0:
        return [], "a network namespace needs root"
    for tool in ("ip", "setpriv"):
        if shutil.which(tool) is None:
            return [], f"not installed: {tool}"
    wanted = json.dumps({"sizes": list(sizes), "workers": list(workers)})
    done = run_tool(
        [*DIE_WITH_PARENT, *python_command(__name__, wanted)],
        timeout_s=BENCHMARK_LIMIT_S,
        environment={**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))},
        what="the benchmark over sockets",
    )
    if done.returncode == 3:
        return [], done.stderr.strip()
    if done.returncode:
        raise RunError(f"the benchmark over sockets failed: {last_words(done)}")
    return msgspec.json.decode(done.stdout, type=list[dict[str, Any]]), ""


def _measure_sockets(sizes: Collection[int], workers: Collection[int]) -> None:
    """Leave the machine's network, measure, and print the rows; this runs in a process of
    its own."""
    try:
        check_call(libc.unshare(CLONE_NEWNET))
    except OSError as error:
        print(f"the kernel makes no network namespace here: {error.strerror}", file=sys.stderr)
        sys.exit(3)
    addresses = (f"addr add {ipv4_text(address)}/32 dev lo" for address in (_ADDRESS, _SENDER))
    run_batch("ip", ["link set lo up", *addresses])
    print(json.dumps(_rows(sizes, workers, _from_sockets)))


def _reference(chunk_bytes: int) -> dict[str, Any]:
    """Return the GB/s of memcpy and of zlib's CRC-32 over what one worker receives."""
    packet_bytes = min(chunk_bytes, PATH_MTU)
    size = min(MESSAGE_PACKETS, MESSAGE_BYTES // packet_bytes) * packet_bytes
    data = np.random.default_rng(0).bytes(size)
    source = np.frombuffer(data, np.uint8)
    target = np.full(size, 0xA5, np.uint8)

    return {
        "chunk_bytes": chunk_bytes,
        "memcpy_gbytes_per_s": size / quickest_ns(lambda: np.copyto(target, source), 10),
        "zlib_crc_gbytes_per_s": size / quickest_ns(lambda: zlib.crc32(data), 5),
    }


def _memcpy_rows(workers: Collection[int]) -> list[dict[str, Any]]:
    """Return the GB/s that threads on cores of their own copy, each in memory of its own as large
    as a worker's message: what workers share, without the workers."""
    cores = sorted(os.sched_getaffinity(0))
    return [
        {
            "threads": count,
            "gbytes_per_s": max(_memcpy(cores[:count]) for _ in range(ATTEMPTS)),
        }
        for count in workers
        if count <= len(cores)
    ]


def _memcpy(cores: Sequence[int]) -> float:
    together = threading.Barrier(len(cores))

    def copy(core: int) -> float:
        os.sched_setaffinity(0, {core})  # of this thread
        source, target = (np.full(MESSAGE_BYTES, value, np.uint8) for value in (1, 0))
        np.copyto(target, source)
        together.wait()
        ends = time.monotonic_ns() + ATTEMPT_NS
        started, count = time.monotonic_ns(), 0
        while time.monotonic_ns() < ends or not count:
            np.copyto(target, source)  # without Python's lock
            count += 1
        return count * MESSAGE_BYTES / (time.monotonic_ns() - started)

    with ThreadPoolExecutor(len(cores)) as threads:
        return sum(threads.map(copy, cores))


def plot(figures: dict[str, Any]) -> "Figure":
    """Draw the GB/s of all workers over the chunk size and over their number."""
    from weft.tools.bench.progress_plot import draw

    return draw(figures)


if __name__ == "__main__":
    _measure_sockets(**msgspec.json.decode(sys.argv[1], type=dict[str, list[int]]))
