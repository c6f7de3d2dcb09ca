"""Captures of every packet at every link end of a run: one tcpdump for each, in the end's
namespace."""

import os
import re
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.base import files
from weft.base.errors import MachineError, RunError
from weft.topo.interfaces import LinkKind, interface_name, is_patched
from weft.topo.network import Direction, Topology
from weft.topo.worlds.emulated.processes import RunProcess, stop_all
from weft.topo.worlds.emulated.runs import RunRecord

BUFFERS_KIB = 512 * 1024
"""Kernel memory for all captures together, shared out evenly."""
LARGEST_BUFFER_KIB = 16 * 1024
READY_DEADLINE_S = 60.0
"""The longest time from one tcpdump that listens to the next."""
DRAIN_DEADLINE_S = 10.0
"""How long tcpdumps may take in which none writes anything that it has received."""
END_DEADLINE_S = 5.0
"""How long they may then take to end."""

# Without -Z root tcpdump changes its user, and so would no longer die with its run.
CRASH_HINT = (
    "; some tcpdumps, for example Ubuntu 24.04's first, crash with '-Z root -w'"
    " (Launchpad bug 2071891): upgrade it with 'apt-get update && apt-get install tcpdump'"
)

_FILE_HEADER_BYTES, _PACKET_HEADER_BYTES = 24, 16  # of pcap files

_COUNTS = {
    "captured": re.compile(r"(\d+) packets? captured"),
    "received": re.compile(r"(\d+) packets? received by filter"),
    "dropped": re.compile(r"(\d+) packets? dropped by kernel"),
}


@dataclass(frozen=True)
class CaptureResult:
    """What was written to one capture file, and what was lost."""

    path: Path
    end: str
    """The link end, for example ``leaf0 towards spine1``."""
    packets: int
    """How many packets are whole in the file."""
    lost: int
    cut: bool = False
    """Whether the file ends before all that was to be written to it."""
    ended: bool = True
    """Whether its tcpdump ended by itself; what one misses that was killed is not known."""

    @property
    def doubt(self) -> str:
        """What a reader must know of the file; empty if it is whole."""
        if not self.ended:
            return (
                f"the capture at {self.end} is not whole: its tcpdump did not end when it was told "
                f"to, and was killed; the file has {self.packets} packets"
            )
        if not self.lost:
            return ""
        cut_short = ": its file is cut short, as on a full disk" if self.cut else ""
        return f"the capture at {self.end} misses {self.lost} packets{cut_short}"


def capture_path(folder: Path, direction: Direction) -> Path:
    """Return the file of the link end that a direction leaves."""
    return folder.absolute() / f"{'-'.join(direction.ends)}.pcap"


def patch_results(topology: Topology, answer: Mapping[str, Any]) -> list[CaptureResult]:
    """Return what the switch process reports of its captures at the ends of patch links."""
    found = {Path(each["path"]).stem: each for each in answer.get("captures", ())}
    return [
        CaptureResult(
            Path(found[name]["path"]),
            " towards ".join(direction.ends),
            found[name]["packets"],
            found[name]["lost"],
        )
        for direction in topology.directions
        if (name := "-".join(direction.ends)) in found
    ]


