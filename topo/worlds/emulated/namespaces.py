"""Work inside another process's network namespace: run a function there, read its interfaces."""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from weft.base.errors import MachineError

CLONE_NEWNET = 0x40000000
_SIOCETHTOOL = 0x8946
_INTERFACE_NAME_BYTES = 16
_OFFLOADS = {
    0x15: "receive checksum",  # ETHTOOL_SRXCSUM
    0x17: "transmit checksum",  # ETHTOOL_STXCSUM
    0x1F: "TCP segmentation",  # ETHTOOL_STSO
    0x24: "generic segmentation",  # ETHTOOL_SGSO
    0x2C: "generic receive",  # ETHTOOL_SGRO
}
"""The ethtool commands that switch an offload (linux/ethtool.h), each with what it is called."""

_libc = ctypes.CDLL(None, use_errno=True)

Result = TypeVar("Result")


@dataclass(frozen=True)
class InterfaceCounters:
    """What the kernel counted at one interface since it was made: Ethernet frames without FCS."""

    rx_bytes: int
    rx_packets: int
    rx_dropped: int
    tx_bytes: int
    tx_packets: int
    tx_dropped: int


def in_namespace(pid: int, work: Callable[[], Result]) -> Result:
    """Run ``work`` in the network namespace of a process and return its result.

    It runs in a thread of its own, which ends with it: the caller's thread never leaves its own
    namespace. Sockets opened in ``work`` stay in that namespace, as do commands started there;
    long-lived processes must not be started so, as they would be taken for orphans when the
    thread ends (PR_SET_PDEATHSIG). ``/sys`` stays the caller's. Errors of ``work`` are raised
    here; OSError if the namespace cannot be entered.
    """
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def enter_and_work() -> None:
        try:
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _libc.setns(descriptor, CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, f"setns to process {pid}: {os.strerror(number)}")
            finally:
                os.close(descriptor)
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=enter_and_work, name=f"namespace-of-{pid}", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def write_sysctls(settings: Iterable[tuple[str, str]]) -> None:
    """Set ``net.*`` parameters of the calling thread's namespace; those it has not are passed over.

    To be called through :func:`in_namespace`: what ``/proc/sys/net`` shows is the namespace of
    the thread that opens it. Raises MachineError if they may not be set.
    """
    for name, value in settings:
        path = Path("/proc/sys", *name.split("."))
        if not path.exists():
            continue
        try:
            path.write_text(value)
        except OSError as error:
            raise MachineError(
                f"cannot set {name} in a namespace of the run ({error.strerror}): in a container, "
                "Weft needs CAP_NET_ADMIN and a writable /proc/sys (docker run --privileged)"
            ) from error


def turn_offloads_off(interfaces: Iterable[str]) -> None:
    """Turn checksum and segmentation offloads off, in the calling thread's namespace.

    So every packet on a link is the packet that a wire would carry: no frame above the MTU, no
    checksum left blank. Raises MachineError if the kernel refuses.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for interface in interfaces:
            for command, what in _OFFLOADS.items():
                value = array.array("I", [command, 0])
                request = struct.pack(
                    f"{_INTERFACE_NAME_BYTES}sP", interface.encode(), value.buffer_info()[0]
                )
                try:
                    fcntl.ioctl(control, _SIOCETHTOOL, request.ljust(40, b"\0"))
                except OSError as error:
                    raise MachineError(
                        f"cannot turn {what} offload off on {interface}: {error.strerror}"
                    ) from error


def read_counters(pid: int) -> dict[str, InterfaceCounters]:
    """The counters of every interface in a process's network namespace, by interface name."""
    counters: dict[str, InterfaceCounters] = {}
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
        name, _, figures = line.partition(":")
        columns = [int(figure) for figure in figures.split()]
        counters[name.strip()] = InterfaceCounters(
            rx_bytes=columns[0],
            rx_packets=columns[1],
            rx_dropped=columns[3],
            tx_bytes=columns[8],
            tx_packets=columns[9],
            tx_dropped=columns[11],
        )
    return counters
