"""``weft bench switch``: packets a second through the switch, beside the best there could be.

In a network namespace of its own, over veth pairs: a bare loop of recvmmsg and sendmmsg (the
ceiling), the built-in switch with fabric.p4 and with a program of twelve tables, four switches
joined by patch links, and BMv2 with the same JSON, where it is installed. One generator sends to
all of them, as much as comes through: it keeps a window of frames under way. Nobody reads what
comes out: the kernel counts it. Rows take turns, and medians are told; processor time is that of
the switch's process.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from typing import Any

from weft.base.children import DIE_WITH_PARENT, check_not_killed, python_command, python_path
from weft.base.errors import MachineError, RunError

SIZES = (128, 1400, 4096)
"""Frame bytes."""
ROUNDS = 7
TURN_S = 0.4
HOPS = 4
GOALS = {
    "of_ceiling": 0.6,
    "patch_hops_per_s_per_core": 1e6,
    "packets_of_bmv2": 2.5,
    "cpu_of_bmv2": 1 / 3,
    "hops_of_bmv2": 5.0,
    "cpu_per_hop_of_bmv2": 0.1,
}


def measure(
    sizes: Collection[int] = SIZES, rounds: int = ROUNDS, turn_s: float = TURN_S
) -> dict[str, Any]:
    """Figures of all rows and their ratios. Raises MachineError without root, ip or setpriv."""
    if os.geteuid() != 0:
        raise MachineError("weft bench switch makes veth pairs, which needs root: use sudo")
    for tool in ("ip", "mount", "setpriv", "unshare"):
        if shutil.which(tool) is None:
            raise MachineError(f"weft bench switch needs {tool}, which is not installed")
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        wanted = {"sizes": list(sizes), "rounds": rounds, "turn_s": turn_s, "folder": folder}
        process = subprocess.Popen(
            [
                *(*DIE_WITH_PARENT, "unshare", "--net", "--mount"),
                *python_command("weft.experiments.bench.switch_rows", json.dumps(wanted)),
            ],
            env={**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            answer, _ = process.communicate()
        except BaseException:
            process.kill()
            process.wait()
            raise
    check_not_killed("the benchmark", process.pid, process.returncode)
    if process.returncode:
        last = answer.strip().splitlines()[-1:]
        raise RunError(f"the benchmark failed{': ' if last else ''}{''.join(last)}")
    rows: dict[str, Any] = json.loads(answer)
    return summary(rows)


def summary(measured: dict[str, Any]) -> dict[str, Any]:
    """Medians of every row and the ratios between rows, of what the rows measured."""
    figures: dict[str, Any] = {
        "cores": measured["cores"],
        "load_before": measured["load_before"],
        "stolen": measured["stolen"],
        "rows": [],
        "processes": measured["processes"],
        "skipped": measured["skipped"],
    }
    for row in measured["rows"]:
        turns = row.pop("turns")
        rate = statistics.median(turn["packets_per_s"] for turn in turns)
        cpu = statistics.median(turn["cpu_ns_per_packet"] for turn in turns)
        figures["rows"].append(
            {
                **row,
                "packets_per_s": rate,
                "packets_per_s_range": [
                    min(turn["packets_per_s"] for turn in turns),
                    max(turn["packets_per_s"] for turn in turns),
                ],
                "cpu_ns_per_packet": cpu,
                "cpu_ns_per_hop": cpu / row["hops"],
                "cores_used": rate * cpu / 1e9,
                "hops_per_s": rate * row["hops"],
                "hops_per_s_per_core": row["hops"] * 1e9 / cpu,
                "lost": sum(turn["lost"] for turn in turns),
            }
        )
    figures["ratios"] = _ratios(figures["rows"])
    figures["goals"] = GOALS
    return figures


def _ratios(rows: list[dict[str, Any]]) -> dict[str, Any]:
    by_place = {(row["what"], row["traffic"], row["frame_bytes"]): row for row in rows}

    def each(what: str, to: str, traffic: str, figure: str) -> dict[str, float]:
        found = {}
        for (name, kind, size), row in by_place.items():
            other = by_place.get((to, kind, size))
            if name == what and kind == traffic and other is not None:
                found[str(size)] = row[figure] / other[figure]
        return found

    ratios: dict[str, Any] = {
        "of_ceiling": each("weft", "ceiling", "unicast", "packets_per_s"),
        "cpu_of_ceiling": each("weft", "ceiling", "unicast", "cpu_ns_per_packet"),
    }
    for row in rows:
        if row["what"] == "weft" and row["traffic"] == "patch links":
            ratios["patch_hops_per_s_per_core"] = {
                str(row["frame_bytes"]): row["hops_per_s_per_core"]
            }
    for traffic in ("unicast", "multicast to 4", "12 tables"):
        ratios[f"packets_of_bmv2, {traffic}"] = each("weft", "bmv2", traffic, "packets_per_s")
        ratios[f"cpu_of_bmv2, {traffic}"] = each("weft", "bmv2", traffic, "cpu_ns_per_packet")
    for ours, theirs in _pairs(rows):
        size = str(ours["frame_bytes"])
        ratios.setdefault("hops_of_bmv2", {})[size] = ours["hops_per_s"] / theirs["hops_per_s"]
        ratios.setdefault("cpu_per_hop_of_bmv2", {})[size] = (
            ours["cpu_ns_per_hop"] / theirs["cpu_ns_per_hop"]
        )
    return {name: found for name, found in ratios.items() if found}


def _pairs(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Four switches on patch links beside four BMv2 over veth."""
    for ours in rows:
        for theirs in rows:
            if (
                (ours["what"], theirs["what"]) == ("weft", "bmv2")
                and (ours["traffic"], theirs["traffic"]) == ("patch links", "4 in a row")
                and ours["frame_bytes"] == theirs["frame_bytes"]
            ):
                yield ours, theirs