class LinkCaptures:
    """The tcpdumps of a run. Files are ``<node>-<neighbour>.pcap``, stamped in nanoseconds."""

    def __init__(
        self,
        topology: Topology,
        run: RunRecord,
        folder: Path,
        namespaces: dict[str, int],
        link_mtu: int,
        links: LinkKind = "veth",
    ) -> None:
        """Start a tcpdump at both ends of every link that has interfaces, and return once all of
        them listen.

        ``namespaces`` maps each node to a process in its namespace. Raises MachineError if
        ``folder`` cannot be made, RunError if a tcpdump does not start.
        """
        try:
            files.make_folder(folder)
        except OSError as error:
            raise MachineError(f"captures cannot go to {folder}: {error.strerror}") from error
        share_kib = min(LARGEST_BUFFER_KIB, BUFFERS_KIB // len(topology.directions))
        self._captures: list[tuple[Direction, Path, RunProcess]] = []
        for direction in topology.directions:
            if is_patched(direction.link, topology, links):
                continue
            end, neighbour = direction.ends
            path = capture_path(folder, direction)
            command = [
                *("tcpdump", "-i", interface_name(direction.source, topology), "-n", "-U"),
                *("--time-stamp-precision=nano", "-s", str(link_mtu + 64), "-Z", "root"),
                *("-B", str(share_kib), "-w", "-"),
            ]
            process = RunProcess(
                run,
                f"tcpdump at {end} towards {neighbour}",
                command,
                namespace_pid=namespaces[direction.source.node],
                log=run.folder / f"tcpdump-{end}-{neighbour}.log",
                output=path,
            )
            self._captures.append((direction, path, process))
        self._wait_until_listening()

    @property
    def processes(self) -> list[RunProcess]:
        """The tcpdumps."""
        return [process for _, _, process in self._captures]

    def _wait_until_listening(self) -> None:
        for process in self.processes:
            end = time.monotonic() + READY_DEADLINE_S
            while "listening on" not in _text(process):
                if not process.is_alive():
                    how = process.describe_end()
                    hint = CRASH_HINT if "SIGSEGV" in how else ""
                    raise RunError(f"{how} at its start{process.tail()}{hint}")
                if time.monotonic() > end:
                    raise process.late(READY_DEADLINE_S)
                time.sleep(0.005)

    def stop(self) -> list[CaptureResult]:
        """Write out what the kernel still holds, end the tcpdumps, and say what each captured.

        A kernel buffer is handed over when it is full or a second old; so tcpdump is asked for
        its counts until it has written all that it had received when it was first asked. What a
        host's kernel sends after that (it leaves its groups) is not the capture's any more.
        """
        waiting = [process for process in self.processes if process.is_alive()]
        _wake(waiting)
        wanted: dict[int, int] = {}
        written = -1
        end = 0.0
        while waiting:
            so_far = sum(_counts(process)[0] for process in self.processes)
            if so_far > written:
                written, end = so_far, time.monotonic() + DRAIN_DEADLINE_S
            elif time.monotonic() >= end:
                break
            asked = {process.pid: _reports(process) for process in waiting}
            for process in waiting:
                process.popen.send_signal(signal.SIGUSR1)
            time.sleep(0.1)
            for process in waiting:
                if _reports(process) > asked[process.pid]:
                    wanted.setdefault(process.pid, _counts(process)[1])
            waiting = [
                process
                for process in waiting
                if process.is_alive()
                and not (process.pid in wanted and _has_written(process, wanted[process.pid]))
            ]
        results: list[CaptureResult] = []
        stop_all(self.processes, signal.SIGINT, deadline_s=END_DEADLINE_S)
        for direction, path, process in self._captures:
            captured, received, dropped = _counts(process)
            lost = max(dropped, wanted.get(process.pid, received) - captured)
            whole = packets_in(path)  # tcpdump does not say what a full disk did not take
            lost += max(0, captured - whole)
            name = " towards ".join(direction.ends)
            ended = process.popen.returncode != -signal.SIGKILL
            results.append(CaptureResult(path, name, whole, lost, whole < captured, ended))
        return results


def _wake(processes: Sequence[RunProcess]) -> None:
    """Let those go on that somebody has stopped: the kernel has kept for them what came."""
    for process in processes:
        process.popen.send_signal(signal.SIGCONT)


def packets_in(path: Path) -> int:
    """Return how many whole packets there are in a capture file; 0 for a file that cannot
    be read."""
    count = 0
    with suppress(OSError), open(path, "rb", buffering=1 << 20) as file:
        size = os.fstat(file.fileno()).st_size
        place = file.seek(_FILE_HEADER_BYTES)
        while len(header := file.read(_PACKET_HEADER_BYTES)) == _PACKET_HEADER_BYTES:
            (captured_bytes,) = struct.unpack_from("=I", header, 8)
            place += _PACKET_HEADER_BYTES + captured_bytes
            if place > size:
                break
            file.seek(captured_bytes, os.SEEK_CUR)
            count += 1
    return count


def _text(process: RunProcess) -> str:
    return process.log.read_text(errors="replace")


def _reports(process: RunProcess) -> int:
    return len(_COUNTS["dropped"].findall(_text(process)))


def _counts(process: RunProcess) -> tuple[int, int, int]:
    """Return (captured, received, dropped) as tcpdump last reported them; zeros if it never did."""
    text = _text(process)
    last = [(pattern.findall(text) or ["0"])[-1] for pattern in _COUNTS.values()]
    return int(last[0]), int(last[1]), int(last[2])


def _has_written(process: RunProcess, received: int) -> bool:
    captured, _, dropped = _counts(process)
    return captured + dropped >= received
