"""AF_PACKET sockets on interfaces."""

import socket
from functools import partial

from weft.base.errors import MachineError

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


def open_port(
    interface: str, bypass_qdisc: bool = True, *, receives: bool = True, sends: bool = True
) -> socket.socket:
    """Return a raw socket on an interface of this namespace, to receive by and to send by; raises
    ``MachineError``.

    Frames that bypass the queueing discipline are cheaper to send, but tc does nothing to them, and
    no other packet socket sees them leave.
    """
    try:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise MachineError("opening a packet socket needs root (CAP_NET_RAW): use sudo") from None
    if receives:
        port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        port.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        set_size(port, SO_RCVBUFFORCE, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    if sends:
        port.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, int(bypass_qdisc))
        set_size(port, SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    port.setblocking(False)
    try:
        bind_to(port, interface, ETH_P_ALL if receives else 0)
    except MachineError:
        port.close()
        raise
    return port


open_receiver = partial(open_port, sends=False)
"""Open a socket that is there to receive by."""
open_sender = partial(open_port, receives=False)
"""Open a socket to send by, which receives nothing."""


def set_size(port: socket.socket, option: int, fallback: int, size_bytes: int) -> None:
    """Set the size of one of the kernel's buffers: above its limit where that is allowed."""
    try:
        port.setsockopt(socket.SOL_SOCKET, option, size_bytes)
    except PermissionError:
        port.setsockopt(socket.SOL_SOCKET, fallback, size_bytes)


def bind_to(port: socket.socket, interface: str, protocol: int) -> None:
    """Bind a socket to an interface, and to what it receives; raises ``MachineError``."""
    try:
        port.bind((interface, protocol))
    except OSError as error:
        raise MachineError(f"interface {interface!r} cannot be a switch port: {error}") from None
