"""Calls of the kernel that compiled code makes without Python, and the kernel's own structures, as
64-bit Linux has them."""

from typing import Any

from weft.base.deferred import external
from weft.base.jit import Record, record

POLLIN = 1
POLLOUT = 4
EPOLL_CTL_ADD = 1
EPOLL_CTL_DEL = 2
MSG_DONTWAIT = 0x40
MSG_TRUNC = 0x20
EINTR = 4
EAGAIN = 11
EMSGSIZE = 90
ENOBUFS = 105
ECONNREFUSED = 111
CLOCK_MONOTONIC = 1

clock_gettime: Any = external("clock_gettime", "int32", "int32", "int64")
nanosleep: Any = external("nanosleep", "int32", "int64", "int64")
poll: Any = external("poll", "int32", "int64", "uint64", "int32")
ppoll: Any = external("ppoll", "int32", "int64", "uint64", "int64", "int64")
epoll_ctl: Any = external("epoll_ctl", "int32", "int32", "int32", "int32", "int64")
epoll_wait: Any = external("epoll_wait", "int32", "int32", "int64", "int32", "int32")
recvmmsg: Any = external("recvmmsg", "int32", "int32", "int64", "uint32", "int32", "int64")
sendmmsg: Any = external("sendmmsg", "int32", "int32", "int64", "uint32", "int32")
errno_location: Any = external("__errno_location", "int64")
read: Any = external("read", "int64", "int32", "int64", "int64")
write: Any = external("write", "int64", "int32", "int64", "uint64")


@record
class Timespec(Record):
    """A struct timespec."""

    seconds: int
    nanoseconds: int


@record
class IoVector(Record):
    """A struct iovec."""

    address: int
    length: int
    """Its bytes."""


@record
class MessageHeader(Record):
    """A struct mmsghdr."""

    name: int
    """Address of a socket's address."""
    name_length: int
    vectors: int
    """Address of rows of `IoVector`."""
    vector_count: int
    control: int
    """Address of ancillary data."""
    control_bytes: int
    flags: int
    length: int
    """The message's bytes, in the low half."""
