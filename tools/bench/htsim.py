"""UEC's htsim on the permutation of ``weft bench simulator``: a program that the user has built.

htsim simulates packets in queues, by congestion control of its own (NSCC), and without P4 programs
or bytes (https://github.com/ultraethernet/uet-htsim). It is given the same network and flows, as
files of its own forms: a topology (``-topo``) and a connection matrix (``-tm``).
"""

import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, RunError
from weft.base.outputs import Unfinished, communicate, kill
from weft.base.units import shown

TIMEOUT_S = 600
END_US = 1_000_000
"""When htsim stops in any case, in virtual time."""
MOST_SHOWN = 200


def check(binary: Path) -> Path:
    """Return a program's absolute path. Raises InputError unless it is a file that can be run."""
    found = binary.resolve()
    if not (found.is_file() and os.access(found, os.X_OK)):
        raise InputError(
            f"--htsim {shown(str(binary))}: there is no program of this name that can be run; name "
            "the htsim_uec that you have built (sim/datacenter/htsim_uec of "
            "ultraethernet/uet-htsim)"
        )
    return found


def matrix(target: Sequence[int], message_bytes: int) -> str:
    """Return a connection matrix of a flow from each rank to its target, all at once."""
    head = f"Nodes {len(target)}\nConnections {len(target)}\n"
    return head + "".join(
        f"{rank}->{peer} id {rank + 1} start 0 size {message_bytes}\n"
        for rank, peer in enumerate(target)
    )


def topology(leaves: int, spines: int, below: int, rate_bps: int, delay_ns: int) -> str:
    """Return a two-tier Clos of so many hosts below each leaf."""
    nodes = leaves * below
    link = f"Downlink_speed_Gbps {rate_bps // 10**9}\nDownlink_Latency_ns {delay_ns}\n"
    return (
        f"Nodes {nodes}\nTiers 2\nPodsize {nodes}\n\n"
        f"Tier 0\n{link}Radix_Down {below}\nRadix_Up {spines}\n\n"
        f"Tier 1\n{link}Radix_Down {leaves}\n"
    )


def measure(binary: Path, matrix_text: str, topology_text: str, rate_bps: int) -> dict[str, Any]:
    """Run htsim once.

    Returns:
        ``data_packets`` that it sent for the first time, and ``user_seconds`` of the whole process,
        start-up included.

    Raises:
        InputError: the program cannot be started.
        RunError: it failed, or a flow did not finish.
    """
    flows = matrix_text.count("->")
    with tempfile.TemporaryDirectory(prefix="weft-htsim-") as folder:
        (Path(folder) / "flows.cm").write_text(matrix_text)
        (Path(folder) / "network.topo").write_text(topology_text)
        command = [
            str(binary), "-tm", "flows.cm", "-topo", "network.topo", "-o", "log.dat",
            "-linkspeed", str(rate_bps // 10**6), "-seed", "1", "-end", str(END_US),
        ]  # fmt: skip
        before = _children_s()
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise InputError(f"--htsim {shown(str(binary))}: {error.strerror}") from None
        try:
            said, _ = communicate(process, timeout_s=TIMEOUT_S)
        except Unfinished as error:
            raise RunError(f"--htsim {shown(str(binary))}: it {error}") from None
        finally:
            kill(process)
        seconds = _children_s() - before
    finished = len(re.findall(r"^Flow .* finished at ", said, re.MULTILINE))
    sent = re.search(r"^New: ([0-9]+)", said, re.MULTILINE)
    if process.returncode or sent is None or finished != flows:
        last = (said.strip().splitlines() or ["it said nothing"])[-1][:MOST_SHOWN]
        raise RunError(
            f"--htsim {shown(str(binary))}: it ended with status {process.returncode}, and "
            f"{finished} of {flows} flows finished: {last}; name UEC's htsim_uec"
        )
    return {"data_packets": int(sent[1]), "user_seconds": seconds}


def _children_s() -> float:
    """Return the user time of all child processes that have ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
