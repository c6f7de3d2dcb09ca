"""The progress engine: the receive path of one host as W threads with nothing shared.

SC24 multicast Allgather, sections "Subgroups" and "SmartNIC offload": each datapath thread owns
one completion queue and one queue pair. Here each thread owns a receive worker and a source of
packets, and runs compiled code without Python's lock; it comes back to Python when a sink is whole.
"""

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.agents.datagrams import UDP_PORT, Datagrams, ipv4_text
from weft.agents.drivers.compiled_udp import (
    CONTROL_BYTES,
    NAME_BYTES,
    STACK_BYTES,
    STACK_ROOM,
    carry_ring,
    carry_sockets,
)
from weft.agents.transport import ChunkSink, ReceiveWorker
from weft.base.errors import MachineError
from weft.base.jit import Words
from weft.base.system_calls import MessageHeader

STRIDE = 4096 + 128
"""Room for the largest RoCEv2 packet there is."""
BATCH = 64
"""Datagrams a system call, at most."""

_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
IP_RECVTOS = 13
_IP_MULTICAST_ALL = 49
SHARED_PORT = (
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1), (socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0),
)  # fmt: skip
"""Options of sockets on one port of a host, each of which receives the groups that it has joined
and no others'."""


class Messages:
    """mmsghdr structures for up to `BATCH` datagrams, each with a name, one iovec and room for
    control. With `raw` the IPv4 and UDP headers of the datagrams are written here, so each has two
    iovecs: headers and datagram. `headers` holds addresses of the other arrays: keep the object for
    as long as it is used.

    Args:
        batch: where datagrams that arrive go; None for those that are sent.
    """

    def __init__(self, batch: Datagrams | None, *, raw: bool = False) -> None:
        self.raw = raw
        self.headers: Words = np.zeros((BATCH, 8), np.int64)
        self._vectors: Words = np.zeros((BATCH, 4), np.int64)
        self._names = np.zeros((BATCH, NAME_BYTES), np.uint8)
        self._controls = np.zeros((BATCH, CONTROL_BYTES), np.uint8)
        self._stacks = np.zeros((BATCH, STACK_ROOM), np.uint8)
        for index in range(BATCH):
            header = MessageHeader(self.headers.ctypes.data, index)
            header.name = self._names[index].ctypes.data
            header.vectors = self._vectors[index].ctypes.data
            header.vector_count = 2 if raw else 1
            if raw:
                self._vectors[index, :2] = (self._stacks[index].ctypes.data, STACK_BYTES)
            if batch is not None:
                header.control = self._controls[index].ctypes.data
                self._vectors[index, :2] = (batch.data[index].ctypes.data, batch.stride)


def force_buffer(opened: socket.socket, option: int, size_bytes: int) -> None:
    """Set a socket's SO_RCVBUF or SO_SNDBUF, beyond the machine's limit if the process may."""
    forced = _SO_RCVBUFFORCE if option == socket.SO_RCVBUF else _SO_SNDBUFFORCE
    try:
        opened.setsockopt(socket.SOL_SOCKET, forced, size_bytes)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, option, size_bytes)


class Source(Protocol):
    """A source hands packets to a receive worker."""

    def carry(self, worker: ReceiveWorker, stop: Words) -> bool:
        """Hand packets to the worker until a sink is whole or `stop[0]` is set; False if there
        will be no more."""

    def wake_with(self, descriptor: int) -> None:
        """Look at `stop` at once when this descriptor can be read."""

    def close(self) -> None:
        """Give back what the source holds."""


class RingSource:
    """A ring of prepared packets in memory is handed over `rounds` times (None means for ever),
    `batch` packets at a time."""

    def __init__(self, packets: Datagrams, rounds: int | None = 1, batch: int = BATCH) -> None:
        self._packets = packets
        self._at_hand = packets.addresses.copy()
        self._left = rounds
        self._batch = batch
        self._next = 0

    def carry(self, worker: ReceiveWorker, stop: Words) -> bool:
        """Hand over packets of the ring, as `Source.carry` describes."""
        if self._left == 0:
            return False
        packets = self._packets
        self._next = carry_ring(
            worker.state_address,
            packets.address,
            self._at_hand.ctypes.data,
            self._next,
            packets.count,
            self._batch,
            stop,
        )
        if self._next == packets.count:
            self._next = 0
            if self._left is not None:
                self._left -= 1
        return self._left != 0

    def wake_with(self, descriptor: int) -> None:
        """Do nothing: a ring never waits."""

    def close(self) -> None:
        """Do nothing: a ring holds nothing to give back."""


class SocketSource:
    """A socket source has a UDP socket for each of a worker's groups, in the network namespace of
    the process, which brings that group's packets and no others.

    `address` is the host's, and names the interface on which the groups are joined. MachineError
    if a socket cannot be made.
    """

    def __init__(
        self, address: int, groups: Sequence[int], *, receive_buffer_bytes: int = 32 << 20
    ) -> None:
        self._sockets: list[socket.socket] = []
        self._incoming = Datagrams.allocate(BATCH, STRIDE)
        self._messages = Messages(self._incoming)
        self._watched: Words = np.zeros(len(groups) + 1, np.int64)
        self._watched[-1] = 0xFFFFFFFF  # no descriptor: ppoll passes it over
        self._forever: Words = np.array([-1, 0], np.int64)
        self._groups: Words = np.array(groups, np.int64)
        try:
            for group in groups:
                self._sockets.append(_group_socket(address, group, receive_buffer_bytes))
        except MachineError:
            self.close()
            raise
        self._descriptors: Words = np.array([one.fileno() for one in self._sockets], np.int64)

    def carry(self, worker: ReceiveWorker, stop: Words) -> bool:
        """Receive from the sockets until a sink is whole or `stop[0]` is set, as `Source.carry`
        describes."""
        failed = carry_sockets(
            worker.state_address, self._descriptors, self._groups, self._incoming.address,
            self._messages.headers, self._watched, self._forever, stop,
        )  # fmt: skip
        if failed:
            raise MachineError(
                f"receiving multicast on UDP port {UDP_PORT}: {os.strerror(-failed)}"
            )
        return True

    def wake_with(self, descriptor: int) -> None:
        """Look at `stop` when this descriptor can be read, as `Source.wake_with` describes."""
        self._watched[-1] = descriptor

    def close(self) -> None:
        """Close the sockets."""
        for one in self._sockets:
            one.close()


