"""The sockets of the ports, and the memory of the packet loop."""

import contextlib
import os
import select
import socket
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.system_calls import POLLIN, IoVector, MessageHeader, Timespec
from weft.switch.engine.control.memory import rows
from weft.switch.engine.dataplane.layout import NONE
from weft.switch.engine.switches import Dataplane
from weft.switch.realtime import layout
from weft.switch.realtime.packet_sockets import (
    ETH_P_ALL,
    PACKET_STATISTICS,
    SEND_BUFFER_BYTES,
    SO_SNDBUFFORCE,
    SOL_PACKET,
    bind_to,
    open_receiver,
    open_sender,
    set_size,
)
from weft.switch.realtime.system_calls import EVENT_BYTES, EVENT_DATA

NO_DESCRIPTOR = -1
LIMITED_SEND_BUFFER_BYTES = 16 << 10
"""What a queueing discipline that limits an interface holds for a port, doubled by the kernel: some
ten long frames. More stays in the switch's own queue, where programs see it."""


def messages(vectors: Any, each: int) -> Any:
    """Return rows of `MessageHeader`, each of which has the next ``each`` rows of
    `IoVector`."""
    made = rows(MessageHeader, len(vectors) // each)
    made.vectors = vectors.ctypes.data + each * vectors.itemsize * np.arange(len(made))
    made.vector_count = each
    return made


def close_all(sockets: Sequence[socket.socket]) -> None:
    """Close packet sockets.

    The kernel lets one go only when no processor can be looking at it any more. A hundred sockets
    wait for that together, and not one after the other.
    """
    with ThreadPoolExecutor(max(len(sockets), 1)) as at_once:
        list(at_once.map(socket.socket.close, sockets))


class PortSockets:
    """The sockets of all ports, and the arrays that ``loop.run_loop`` works on.

    A port has two sockets, since the kernel wakes whatever waits for a socket at each frame that
    the socket has sent, and an epoll descriptor always waits: a twelfth of the switch's time.
    """

    def __init__(
        self,
        dataplane: Dataplane,
        ports: list[tuple[int, int, str]],
        coalesce_ns: int,
        bypass_qdisc: bool = True,
    ) -> None:
        """Open the sockets; each of ``ports`` is (switch, port, interface). ``bypass_qdisc`` is as
        for ``open_port``."""
        self.ports = ports
        self.receivers: list[socket.socket] = []
        self._senders: list[socket.socket] = []
        self.event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._readiness = select.epoll()
        self.kernel_drops = [0] * len(ports)
        self._keeping: dict[int, bool] = {}
        self._kept: list[NDArray[Any]] = []
        try:
            for _, _, interface in ports:
                self.receivers.append(open_receiver(interface))
                self._senders.append(open_sender(interface, bypass_qdisc))
        except BaseException:
            self.close()
            raise
        self.rows = rows(layout.SocketRecord, max(len(ports), 1))
        self.rows.queued = not bypass_qdisc
        self.io = self._make_io(dataplane, coalesce_ns)

    def _make_io(self, dataplane: Dataplane, coalesce_ns: int) -> layout.LoopRecord:
        count = len(self.ports)
        descriptors = [*(port.fileno() for port in self.receivers), self.event]
        senders = [port.fileno() for port in self._senders]
        numbers = np.zeros(max(descriptors + senders) + 1, np.int64)
        for number, descriptor in enumerate(descriptors + senders):
            numbers[descriptor] = number
        for descriptor in descriptors:
            self._readiness.register(descriptor, select.EPOLLIN)
        watches = np.zeros((max(count, 1), EVENT_BYTES), np.uint8)
        for row, sender in zip(watches, senders, strict=False):
            row[:4] = np.frombuffer(np.uint32(select.EPOLLOUT).tobytes(), np.uint8)
            row[EVENT_DATA : EVENT_DATA + 4] = np.frombuffer(np.uint32(sender).tobytes(), np.uint8)
        watched = np.array([self._readiness.fileno(), self.event]) | POLLIN << 32
        for i, (switch, port, _) in enumerate(self.ports):
            words = dataplane.ports[switch * dataplane.port_count + port]
            words.driver = i
            row = self.rows[i]
            row.receiver, row.sender = descriptors[i], senders[i]
            row.switch, row.port, row.rate_bps = switch, port, words.rate_bps
        self.rows.waiting.head = NONE
        self.rows.line = NONE
        receive_vectors = rows(IoVector, layout.BATCH)
        receive = messages(receive_vectors, 1)
        control = rows(layout.ControlMessage, layout.BATCH)
        receive.control = control.ctypes.data + control.itemsize * np.arange(layout.BATCH)
        send_vectors = rows(IoVector, 2 * layout.BATCH)
        arrays = {
            "poll": watched,
            "ready": np.zeros((2 * count + 1) * EVENT_BYTES, np.uint8),
            "watches": watches,
            "numbers": numbers,
            "sockets": self.rows,
            "receive": receive,
            "receive_vectors": receive_vectors,
            "receive_buffers": np.full(layout.BATCH, NONE),
            "control": control,
            "send": messages(send_vectors, 2),
            "send_vectors": send_vectors,
            "pending": np.zeros(max(count, 1), np.int64),
            "times": rows(Timespec, 2),
        }
        self._kept += arrays.values()
        io: layout.LoopRecord = rows(layout.LoopRecord, 1)[0]
        io.socket_count, io.coalesce_ns = count, coalesce_ns
        io.readiness = self._readiness.fileno()
        for name, array in arrays.items():
            setattr(io, name, array.ctypes.data)
        return io

    def open_anew(self, number: int) -> None:
        """Let a port go on with the interface that has its interface's name now; the loop may run
        meanwhile. Raises ``MachineError`` if there is none."""
        _, _, interface = self.ports[number]
        bind_to(self._senders[number], interface, 0)
        bind_to(self.receivers[number], interface, ETH_P_ALL)

    def keep_queue(self, number: int, *, keeps: bool) -> None:
        """Leave only a few frames at a time to the queueing discipline of a port's interface, since
        it limits what leaves there, or as many as it takes; the loop may run meanwhile."""
        if self.rows[number].queued and self._keeping.get(number, False) != keeps:
            self._keeping[number] = keeps
            size_bytes = LIMITED_SEND_BUFFER_BYTES if keeps else SEND_BUFFER_BYTES
            set_size(self._senders[number], SO_SNDBUFFORCE, socket.SO_SNDBUF, size_bytes)

    def leave_out(self, switch: int) -> list[socket.socket]:
        """Receive and send no more at the ports of a switch, and return their sockets, which are
        to be closed. The loop must not run meanwhile."""
        found = []
        for number, (of, _, _) in enumerate(self.ports):
            if of == switch and self.rows[number].sender != NO_DESCRIPTOR:
                self._readiness.unregister(self.receivers[number])
                self.rows[number].sender = NO_DESCRIPTOR
                found += [self.receivers[number], self._senders[number]]
        return found

    def wake(self) -> None:
        """Make the loop return."""
        os.eventfd_write(self.event, 1)

    def calm(self) -> None:
        """Take the wake-up back, so that the loop can run again."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.event)

    def count_kernel_drops(self) -> list[int]:
        """Return how many frames the kernel dropped at each port because the loop was too slow."""
        for i, port in enumerate(self.receivers):
            try:
                data = port.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
            except OSError:
                continue
            self.kernel_drops[i] += struct.unpack("=II", data)[1]
        return list(self.kernel_drops)

    def send_errors(self, number: int) -> int:
        """Return how many frames the kernel refused to send at a port."""
        return int(self.rows[number].send_errors)

    def close(self) -> None:
        """Close all descriptors. The loop must not run any more."""
        close_all(self.receivers + self._senders)
        self._readiness.close()
        os.close(self.event)
