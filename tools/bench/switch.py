"""``weft bench switch``: packets a second through the switch, beside the best that could be had.

In a network namespace of its own, over veth pairs, it measures: a bare loop of recvmmsg and
sendmmsg (the ceiling), the built-in switch with fabric.p4 and with a program of twelve tables, four
switches joined by patch links, and BMv2 with the same JSON if it is installed. One generator sends
to all of them as much as comes through: it keeps a window of frames under way. Nobody reads what
comes out; the kernel counts it. Rows take turns, and medians are reported; processor time is that
of the switch's process.
"""

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from weft.base.children import DIE_WITH_PARENT, last_words, python_command, python_path, run_tool
from weft.base.errors import MachineError, RunError, refuse
from weft.tools.bench.benchmarks import table_lines
from weft.tools.bench.timing import BENCHMARK_LIMIT_S

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
RATIOS = (
    ("of_ceiling", "packets_per_s", "unicast", "ceiling", "unicast"),
    ("cpu_of_ceiling", "cpu_ns_per_packet", "unicast", "ceiling", "unicast"),
    ("patch_hops_per_s_per_core", "hops_per_s_per_core", "patch links"),
    *(
        (f"{name}_of_bmv2, {traffic}", figure, traffic, "bmv2", traffic)
        for traffic in ("unicast", "multicast to 4", "12 tables")
        for name, figure in (("packets", "packets_per_s"), ("cpu", "cpu_ns_per_packet"))
    ),
    ("hops_of_bmv2", "hops_per_s", "patch links", "bmv2", "4 in a row"),
    ("cpu_per_hop_of_bmv2", "cpu_ns_per_hop", "patch links", "bmv2", "4 in a row"),
)
"""Each ratio has a name, the figure that is compared, and the traffic of our switch; if it is a
ratio at all, the other switch and its traffic follow."""
ROW_COLUMNS = {
    "switch": "{what!s}",
    "traffic": "{traffic!s}",
    "frame bytes": "{frame_bytes}",
    "packets/s": "{packets_per_s:,.0f}",
    "CPU ns/packet": "{cpu_ns_per_packet:,.0f}",
    "cores": "{cores_used:.2f}",
    "hops": "{hops}",
    "hops/s a core": "{hops_per_s_per_core:,.0f}",
    "CPU ns/hop": "{cpu_ns_per_hop:,.0f}",
}
PROCESS_COLUMNS = {
    "switch": "{name!s}",
    "start-up s": "{start_s:.2f}",
    "MB at start": "{start_mb:.0f}",
    "MB after traffic": "{end_mb:.0f}",
}
RATIO_COLUMNS = {
    "what": "{what!s}",
    "frame bytes": "{size}",
    "ratio": "{ratio}",
    "goal": "{goal}",
    "": "{met!s}",
}


def measure(
    sizes: Collection[int] = SIZES, rounds: int = ROUNDS, turn_s: float = TURN_S
) -> dict[str, Any]:
    """Return the figures of all rows and their ratios. Raises MachineError without root, ip or
    setpriv."""
    refuse(
        os.geteuid() != 0,
        "weft bench switch makes veth pairs, which needs root: use sudo",
        MachineError,
    )
    for tool in ("ip", "mount", "setpriv", "unshare"):
        refuse(
            shutil.which(tool) is None,
            f"weft bench switch needs {tool}, which is not installed",
            MachineError,
        )
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        wanted = {"sizes": list(sizes), "rounds": rounds, "turn_s": turn_s, "folder": folder}
        done = run_tool(
            [
                *(*DIE_WITH_PARENT, "unshare", "--net", "--mount"),
                *python_command("weft.tools.bench.switch_rows", json.dumps(wanted)),
            ],
            timeout_s=BENCHMARK_LIMIT_S,
            environment={**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))},
            what="the benchmark",
        )
    last = done.stdout.strip().splitlines()[-1:] or [last_words(done)]
    refuse(done.returncode, f"the benchmark failed: {last[0]}", RunError)
    return summary(msgspec.json.decode(done.stdout, type=dict[str, Any]))


def summary(measured: dict[str, Any]) -> dict[str, Any]:
    """Return the medians of every row and the ratios between rows, from what the rows measured."""
    rows = []
    for row in measured["rows"]:
        turns = row.pop("turns")
        rates = [turn["packets_per_s"] for turn in turns]
        rate = statistics.median(rates)
        cpu = statistics.median(turn["cpu_ns_per_packet"] for turn in turns)
        rows.append(
            {
                **row,
                "packets_per_s": rate,
                "packets_per_s_range": [min(rates), max(rates)],
                "cpu_ns_per_packet": cpu,
                "cpu_ns_per_hop": cpu / row["hops"],
                "cores_used": rate * cpu / 1e9,
                "hops_per_s": rate * row["hops"],
                "hops_per_s_per_core": row["hops"] * 1e9 / cpu,
                "lost": sum(turn["lost"] for turn in turns),
            }
        )
    return {
        **{name: measured[name] for name in ("cores", "load_before", "stolen")},
        "rows": rows,
        **{name: measured[name] for name in ("processes", "skipped")},
        "ratios": _ratios(rows),
        "goals": GOALS,
    }


def _ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the ratios by the names in `RATIOS` and by frame size; a ratio whose rows are missing
    is left out."""
    by_place = {(row["what"], row["traffic"], row["frame_bytes"]): row for row in rows}
    ratios: dict[str, dict[str, float]] = {}
    for name, figure, traffic, *to in RATIOS:
        for (what, kind, size), row in by_place.items():
            other = by_place.get((*to, size)) if to else {figure: 1.0}
            if (what, kind) == ("weft", traffic) and other is not None:
                ratios.setdefault(name, {})[str(size)] = row[figure] / other[figure]
    return ratios


def lines(figures: dict[str, Any]) -> list[str]:
    """Return the figures as tables."""
    return [
        *table_lines("packets through a switch", ROW_COLUMNS, figures["rows"]),
        *table_lines("switch processes", PROCESS_COLUMNS, _named(figures["processes"])),
        *table_lines("ratios", RATIO_COLUMNS, _ratio_rows(figures)),
        *(f"left out: {why}" for why in figures["skipped"]),
        f"{figures['cores']} cores, load {figures['load_before']:.1f} before, "
        f"{figures['stolen']:.1%} of them stolen meanwhile",
    ]


def _named(processes: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    for name, process in processes.items():
        start_mb, end_mb = process["start_bytes"] / 1e6, process["end_bytes"] / 1e6
        yield {"name": name, "start_s": process["start_s"], "start_mb": start_mb, "end_mb": end_mb}


def _ratio_rows(figures: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Return each ratio, with its goal and whether it is met where there is one."""
    for name, found in figures["ratios"].items():
        goal = figures["goals"].get(name.split(",")[0])
        least = not name.startswith("cpu")
        for size, ratio in found.items():
            aim = met = ""
            if goal is not None:
                shown = f"{goal:,.0f}" if goal > 1000 else f"{goal:.2f}"
                aim = f"{'at least' if least else 'at most'} {shown}"
                met = "met" if (ratio >= goal) == least else "missed"
            digits = 0 if ratio > 1000 else 2 if ratio > 0.1 else 4
            yield {
                "what": name.replace("_", " "),
                "size": size,
                "ratio": f"{ratio:,.{digits}f}",
                "goal": aim,
                "met": met,
            }
