"""Puts a sans-I/O host on UDP sockets of the network namespace that the process is in.

One wildcard socket on port 4791 receives unicast and multicast; one socket per source port sends.
Where unicast leaves from more than `MOST_SENDERS` source ports (path entropy), one raw socket sends
it all, many ports in a system call; without the right to have one, it is a socket per port again.
Identification 0 with DF, no UDP checksum, TTL 64: what the ICRC expects and a receiver cannot see
(facts: rocev2). A full socket buffer is back-pressure: nothing more is asked of the host until
what it gave has left.

Groups that the host has handed over to receive workers come to sockets and threads of their own;
these wake the driver when a sink is whole.
"""

import contextlib
import ctypes
import errno
import os
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from weft.agents.datagrams import UDP_PORT, Datagrams, ipv4_text
from weft.agents.drivers.compiled_udp import (
    receive_many,
    run_length,
    send_many,
    unicast_run,
    wait_ready,
)
from weft.agents.drivers.progress_engine import (
    BATCH,
    IP_RECVTOS,
    SHARED_PORT,
    STRIDE,
    Messages,
    ProgressEngine,
    SocketSource,
    Source,
    force_buffer,
)
from weft.agents.transport import ChunkSink, ReceiveWorker
from weft.base.errors import MachineError
from weft.base.jit import Words

BATCHES_A_ROUND = 4
"""How much is sent before received packets are looked at again."""
MOST_SENDERS = 16
"""Sockets that send, of a source port each."""
ATTENTIVE_NS = 1_000_000
"""How long a host that must look at every arrival waits, where arrivals are other threads'."""
LOOK_AFTER_NS = 50_000_000
"""How long any other host waits there: a chunk may arrive at the moment when the last other one is
marked."""

_SO_NO_CHECK = 11
_IP_PKTINFO = 8
_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_DO = 2
_PR_SET_TIMERSLACK = 29

_OPTIONS = (
    (socket.SOL_SOCKET, _SO_NO_CHECK, 1),
    (socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO),
    (socket.IPPROTO_IP, socket.IP_TTL, 64),
    (socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 64),
    (socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0),
)
"""What all sockets have."""


class Driven(Protocol):
    """What is driven: an Endpoint, or an agent around one."""

    @property
    def address(self) -> int:
        """Return the IPv4 address of the host."""

    @property
    def groups(self) -> Collection[int]:
        """Return the multicast groups of which the host must be a member."""

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        """Take in datagrams that arrived."""

    def transmit(self, now_ns: int) -> Datagrams:
        """Return what to send now."""

    def deadline(self) -> int | None:
        """Return when to call `transmit` if nothing arrives."""


