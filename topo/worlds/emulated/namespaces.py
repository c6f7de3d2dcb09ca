"""Work inside another process's network namespace: functions, many ip and tc commands at once, and
counters of interfaces."""

import array
import fcntl
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from weft.base import children, rtnetlink
from weft.base.children import last_words, run_tool
from weft.base.errors import MachineError
from weft.base.libc import CLONE_NEWNET, check_call, libc

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

Result = TypeVar("Result")
_FAILED_LINE = re.compile(r"Command failed -:(\d+)")


def in_namespace(pid: int, work: Callable[[], Result]) -> Result:
    """Run ``work`` in the network namespace of a process and return its result.

    It runs in a thread of its own, which ends with it, so that the caller's thread never leaves its
    own namespace. Sockets opened in ``work`` stay in that namespace, and so do commands started
    there. Long-lived processes must not be started so: they would be killed as orphans when the
    thread ends (PR_SET_PDEATHSIG). ``/sys`` stays the caller's. Errors of ``work`` are raised here;
    OSError is raised if the namespace cannot be entered.
    """

    def enter_and_work() -> Result:
        with open(f"/proc/{pid}/ns/net", "rb") as namespace:
            check_call(libc.setns(namespace.fileno(), CLONE_NEWNET), f"setns to process {pid}: ")
        return work()

    return in_thread(enter_and_work)


def in_thread(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a thread of its own, which ends with it, and return its result.

    The thread is a daemon: if it hangs, Ctrl-C still ends the process.
    """
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result()


def write_sysctls(settings: Iterable[tuple[str, str]]) -> None:
    """Set ``net.*`` parameters of the calling thread's namespace; parameters that it does not have
    are passed over. Names have dots, or slashes, as of interfaces whose names have dots.

    Call it through :func:`in_namespace`, since ``/proc/sys/net`` shows the namespace of the thread
    that opens it. Raises MachineError if they may not be set.
    """
    for name, value in settings:
        path = Path("/proc/sys", *name.split("/" if "/" in name else "."))
        try:
            if path.exists():
                path.write_text(value)
        except OSError as error:
            raise MachineError(
                f"cannot set {name} in a namespace of the run ({error.strerror}): in a container, "
                "Weft needs CAP_NET_ADMIN and a writable /proc/sys (docker run --privileged)"
            ) from error


def turn_offloads_off(interfaces: Iterable[str]) -> None:
    """Turn checksum and segmentation offloads off, in the calling thread's namespace.

    Then every packet on a link is the packet that a wire would carry: no frame is above the MTU,
    and no checksum is left blank. Raises MachineError if the kernel refuses.
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


def read_counters(pid: int) -> dict[str, dict[str, int]]:
    """Return what the kernel counted at every interface in a process's network namespace.

    The result has, by interface, ``rx_packets``, ``rx_bytes``, ``tx_packets`` and ``tx_bytes``
    since the interface was made; bytes are those of Ethernet frames without FCS.
    """
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    rows = (line.partition(":") for line in lines)
    columns = {name.strip(): list(map(int, figures.split())) for name, _, figures in rows}
    return {
        name: {
            "rx_packets": counts[1],
            "rx_bytes": counts[0],
            "tx_packets": counts[9],
            "tx_bytes": counts[8],
        }
        for name, counts in columns.items()
    }


LINE_LIMIT_S = 0.1
"""How long a line of a batch may take: to move an interface the kernel waits for all processors."""


def run_batch(tool: str, lines: Sequence[str], *options: str) -> None:
    """Hand lines to ``ip -batch`` or ``tc -batch``, with options of theirs; do nothing if there are
    none.

    Raises MachineError, which shows the line that failed and what the tool said of it, and RunError
    if the tool was killed, or has not come to its end in time.
    """
    if not lines:
        return
    tool = " ".join([tool, *options])
    done = run_tool(
        [*tool.split(), "-batch", "-"],
        input="\n".join(lines) + "\n",
        timeout_s=children.TOOL_LIMIT_S + LINE_LIMIT_S * len(lines),
    )
    if done.returncode != 0:
        number = _FAILED_LINE.search(done.stderr)
        what = f"{tool} {lines[int(number.group(1)) - 1]}" if number else f"{tool} -batch"
        said = done.stderr.strip().splitlines()
        raise MachineError(f"`{what}` failed: {said[0] if said else last_words(done)}")


_QUEUE = struct.Struct("=BxxxiIII")
"""A struct tcmsg; the second field is the interface's index."""
_COUNTED = struct.Struct("=5I")
"""A struct gnet_stats_queue; the third field is how many packets were dropped."""
_RTM_GETQDISC = 38
_TCA_KIND = 1
_TCA_STATS2 = 7
_TCA_STATS_QUEUE = 3


def queue_drops(kind: str = "tbf") -> dict[str, int]:
    """Return, by interface, the packets that its queue dropped, for every interface of the calling
    thread's namespace that has one of the kind.

    Raises MachineError if the kernel cannot tell.
    """
    drops = {}
    try:
        for _, told in rtnetlink.told(_RTM_GETQDISC, _QUEUE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
            attributes = told[_QUEUE.size :]
            if rtnetlink.text(attributes, _TCA_KIND) == kind:
                counted = rtnetlink.attribute(attributes, _TCA_STATS2)
                counted = rtnetlink.attribute(counted, _TCA_STATS_QUEUE)
                interface = socket.if_indextoname(_QUEUE.unpack_from(told)[1])
                drops[interface] = _COUNTED.unpack_from(counted)[2]
    except OSError as error:
        raise MachineError(f"the kernel cannot tell of queues: {error.strerror}") from error
    return drops