def _group_socket(address: int, group: int, receive_buffer_bytes: int) -> socket.socket:
    """Make a socket that receives what is sent to one group, on the interface with an address."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        for option in (*SHARED_PORT, (socket.IPPROTO_IP, IP_RECVTOS, 1)):
            opened.setsockopt(*option)
        force_buffer(opened, socket.SO_RCVBUF, receive_buffer_bytes)
        opened.bind((ipv4_text(group), UDP_PORT))
        membership = struct.pack("!II", group, address)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError as error:
        opened.close()
        raise MachineError(
            f"joining {ipv4_text(group)} at {ipv4_text(address)}: {error.strerror}; the address"
            " must be configured, and net.ipv4.igmp_max_memberships limits the groups of a socket"
        ) from error
    return opened


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """When a worker's thread began and ended (ns of CLOCK_MONOTONIC), and the processor time that
    it took (ns)."""

    started_ns: int
    ended_ns: int
    cpu_ns: int


class ProgressEngine:
    """A progress engine runs workers, each with its source, in a thread of its own; all begin
    together.

    `on_whole(index, sink)` is called in worker `index`'s thread when a packet has brought a sink's
    last chunk. `cores` pins thread i to cores[i]. Used as a context: leaving it, by an exception
    or by Ctrl-C, too, stops the threads and closes the sources.
    """

    def __init__(
        self,
        parts: Sequence[tuple[ReceiveWorker, Source]],
        on_whole: Callable[[int, ChunkSink], None] | None = None,
        cores: Sequence[int] | None = None,
    ) -> None:
        self._parts = list(parts)
        self._on_whole = on_whole
        self._cores = cores
        self._stop: Words = np.zeros(1, np.int64)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._failures: list[BaseException] = []
        self._times: list[WorkerTime | None] = [None] * len(self._parts)
        self._begin = threading.Barrier(len(self._parts))
        self._ended = [threading.Event() for _ in self._parts]
        """An event for the end of each thread. `Thread.join` does not serve: where Ctrl-C
        interrupts it, Python 3.10 and 3.11 take the thread for one that has ended."""
        for _, source in self._parts:
            source.wake_with(self._wake)
        self._threads = [
            threading.Thread(target=self._run, args=(index,), name=f"worker {index}", daemon=True)
            for index in range(len(self._parts))
        ]

    @staticmethod
    def warm_up() -> None:
        """Compile or load the code that the threads run; receive nothing."""
        worker = ReceiveWorker(0, [(0xE0000001, 0)])
        worker.receive(Datagrams.allocate(1, 1), 0)
        sink = ChunkSink(np.zeros(1, np.uint8), 0, 1, [1])
        worker.attach(sink)
        worker.detach(sink)
        words: Words = np.zeros(8, np.int64)
        stop: Words = np.ones(1, np.int64)
        state, address = worker.state_address, words.ctypes.data
        carry_ring(state, address, address, 0, 0, 1, words)
        carry_sockets(state, words, words, address, Messages(None).headers, words, words, stop)

    def __enter__(self) -> "ProgressEngine":
        # Threads inherit what is blocked here: a signal that one of them got would not wake the
        # main thread, which Python leaves the handling to.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for thread in self._threads:
                thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()
        for thread, ended in zip(self._threads, self._ended, strict=True):
            if thread.ident is not None:
                _wait_for(ended)
        for _, source in self._parts:
            source.close()
        os.close(self._wake)

    def stop(self) -> None:
        """Tell the threads to end; they do after the batch at hand."""
        self._stop[0] = 1
        os.eventfd_write(self._wake, 1)
        self._begin.abort()

    def check(self) -> None:
        """Raise what went wrong in a thread, if anything has."""
        if self._failures:
            raise self._failures[0]

    def wait(self) -> list[WorkerTime]:
        """Wait until every thread has ended, because its source has no more or `stop` was called;
        what went wrong in one is raised here."""
        for ended in self._ended:
            _wait_for(ended)
        self.check()
        return [one for one in self._times if one is not None]

    def _run(self, index: int) -> None:
        try:
            if self._cores is not None:
                os.sched_setaffinity(0, {self._cores[index]})
            self._begin.wait()
            self._work(index)
        except threading.BrokenBarrierError:
            pass  # stopped before it began
        except BaseException as error:
            self._failures.append(error)
            self.stop()
        finally:
            self._ended[index].set()

    def _work(self, index: int) -> None:
        worker, source = self._parts[index]
        cpu_ns, started_ns = time.thread_time_ns(), time.monotonic_ns()
        more = True
        while more and not self._stop[0]:
            more = source.carry(worker, self._stop)
            for sink in worker.poll():
                if self._on_whole is not None:
                    self._on_whole(index, sink)
        ended_ns = time.monotonic_ns()
        self._times[index] = WorkerTime(started_ns, ended_ns, time.thread_time_ns() - cpu_ns)


def _wait_for(ended: threading.Event) -> None:
    """Wait for an event. A signal that comes just before the wait begins does not interrupt it, so
    Python gets to its handler by waiting a second at a time."""
    while not ended.wait(1.0):
        pass
