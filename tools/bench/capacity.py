"""``weft bench capacity``: up to which rate of links this machine emulates a network faithfully.

For each workload, number of hosts and kind of links: the highest rate on a ladder at which three
runs of three are verified and have the verdict ``ok``, found by bisection; and there, what a data
packet costs the processors by part, beside bare loops over veth: of UDP packets of the same size,
and of frames that are received and sent on.
"""

import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from weft.base.console import make_console
from weft.base.errors import MachineError, RunError, refuse
from weft.base.progress import Progress
from weft.experiments.results.results import Results, Run
from weft.experiments.runner import run
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.tools.bench.benchmarks import table_lines
from weft.tools.bench.hop_floor import hop_floor_ns
from weft.tools.bench.udp_floor import floor_ns

WORKLOADS: dict[str, dict[str, Any]] = {
    "ring": {"collective": "allgather", "algorithms": ("ring",)},
    "multicast": {"collective": "allgather", "algorithms": ("multicast",)},
    "all-to-all, sprayed": {"collective": "alltoall", "paths": "spray"},
    "allreduce by switch": {"collective": "allreduce", "algorithms": ("switch",)},
}
NETWORKS = {4: (2, 2, 2), 8: (4, 2, 2), 16: (4, 4, 4)}
"""Leaves, spines and hosts a leaf by number of hosts."""
LADDER_MBIT = (10, 16, 25, 40, 63, 100, 160, 250, 400, 630, 1000)
RUNS = 3
RUN_S = 1.0
"""About how long the operation of a run takes at its bound."""
BMV2 = "simple_switch_grpc"


def measure(
    workloads: Collection[str] = tuple(WORKLOADS),
    hosts: Collection[int] = tuple(NETWORKS),
    ladder_mbit: Sequence[int] = LADDER_MBIT,
    runs: int = RUNS,
) -> dict[str, Any]:
    """Return a row for each workload, number of hosts and kind of links, and the floor.

    Raises:
        MachineError: this is not root, or something that networks are made of is missing.
        RunError: a network could not be brought up.
    """
    refuse(
        os.geteuid() != 0,
        "weft bench capacity brings networks up, which needs root: use sudo",
        MachineError,
    )
    kinds = [{"links": "veth"}, {"links": "patch"}]
    if shutil.which(BMV2):
        kinds.append({"switch": "bmv2"})
    floor, hop_floor = floor_ns(), hop_floor_ns()
    rows = []
    with Progress(make_console(stderr=True)) as progress:
        for name in workloads:
            for count in hosts:
                for kind in kinds:
                    asked = _asked(WORKLOADS[name], count, kind, runs)
                    what = f"{name}, {count} hosts, {' '.join(kind.values())}"
                    with progress.stage(what, what):
                        found = _row(asked, ladder_mbit)
                    progress.say(f"  ok at {found['rate_mbit']} Mbit/s")
                    rows.append({"workload": name, "hosts": count, **found, **kind})
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "runs": runs,
        "ladder_mbit": list(ladder_mbit),
        "rows": rows,
        "floor_ns": floor,
        "hop_floor_ns": hop_floor,
    }


def _asked(
    workload: Mapping[str, Any], hosts: int, kind: Mapping[str, str], runs: int
) -> Callable[[int], Scenario]:
    """Return the scenario of a rate in bit/s, of a size that takes `RUN_S` at its bound."""
    leaves, spines, hosts_per_leaf = NETWORKS[hosts]
    asked = {
        "leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf, "repeat": runs,
        **workload, **kind,
    }  # fmt: skip

    def scenario(rate_bps: int) -> Scenario:
        small = Scenario(**asked, rate_bps=rate_bps, size_bytes=1 << 20)
        bound_s = completion_bound_ns(small, small.algorithms[0]) / 1e9
        size_bytes = round((1 << 20) * RUN_S / bound_s) // hosts // 4 * hosts * 4
        return Scenario(**asked, rate_bps=rate_bps, size_bytes=max(size_bytes, hosts * 4))

    return scenario


def _row(asked: Callable[[int], Scenario], ladder_mbit: Sequence[int]) -> dict[str, Any]:
    """Return the highest rate of the ladder at which all runs are ``ok``, what a packet costs
    there, and why the next rate is too high."""
    best: dict[str, Any] = {"rate_mbit": 0}
    low, high = 0, len(ladder_mbit)
    while low < high:
        middle = (low + high) // 2
        results = run(asked(ladder_mbit[middle] * 10**6))
        wrong = _wrong(results)
        if wrong:
            best["next"] = wrong
            high = middle
        else:
            best |= {"rate_mbit": ladder_mbit[middle], **_costs(results.runs)}
            low = middle + 1
    return best


def _wrong(results: Results) -> str:
    """Return why a run is not ``ok``, or nothing. Raises RunError for data that are wrong."""
    for each in results.runs:
        if each.fidelity.verdict != "ok":
            return each.error or each.fidelity.reasons[0]
        if not each.verified:
            raise RunError(f"a run did not verify: {each.error}")
    return ""


def _costs(runs: Sequence[Run]) -> dict[str, float]:
    """Return processor time by part, means over all runs: of the ranks' own code and of the kernel
    for them a data packet that a rank received, in ns; of the switches a frame that one sent."""

    def total(counter: str) -> int:
        return sum(rank.statistics[counter] for each in runs for rank in each.ranks)

    told = total("acknowledgements_sent") + total("naks_sent")
    packets = total("received_packets") - told
    hops = sum(link.tx_packets for each in runs for link in each.links if link.tier != "host_up")
    switches_ns = sum(each.fidelity.cpu_s["switches"] for each in runs) * 1e9
    return {
        "packets": packets / len(runs),
        "rank_ns": (total("driver_cpu_ns") - total("driver_kernel_ns")) / packets,
        "kernel_ns": total("driver_kernel_ns") / packets,
        "switch_ns": switches_ns / hops,
        "busy": max(each.fidelity.cpu_busy for each in runs),
        "of_bound": max((each.completion_ns or 0) / each.bound_ns for each in runs),
    }


COLUMNS = {
    "workload": "{workload!s}",
    "hosts": "{hosts}",
    "links": "{links!s}",
    "Mbit/s": "{rate_mbit}",
    "of bound": "{of_bound:.2f}",
    "busy": "{busy:.0%}",
    "rank us": "{rank_us:.1f}",
    "kernel us": "{kernel_us:.1f}",
    "switch us": "{switch_us:.1f}",
}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as a table."""
    title = f"rates at which {figures['runs']} runs of {figures['runs']} are ok"
    floors = (
        f"a bare loop over veth takes {took_ns / 1e3:.1f} us for {what}, {batch} in a system call"
        for what, floor in (
            ("a UDP packet of 4 KiB", "floor_ns"),
            ("a frame of 4 KiB that recvmmsg and sendmmsg pass on", "hop_floor_ns"),
        )
        for batch, took_ns in figures[floor].items()
    )
    return [
        *table_lines(title, COLUMNS, map(_filled, figures["rows"])),
        "rank and kernel: us of processor time a data packet that a rank received, in its own code "
        "and in the kernel for it; switch: a frame that one sent",
        *floors,
        f"{figures['cores']} cores, load {figures['load_before']:.1f} before",
    ]


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with zeros where no rate was ok, and in microseconds."""
    filled = {"links": row.get("switch"), "of_bound": 0.0, "busy": 0.0, **row}
    return filled | {
        f"{part}_us": row.get(f"{part}_ns", 0.0) / 1e3 for part in ("rank", "kernel", "switch")
    }