def lines(figures: dict[str, Any]) -> list[str]:
    """The figures as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="packets through a switch")
    for name in ("switch", "traffic", "frame bytes", "packets/s", "CPU ns/packet",
                 "cores", "hops", "hops/s a core", "CPU ns/hop"):  # fmt: skip
        table.add_column(name, justify="left" if name in ("switch", "traffic") else "right")
    for row in figures["rows"]:
        table.add_row(
            row["what"],
            row["traffic"],
            str(row["frame_bytes"]),
            f"{row['packets_per_s']:,.0f}",
            f"{row['cpu_ns_per_packet']:,.0f}",
            f"{row['cores_used']:.2f}",
            str(row["hops"]),
            f"{row['hops_per_s_per_core']:,.0f}",
            f"{row['cpu_ns_per_hop']:,.0f}",
        )
    processes = Table(title="switch processes")
    for name in ("switch", "start-up s", "MB at start", "MB after traffic"):
        processes.add_column(name, justify="left" if name == "switch" else "right")
    for name, process in figures["processes"].items():
        processes.add_row(
            name,
            f"{process['start_s']:.2f}",
            f"{process['start_bytes'] / 1e6:.0f}",
            f"{process['end_bytes'] / 1e6:.0f}",
        )
    ratios = Table(title="ratios")
    for name in ("what", "frame bytes", "ratio", "goal", ""):
        ratios.add_column(name, justify="left" if name in ("what", "") else "right")
    for name, found in figures["ratios"].items():
        goal = figures["goals"].get(name.split(",")[0])
        least = not name.startswith("cpu")
        for size, ratio in found.items():
            met = "" if goal is None else "met" if (ratio >= goal) == least else "missed"
            sign = "" if goal is None else "at least " if least else "at most "
            digits = 0 if ratio > 1000 else 2 if ratio > 0.1 else 4
            shown = f"{ratio:,.{digits}f}"
            aim = "" if goal is None else f"{goal:,.0f}" if goal > 1000 else f"{goal:.2f}"
            ratios.add_row(name.replace("_", " "), size, shown, sign + aim, met)
    text = io.StringIO()
    console = Console(file=text, width=110, force_terminal=False)
    for each in (table, processes, ratios):
        console.print(each)
    found_lines = text.getvalue().splitlines()
    found_lines += [f"left out: {why}" for why in figures["skipped"]]
    found_lines.append(
        f"{figures['cores']} cores, load {figures['load_before']:.1f} before, "
        f"{figures['stolen']:.1%} of them stolen meanwhile"
    )
    return found_lines
