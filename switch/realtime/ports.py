"""AF_PACKET sockets of the ports, and the memory of the packet loop."""

import contextlib
import os
import socket
import struct

import numpy as np
from numpy.typing import NDArray

from weft.base.errors import MachineError
from weft.switch.engine.dataplane import Dataplane
from weft.switch.engine.layout import NONE
from weft.switch.realtime import loop

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_STATISTICS = 6
PACKET_AUXDATA = 8
PACKET_QDISC_BYPASS = 20
PACKET_IGNORE_OUTGOING = 23
SO_RCVBUFFORCE = 33
SO_SNDBUFFORCE = 32
RECEIVE_BUFFER_BYTES = 32 << 20
SEND_BUFFER_BYTES = 16 << 20


def open_port(interface: str, visible: bool = False) -> socket.socket:
    """Return a raw socket on an interface of this namespace; raises ``MachineError``.

    Frames that bypass the queueing discipline are cheaper to send, but no other packet socket
    sees them leave: with ``visible`` they do not, so that captures hold both directions.
    """
    try:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise MachineError("opening a packet socket needs root (CAP_NET_RAW): use sudo") from None
    try:
        port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        port.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        port.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 0 if visible else 1)
        for option, fallback, size in (
            (SO_RCVBUFFORCE, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES),
            (SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BUFFER_BYTES),
        ):
            try:
                port.setsockopt(socket.SOL_SOCKET, option, size)
            except PermissionError:
                port.setsockopt(socket.SOL_SOCKET, fallback, size)
        port.setblocking(False)
        port.bind((interface, ETH_P_ALL))
    except OSError as error:
        port.close()
        raise MachineError(f"interface {interface!r} cannot be a switch port: {error}") from None
    return port


class PortSockets:
    """The sockets of all ports of a data plane, and the arrays that ``loop.run_loop`` works on."""

    def __init__(
        self,
        dataplane: Dataplane,
        ports: list[tuple[int, int, str]],
        coalesce_ns: int,
        visible: bool = False,
    ) -> None:
        """Open the sockets; each of ``ports`` is (switch, port, interface). ``visible`` is as for
        ``open_port``."""
        self.ports = ports
        self.sockets: list[socket.socket] = []
        self.event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.kernel_drops = [0] * len(ports)
        self._kept: list[NDArray[np.int64]] = []
        try:
            for _, _, interface in ports:
                self.sockets.append(open_port(interface, visible))
        except BaseException:
            self.close()
            raise
        self.rows = self._array(max(len(ports), 1) * loop.SOCKET_WORDS).reshape(
            -1, loop.SOCKET_WORDS
        )
        self.io = self._make_io(dataplane, coalesce_ns)

    def _array(self, words: int) -> NDArray[np.int64]:
        array = np.zeros(max(words, 1), np.int64)
        self._kept.append(array)
        return array

    def _make_io(self, dataplane: Dataplane, coalesce_ns: int) -> NDArray[np.int64]:
        count = len(self.ports)
        io = self._array(loop.IO_WORDS)
        poll = self._array(count + 1)
        for i, (switch, port, _) in enumerate(self.ports):
            descriptor = self.sockets[i].fileno()
            words = dataplane.ports[switch * dataplane.port_count + port]
            words.driver = i
            for place, word in (
                (loop.F_DESCRIPTOR, descriptor),
                (loop.F_SWITCH, switch),
                (loop.F_PORT, port),
                (loop.F_HEAD, NONE),
                (loop.F_RATE_BPS, words.rate_bps),
            ):
                self.rows[i, place] = word
            poll[i] = descriptor | loop.POLLIN << 32
        poll[count] = self.event | loop.POLLIN << 32
        receive_vectors = self._array(2 * loop.BATCH)
        receive = self._messages(receive_vectors, 1)
        control = self._array(loop.BATCH * loop.CONTROL_WORDS)
        for i in range(loop.BATCH):
            place = control.ctypes.data + i * loop.CONTROL_WORDS * 8
            receive[i * loop.MESSAGE_WORDS + loop.M_CONTROL_BYTES - 1] = place
        send_vectors = self._array(4 * loop.BATCH)
        send = self._messages(send_vectors, 2)
        buffers = self._array(loop.BATCH)
        buffers[:] = NONE
        self.histogram = self._array(loop.HISTOGRAM)
        self.spacing = self._array(loop.HISTOGRAM)
        addresses = {
            loop.IO_POLL: poll,
            loop.IO_SOCKETS: self.rows,
            loop.IO_RECEIVE: receive,
            loop.IO_RECEIVE_VECTORS: receive_vectors,
            loop.IO_RECEIVE_BUFFERS: buffers,
            loop.IO_SEND: send,
            loop.IO_CONTROL: control,
            loop.IO_SEND_VECTORS: send_vectors,
            loop.IO_PENDING: self._array(count),
            loop.IO_HISTOGRAM: self.histogram,
            loop.IO_SPACING: self.spacing,
            loop.IO_TIME: self._array(4),
        }
        for place, array in addresses.items():
            io[place] = array.ctypes.data
        io[loop.IO_COUNT] = count
        io[loop.IO_COALESCE_NS] = coalesce_ns
        return io

    def _messages(self, vectors: NDArray[np.int64], each: int) -> NDArray[np.int64]:
        """Return a struct mmsghdr[BATCH] whose messages have ``each`` iovecs."""
        messages = self._array(loop.BATCH * loop.MESSAGE_WORDS)
        for i in range(loop.BATCH):
            messages[i * loop.MESSAGE_WORDS + 2] = vectors.ctypes.data + i * each * 16
            messages[i * loop.MESSAGE_WORDS + 3] = each
        return messages

    def wake(self) -> None:
        """Make the loop return."""
        os.eventfd_write(self.event, 1)

    def calm(self) -> None:
        """Take the wake-up back, so that the loop can run again."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.event)

    def count_kernel_drops(self) -> list[int]:
        """Return how many frames the kernel dropped at each port because the loop was too slow."""
        for i, port in enumerate(self.sockets):
            try:
                data = port.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
            except OSError:
                continue
            self.kernel_drops[i] += struct.unpack("=II", data)[1]
        return list(self.kernel_drops)

    def send_errors(self, number: int) -> int:
        """Return how many frames the kernel refused to send at a port."""
        return int(self.rows[number, loop.F_SEND_ERRORS])

    def close(self) -> None:
        """Close all descriptors. The loop must not run any more."""
        for port in self.sockets:
            port.close()
        os.close(self.event)


def lateness(histogram: NDArray[np.int64], fraction: float) -> int:
    """Return a quantile, in ns, of a histogram that ``loop.record_lateness`` filled: the upper end
    of its bucket."""
    total = int(histogram.sum())
    if total == 0:
        return 0
    bucket = int(np.searchsorted(np.cumsum(histogram), fraction * total))
    if bucket < 32:
        return bucket
    exponent = bucket // 16 - 1
    return ((bucket % 16) + 17 << exponent) - 1