class UdpDriver:
    """Carries a host's datagrams; MachineError if the sockets cannot be made.

    Everything happens inside `run`, in the calling thread, but for what `workers` receive
    (`Endpoint.hand_over`), each in a thread of its own, from when the driver is made until `close`.
    The host's groups are joined when the driver is made and again at `join_groups`. Times are those
    of CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        host: Driven,
        *,
        receive_buffer_bytes: int = 32 << 20,
        send_buffer_bytes: int = 1 << 20,
        workers: Sequence[ReceiveWorker] = (),
    ) -> None:
        self._host = host
        self._workers = list(workers)
        self._engine: ProgressEngine | None = None
        self._nothing = Datagrams.allocate(1, 1)
        self._send_buffer_bytes = send_buffer_bytes
        self._joined: set[int] = set()
        self._senders: dict[int, socket.socket] = {}
        self._raw: socket.socket | None = None
        self._may_be_raw = True
        self._raw_sending: Messages | None = None
        self._services: dict[int, int] = {}
        self._incoming = Datagrams.allocate(BATCH, STRIDE)
        self._receiving = Messages(self._incoming)
        self._sending = Messages(None)
        self._watched: Words = np.zeros(4, np.int64)
        self._timeout: Words = np.zeros(2, np.int64)
        self._unsent: Datagrams | None = None
        self._unsent_from = 0
        self._blocked_on = -1
        self._readable = True
        self._due_ns: int | None = None
        self._lateness = Lateness()
        self._counters = dict.fromkeys(
            (
                "datagrams_received",
                "datagrams_sent",
                "send_errors",
                "send_blocked",
                "system_calls",
                "wakeups",
            ),
            0,
        )
        self._receiver = self._open(UDP_PORT, "0.0.0.0")
        force_buffer(self._receiver, socket.SO_RCVBUF, receive_buffer_bytes)
        self._receiver.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        self._receiver.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        self._descriptor = self._receiver.fileno()
        self.join_groups()
        self._whole = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if self._workers:
            self._start_workers(receive_buffer_bytes)
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self._errors_before = _udp_errors()

    @staticmethod
    def warm_up() -> None:
        """Compile, or load, what the driver is made of; sends nothing."""
        batch = Datagrams.allocate(BATCH, STRIDE)
        messages = Messages(batch)
        receive_many(-1, batch.address, messages.headers, 0)
        run_length(batch.address, 0, 1)
        send_many(-1, batch.address, 0, 0, messages.headers, UDP_PORT, False)
        unicast_run(batch.address, 0, 1)
        wait_ready(np.zeros(3, np.int64), 0, np.zeros(2, np.int64))
        ProgressEngine.warm_up()

    def _open(self, port: int, address: str) -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            # Workers' sockets are on the receiver's port, too.
            shared = SHARED_PORT if port == UDP_PORT and self._workers else ()
            for option in (*_OPTIONS, *shared):
                opened.setsockopt(*option)
            opened.bind((address, port))
        except OSError as error:
            opened.close()
            raise MachineError(
                f"UDP socket on {address} port {port}: {error.strerror}; each host needs a network"
                " namespace of its own, with its address configured"
            ) from error
        return opened

    def join_groups(self) -> None:
        """Become a member of the host's groups on the interface that has its address."""
        own = struct.pack("!I", self._host.address)
        for group in self._host.groups:
            if group in self._joined:
                continue
            try:
                self._receiver.setsockopt(
                    socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("!I", group) + own
                )
            except OSError as error:
                raise MachineError(
                    f"joining {ipv4_text(group)} at {ipv4_text(self._host.address)}:"
                    f" {error.strerror}; net.ipv4.igmp_max_memberships limits the groups of a host"
                ) from error
            self._joined.add(group)

    def _start_workers(self, receive_buffer_bytes: int) -> None:
        """Start a thread, and open sockets, for each worker."""
        own = self._host.address
        parts: list[tuple[ReceiveWorker, Source]] = []
        with contextlib.ExitStack() as made:
            made.callback(self.close)
            for worker in self._workers:
                source = SocketSource(own, worker.groups, receive_buffer_bytes=receive_buffer_bytes)
                made.callback(source.close)
                parts.append((worker, source))
            made.pop_all()
        self._engine = ProgressEngine(parts, self._note_whole)
        self._engine.__enter__()

    def _note_whole(self, index: int, sink: ChunkSink) -> None:
        """Take note, in a worker's thread, that a sink is whole."""
        self._workers[index].finished.append(sink)
        os.eventfd_write(self._whole, 1)

    def close(self) -> None:
        """End the workers' threads and close the sockets."""
        if self._engine is not None:
            self._engine.__exit__()
            self._engine = None
        if self._whole >= 0:
            os.close(self._whole)
            self._whole = -1
        self._receiver.close()
        for sender in self._senders.values():
            sender.close()
        self._senders.clear()
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def run(
        self,
        until_ns: int | None = None,
        wake: int | None = None,
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Carry packets until the time `until_ns`, or the descriptor `wake` can be read, or
        `until()` holds.

        At least one round is made: a time in the past means "what there is to do now". `until` is
        asked after each round, so after each batch received and whatever it led to.
        """
        self._readable = True
        while True:
            now_ns = time.monotonic_ns()
            received = self._receive(now_ns) if self._readable else 0
            busy = self._send(now_ns)
            if until is not None and until():
                return
            deadline = self._host.deadline() if self._unsent is None else None
            now_ns = time.monotonic_ns()
            if until_ns is not None and now_ns >= until_ns:
                return
            self._due_ns = deadline if deadline is not None and deadline > now_ns else None
            if received == BATCH or busy:
                self._readable = True
                continue
            if until_ns is not None and (deadline is None or deadline > until_ns):
                deadline = until_ns
            if self._engine is not None:
                self._engine.check()
                attentive = getattr(self._host, "attentive", False)
                look_ns = now_ns + (ATTENTIVE_NS if attentive else LOOK_AFTER_NS)
                deadline = look_ns if deadline is None else min(deadline, look_ns)
            ended = self._wait(now_ns, deadline, wake)
            if self._engine is not None:
                self._host.receive(self._nothing, time.monotonic_ns())
            if ended:
                return

    def _wait(self, now_ns: int, deadline: int | None, wake: int | None) -> bool:
        """Sleep until there is something to do; True if `wake` can be read."""
        waits = [self._descriptor | select.POLLIN << 32]
        if self._unsent is not None:
            waits.append(self._blocked_on | select.POLLOUT << 32)
        if self._engine is not None:
            waits.append(self._whole | select.POLLIN << 32)
        if wake is not None:
            waits.append(wake | select.POLLIN << 32)
        watched, count = self._watched, len(waits)
        watched[:count] = waits
        # Without a deadline -1 s, which is no end.
        left_ns = -1_000_000_000 if deadline is None else max(deadline - now_ns, 0)
        self._timeout[:] = divmod(left_ns, 1_000_000_000)
        ready = wait_ready(watched, count, self._timeout)
        self._counters["system_calls"] += 1
        self._counters["wakeups"] += 1
        self._readable = ready > 0 and int(watched[0]) >> 48 != 0
        if self._engine is not None:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._whole)
        return ready > 0 and wake is not None and int(watched[count - 1]) >> 48 != 0

    def _receive(self, now_ns: int) -> int:
        incoming = self._incoming
        count = receive_many(
            self._descriptor, incoming.address, self._receiving.headers, self._host.address
        )
        self._counters["system_calls"] += 1
        if count <= 0:
            if count not in (0, -errno.EAGAIN, -errno.EINTR, -errno.ECONNREFUSED):
                raise MachineError(f"receiving on UDP port {UDP_PORT}: {_text(-count)}")
            return 0
        incoming.count = count
        self._counters["datagrams_received"] += count
        self._host.receive(incoming, now_ns)
        return count

    def _send(self, now_ns: int) -> bool:
        """Send what the host has; True if it has more than a round takes."""
        if self._due_ns is not None and now_ns >= self._due_ns:
            self._lateness.add(now_ns - self._due_ns)
            self._due_ns = None
        for _ in range(BATCHES_A_ROUND):
            if self._unsent is None:
                batch = self._host.transmit(now_ns)
                if not batch.count:
                    return False
                self._unsent, self._unsent_from = batch, 0
            if not self._flush(self._unsent):
                return False
            self._unsent = None
        return True

    def _flush(self, batch: Datagrams) -> bool:
        """Hand the rest of a batch to the kernel; False if it takes no more now."""
        row = self._unsent_from
        while row < batch.count:
            descriptor, sent = self._send_rows(batch, row)
            self._counters["system_calls"] += 1
            if sent == -errno.EAGAIN:
                self._counters["send_blocked"] += 1
                self._unsent_from, self._blocked_on = row, descriptor
                return False
            if sent == -errno.EINTR:
                continue
            if sent == -errno.EMSGSIZE:
                size = int(batch.length[row]) + 28
                raise MachineError(
                    f"a packet of {size} bytes does not fit the link's MTU: raise it, or lower the"
                    " path MTU"
                )
            if sent < 0:
                self._counters["send_errors"] += 1
                row += 1
                continue
            self._counters["datagrams_sent"] += sent
            row += sent
        return True

    def _send_rows(self, batch: Datagrams, row: int) -> tuple[int, int]:
        """Send rows from `row` on that can leave together: by which descriptor, and how many, or
        minus the errno."""
        port = int(batch.source_port[row])
        unicast = unicast_run(batch.address, row, batch.count)
        if unicast and self._sends_raw(port):
            assert self._raw is not None and self._raw_sending is not None
            descriptor, count, messages = self._raw.fileno(), unicast, self._raw_sending
        else:
            descriptor = self._sender(port, int(batch.tos[row])).fileno()
            count, messages = run_length(batch.address, row, batch.count), self._sending
        return descriptor, send_many(
            descriptor, batch.address, row, count, messages.headers, UDP_PORT, messages.raw
        )

    def _sends_raw(self, port: int) -> bool:
        """Return whether unicast leaves by the raw socket, which is made when there are many
        ports."""
        if self._raw is None and self._may_be_raw:
            if port in self._senders or len(self._senders) < MOST_SENDERS:
                return False
            try:
                self._raw = socket.socket(
                    socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_RAW
                )
            except PermissionError:
                self._may_be_raw = False
            else:
                self._raw.bind((ipv4_text(self._host.address), 0))
                force_buffer(self._raw, socket.SO_SNDBUF, self._send_buffer_bytes)
                self._raw_sending = Messages(None, raw=True)
        return self._raw is not None

    def _sender(self, port: int, tos: int) -> socket.socket:
        sender = self._senders.get(port)
        if sender is None:
            own = ipv4_text(self._host.address)
            sender = self._open(port, own)
            force_buffer(sender, socket.SO_SNDBUF, self._send_buffer_bytes)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            self._senders[port] = sender
            self._services[port] = 0
        if self._services[port] != tos:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
            self._services[port] = tos
        return sender

    def lateness_ns(self) -> dict[str, int]:
        """Return how late the host was called for its deadlines, since the last reset: p50, p99 and
        max."""
        return self._lateness.summary()

    def reset_lateness(self) -> None:
        """Forget how late calls have been."""
        self._lateness = Lateness()

    def counters(self) -> dict[str, int]:
        """Return what has been counted since the driver was made, by name; all of it only grows.

        `socket_drops` are datagrams that a receive buffer of the namespace had no room for,
        `receive_errors` all that the namespace's UDP refused, `send_errors` datagrams that the
        kernel refused (no route, link down), `send_blocked` how often a send buffer was full,
        `driver_cpu_ns` processor time of the process.
        """
        errors = _udp_errors()
        by_workers = sum(worker.statistics.received_packets for worker in self._workers)
        return {
            **self._counters,
            "datagrams_received": self._counters["datagrams_received"] + by_workers,
            "socket_drops": errors["RcvbufErrors"] - self._errors_before["RcvbufErrors"],
            "receive_errors": errors["InErrors"] - self._errors_before["InErrors"],
            "driver_cpu_ns": time.process_time_ns(),
        }


def _udp_errors() -> dict[str, int]:
    """Return the UDP counters of the process's network namespace (/proc/net/snmp); zeros where
    there are none."""
    counters = {"RcvbufErrors": 0, "InErrors": 0}
    with contextlib.suppress(OSError):
        lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("Udp:"))
        found = dict(zip(names, map(int, values), strict=True))
        counters.update({name: found.get(name, 0) for name in counters})
    return counters


def _text(number: int) -> str:
    return errno.errorcode.get(number, str(number))


class Lateness:
    """A lateness is a distribution of times in ns; percentiles are right to an eighth."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.samples = 0
        self.maximum_ns = 0

    def add(self, late_ns: int) -> None:
        """Count one sample; what is negative counts as 0."""
        late_ns = max(late_ns, 0)
        shift = max(late_ns.bit_length() - 4, 0)
        self._counts[shift << 4 | late_ns >> shift] += 1
        self.samples += 1
        self.maximum_ns = max(self.maximum_ns, late_ns)

    def percentile(self, fraction: float) -> int:
        """Return the time (ns) that this fraction of the samples does not exceed, but for the width
        of a bucket."""
        left = fraction * self.samples
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                shift, leading = bucket >> 4, bucket & 15
                return min(((leading + 1) << shift) - 1, self.maximum_ns)
        return self.maximum_ns

    def summary(self) -> dict[str, int]:
        """Return `p50`, `p99` and `max` in ns; zeros without samples."""
        return {
            "p50": self.percentile(0.5),
            "p99": self.percentile(0.99),
            "max": self.maximum_ns,
        }
