"""Puts a sans-I/O host on UDP sockets of the network namespace that the process is in.

One wildcard socket on port 4791 receives unicast and multicast; one socket per source port sends.
Where unicast leaves from more than `MOST_SENDERS` source ports (path entropy), one raw socket sends
it all, many ports in a system call; without the right to have one, it is a socket per port again.
Identification 0 with DF, no UDP checksum, TTL 64: what the ICRC expects and a receiver cannot see
(facts: rocev2). A full socket buffer is back-pressure: nothing more is asked of the host until
what it gave has left.

The loop itself is compiled (`compiled_host`); here are the sockets, and what the loop comes back
for.

Groups that the host has handed over to receive workers come to sockets and threads of their own;
these wake the driver when a sink is whole.
"""

import contextlib
import errno
import os
import resource
import socket
import struct
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from weft.agents.datagrams import UDP_PORT, Datagrams, ipv4_text
from weft.agents.drivers.compiled_host import (
    ATTEND,
    ENDED,
    LATENESS_BUCKETS,
    LATENESS_WORDS,
    NEEDS_SOCKET,
    RECEIVE_FAILED,
    STOOD_NS,
    TOO_LONG,
    HostLoop,
    add_lateness,
    serve_host,
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
from weft.agents.transport import ChunkSink, Endpoint, ReceiveWorker
from weft.agents.transport.kernels.chunks import NEVER
from weft.agents.transport.kernels.memory import MOST_IDLE_EVENTS
from weft.base.errors import MachineError
from weft.base.jit import Words
from weft.base.libc import wake_in_time
from weft.base.machine_code import bound

BATCHES_A_ROUND = 4
"""How much is sent before received packets are looked at again."""
MOST_SENDERS = 4
"""Sockets that send, each of a source port and a TOS: a system call for each of them in turn costs
more than a raw socket, which sends from many ports in one."""
ATTENTIVE_NS = 1_000_000
"""How long a host that must look at every arrival waits, where arrivals are other threads'."""
LOOK_AFTER_NS = 50_000_000
"""How long any other host waits there: a chunk may arrive at the moment when the last other one is
marked."""

_SO_NO_CHECK = 11
_IP_PKTINFO = 8
_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_DO = 2

SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, _SO_NO_CHECK, 1),
    (socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO),
    (socket.IPPROTO_IP, socket.IP_TTL, 64),
    (socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 64),
    (socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0),
)
"""What all sockets have."""


