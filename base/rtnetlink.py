"""What the kernel says of interfaces and their queues, by messages of rtnetlink(7)."""

import os
import socket
import struct
from collections.abc import Iterator

NLMSG_ERROR = 2
NLMSG_DONE = 3
_REQUEST_DUMP = 0x301
_RECEIVE_BYTES = 1 << 18
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR = struct.Struct("=i")


def request(kind: int, asked: bytes) -> bytes:
    """Return a request for all that there is of a kind."""
    return _HEADER.pack(_HEADER.size + len(asked), kind, _REQUEST_DUMP, 1, 0) + asked


def told(kind: int, asked: bytes) -> Iterator[tuple[int, bytes]]:
    """Ask for all that there is of a kind in the calling thread's network namespace, and yield the
    messages of the answer as `messages` does. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(request(kind, asked))
        while True:
            for of, message in messages(kernel.recv(_RECEIVE_BYTES)):
                if of == NLMSG_ERROR:
                    number = -_ERROR.unpack_from(message)[0]
                    raise OSError(number, os.strerror(number))
                if of == NLMSG_DONE:
                    return
                yield of, message


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind of each message of rtnetlink, and what is in it."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def attribute(attributes: bytes, wanted: int) -> bytes:
    """Return one of the attributes of a message; empty if it has none of that kind."""
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if length < _ATTRIBUTE.size:
            break
        if kind == wanted:
            return attributes[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return b""


def text(attributes: bytes, wanted: int) -> str:
    """Return one of the attributes of a message that is a text; empty if it has none of that
    kind."""
    return os.fsdecode(attribute(attributes, wanted).rstrip(b"\0"))