class Driven(Protocol):
    """What is driven: an agent around an endpoint."""

    @property
    def endpoint(self) -> Endpoint:
        """The host's transport."""

    @property
    def address(self) -> int:
        """Return the IPv4 address of the host."""

    @property
    def groups(self) -> Collection[int]:
        """Return the multicast groups of which the host must be a member."""

    @property
    def due_ns(self) -> int | None:
        """When the agent, apart from its endpoint, must be looked after."""

    @property
    def attentive(self) -> bool:
        """Whether the agent must be looked after whenever something arrives."""

    @property
    def waits_for_sent(self) -> bool:
        """Whether the agent goes on when what it has posted is done."""

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Look after what the endpoint found in what was received, and what is due."""


class UdpDriver:
    """The sockets of a host's datagrams; MachineError if the sockets cannot be made.

    Everything happens inside `run`, in the calling thread, but for what `workers` receive
    (`Endpoint.hand_over`), each in a thread of its own, from when the driver is made until `close`.
    The host's groups are joined when the driver is made and again at `join_groups`. Times are those
    of CLOCK_MONOTONIC.

    Args:
        interface: the network interface that all packets go by and come by; any if it is not said.
    """

    def __init__(
        self,
        host: Driven,
        *,
        receive_buffer_bytes: int = 32 << 20,
        send_buffer_bytes: int = 1 << 20,
        workers: Sequence[ReceiveWorker] = (),
        interface: str = "",
    ) -> None:
        self._host = host
        self._interface = interface
        self._workers = list(workers)
        self._engine: ProgressEngine | None = None
        self._send_buffer_bytes = send_buffer_bytes
        self._joined: set[int] = set()
        self._senders: dict[tuple[int, int], socket.socket] = {}
        """The sockets that send, by source port and TOS."""
        self._raw: socket.socket | None = None
        self._may_be_raw = True
        self._incoming = Datagrams.allocate(BATCH, STRIDE)
        self._receiving = Messages(self._incoming)
        self._sending = Messages(None)
        self._raw_sending = Messages(None, raw=True)
        self._ways: Words = np.full((MOST_SENDERS, 3), -1, np.int64)
        """Source port, TOS and descriptor of each socket that sends."""
        self._watched: Words = np.zeros(4, np.int64)
        self._timeout: Words = np.zeros(2, np.int64)
        self._lateness = Lateness()
        endpoint = host.endpoint
        self._loop = HostLoop.zeroed(
            endpoint=endpoint.state_address,
            incoming=self._incoming.address,
            outgoing=endpoint.outgoing.address,
            own_address=host.address,
            udp_port=UDP_PORT,
            gather=endpoint.options.burst_ns // 2,
            large=endpoint.path_mtu // 2,
            raw=-1,
            wake=-1,
            workers=-1,
            blocked_on=-1,
        )
        self._receiver = self._open(UDP_PORT, "0.0.0.0")
        force_buffer(self._receiver, socket.SO_RCVBUF, receive_buffer_bytes)
        self._receiver.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        self._receiver.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        self._loop.receiver = self._receiver.fileno()
        self.join_groups()
        self._whole = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if self._workers:
            self._start_workers(receive_buffer_bytes)
            self._loop.workers = self._whole
        wake_in_time()
        self._errors_before = _udp_errors()
        self._serve = self._bound()

    def _bound(self) -> Callable[[], int]:
        """Return the call of the loop that serves the host, on the arrays that there are now."""
        return bound(
            serve_host, self._loop.location, self._receiving.headers, self._sending.headers,
            self._raw_sending.headers, self._ways, self._watched, self._timeout,
            self._lateness.counts, BATCHES_A_ROUND,
        )  # fmt: skip

    @staticmethod
    def warm_up() -> None:
        """Compile, or load, what the driver is made of; sends nothing."""
        endpoint = Endpoint(0)
        batch = Datagrams.allocate(BATCH, STRIDE)
        loop = HostLoop.zeroed(
            endpoint=endpoint.state_address,
            incoming=batch.address,
            outgoing=endpoint.outgoing.address,
            receiver=-1,
        )
        words = np.zeros(2, np.int64), Lateness().counts
        headers = Messages(batch).headers
        serve_host(
            loop.location, headers, headers, headers, np.zeros((1, 3), np.int64),
            np.zeros(4, np.int64), *words, 1,
        )  # fmt: skip
        ProgressEngine.warm_up()

    def _open(self, port: int, address: str) -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            # Workers' sockets are on the receiver's port, too, and senders share a port whose
            # packets have more than one TOS.
            shared = SHARED_PORT if port != UDP_PORT or self._workers else ()
            for option in (*SOCKET_OPTIONS, *shared):
                opened.setsockopt(*option)
            self._bind_to_interface(opened)
            opened.bind((address, port))
        except OSError as error:
            opened.close()
            raise MachineError(
                f"UDP socket on {address} port {port}: {error.strerror}; each host needs a network"
                " namespace of its own, with its address configured"
            ) from error
        return opened

    def _bind_to_interface(self, opened: socket.socket) -> None:
        if self._interface:
            name = self._interface.encode()
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)

    def join_groups(self) -> None:
        """Become a member of the host's groups on the interface that has its address, and leave
        those that it has no more."""
        own = struct.pack("!I", self._host.address)
        wanted = self._host.groups
        for group in self._joined - {*wanted}:
            self._receiver.setsockopt(
                socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, struct.pack("!I", group) + own
            )
            self._joined.remove(group)
        for group in wanted:
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
        host, loop = self._host, self._loop
        loop.wake = -1 if wake is None else wake
        loop.until = NEVER if until_ns is None else until_ns
        loop.readable = 1
        if until is not None and until():
            loop.until = 0
        while True:
            due_ns = host.due_ns
            loop.due = NEVER if due_ns is None else due_ns
            loop.attentive = host.attentive
            loop.look_after = 0
            if self._engine is not None:
                self._engine.check()
                loop.look_after = ATTENTIVE_NS if loop.attentive else LOOK_AFTER_NS
            host.endpoint.state.sends_can_wait = not host.waits_for_sent
            host.endpoint.make_room(BATCH + MOST_IDLE_EVENTS)
            reason = self._serve()
            if reason == ATTEND:
                self._incoming.count = loop.received
                host.attend(self._incoming, time.monotonic_ns())
                if until is not None and until():
                    return
            elif reason == NEEDS_SOCKET:
                self._make_sender(host.endpoint.outgoing, loop.unsent_from)
            elif reason == ENDED:
                return
            elif reason == RECEIVE_FAILED:
                raise MachineError(f"receiving on UDP port {UDP_PORT}: {_text(loop.error)}")
            elif reason == TOO_LONG:
                size = int(host.endpoint.outgoing.length[loop.unsent_from]) + 28
                raise MachineError(
                    f"a packet of {size} bytes does not fit the link's MTU: raise it, or lower the"
                    " path MTU"
                )

    def _make_sender(self, batch: Datagrams, row: int) -> None:
        """Make what a row of a batch leaves by: the raw socket, or one of its source port."""
        port, tos = int(batch.source_port[row]), int(batch.tos[row])
        unicast = int(batch.destination[row]) >> 28 != 0xE
        if unicast and self._sends_raw(port, tos):
            assert self._raw is not None
            self._loop.raw = self._raw.fileno()
            return
        descriptor = self._sender(port, tos).fileno()
        places = np.flatnonzero(self._ways[:, 0] < 0)
        if not len(places):
            places = np.array([len(self._ways)])
            self._ways = np.concatenate([self._ways, np.full_like(self._ways, -1)])
            self._serve = self._bound()
        self._ways[places[0]] = port, tos, descriptor

    def _sends_raw(self, port: int, tos: int) -> bool:
        """Return whether unicast leaves by the raw socket, which is made when there are many
        ports."""
        if self._raw is None and self._may_be_raw:
            if (port, tos) in self._senders or len(self._senders) < MOST_SENDERS:
                return False
            try:
                self._raw = socket.socket(
                    socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_RAW
                )
            except PermissionError:
                self._may_be_raw = False
            else:
                self._bind_to_interface(self._raw)
                self._raw.bind((ipv4_text(self._host.address), 0))
                force_buffer(self._raw, socket.SO_SNDBUF, self._send_buffer_bytes)
        return self._raw is not None

    def _sender(self, port: int, tos: int) -> socket.socket:
        sender = self._senders.get((port, tos))
        if sender is None:
            own = ipv4_text(self._host.address)
            sender = self._open(port, own)
            force_buffer(sender, socket.SO_SNDBUF, self._send_buffer_bytes)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            self._senders[port, tos] = sender
        return sender

    def lateness_ns(self) -> dict[str, int]:
        """Return how late the host was called for its deadlines, since the last reset: p50, p99 and
        max; and for how long it stood still all together."""
        return {**self._lateness.summary(), "stood": self._lateness.stood_ns}

    def reset_lateness(self, late_ns: int = 0) -> None:
        """Forget how late calls have been, but for how late the first one is that counts."""
        self._lateness.counts[:] = 0
        self._lateness.stand(late_ns)

    def counters(self) -> dict[str, int]:
        """Return what has been counted since the driver was made, by name; all of it only grows.

        `socket_drops` are datagrams that a receive buffer of the namespace had no room for,
        `receive_errors` all that the namespace's UDP refused, `send_errors` datagrams that the
        kernel refused (no route, link down), `send_blocked` how often a send buffer was full,
        `driver_cpu_ns` processor time of the process, `driver_kernel_ns` that of the kernel for it.
        """
        errors = _udp_errors()
        loop = self._loop
        by_workers = sum(worker.statistics.received_packets for worker in self._workers)
        return {
            "datagrams_received": loop.datagrams_received + by_workers,
            "datagrams_sent": loop.datagrams_sent,
            "send_errors": loop.send_errors,
            "send_blocked": loop.send_blocked,
            "system_calls": loop.system_calls,
            "wakeups": loop.wakeups,
            "socket_drops": errors["RcvbufErrors"] - self._errors_before["RcvbufErrors"],
            "receive_errors": errors["InErrors"] - self._errors_before["InErrors"],
            "driver_cpu_ns": time.process_time_ns(),
            "driver_kernel_ns": round(resource.getrusage(resource.RUSAGE_SELF).ru_stime * 1e9),
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
        self.counts: Words = np.zeros(LATENESS_WORDS, np.int64)
        """As `add_lateness` has them."""

    def add(self, late_ns: int) -> None:
        """Count one sample."""
        add_lateness(self.counts, late_ns)

    def percentile(self, fraction: float) -> int:
        """Return the time (ns) that this fraction of the samples does not exceed, but for the width
        of a bucket."""
        buckets = self.counts[:LATENESS_BUCKETS]
        reached = buckets.cumsum() >= fraction * buckets.sum() - 1e-6
        shift, leading = divmod(int(reached.argmax()), 16)
        return min(((leading + 1) << shift) - 1, self.greatest_ns)

    def summary(self) -> dict[str, int]:
        """Return `p50`, `p99` and `max` in ns; zeros without samples."""
        return {
            "p50": self.percentile(0.5),
            "p99": self.percentile(0.99),
            "max": self.greatest_ns,
        }

    @property
    def greatest_ns(self) -> int:
        """Return the longest time."""
        return int(self.counts[LATENESS_BUCKETS])

    @property
    def stood_ns(self) -> int:
        """Return the sum of the times in which the host stood still."""
        return int(self.counts[LATENESS_BUCKETS + 1])

    def stand(self, late_ns: int) -> None:
        """Take note of a time that is no deadline's."""
        if late_ns >= STOOD_NS:
            self.counts[LATENESS_BUCKETS + 1] += late_ns
