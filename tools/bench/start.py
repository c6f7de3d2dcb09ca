"""``weft bench start``: how long it takes until something happens: at the command line, in a demo
whose code is in the cache, at a switch that gets a program, in a network that comes up.

Each is a median of some attempts, beside an ``import numba`` of the same attempts, since machines
differ; a first packet also beside BMv2's, where that is installed.
"""

import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from types import MappingProxyType
from typing import Any

import msgspec

from weft.base.children import DIE_WITH_PARENT, last_words, python_command, python_path, run_tool
from weft.base.errors import RunError
from weft.tools.bench import bring_up, compiling
from weft.tools.bench.benchmarks import table_lines
from weft.tools.bench.timing import BENCHMARK_LIMIT_S

ATTEMPTS = 5
NUMBA = "import numba"
COMMANDS = {
    NUMBA: [sys.executable, "-c", NUMBA],
    "import weft": [sys.executable, "-c", "import weft"],
    "weft --version": python_command("weft", "--version"),
    "weft --help": python_command("weft", "--help"),
    "weft run --help": python_command("weft", "run", "--help"),
}
PARTS = (
    ("until it begins", "", "begin"),
    ("network up", "begin", "end bring_up"),
    ("runs", "end bring_up", "end multicast_0"),
    ("taken down", "end multicast_0", "end take_down"),
    ("results and report", "end take_down", "results"),
)
"""The parts of a demo: from which event to which; the first event is its call."""
PACKETS = {
    "cold": "first packet, a new program",
    "made": "first packet, once its machine code is made",
    "warm": "first packet, a program whose code is kept",
    "bmv2": "first packet, BMv2",
}
COLUMNS = {
    "what": "{what!s}",
    "median s": "{median_s:.3f}",
    "least": "{least_s:.3f}",
    "most": "{most_s:.3f}",
    "CPU s": "{cpu!s}",
    "of import numba": "{of_numba:.2f}",
    "of BMv2": "{of_bmv2!s}",
}

Row = dict[str, list[float]]


def measure(attempts: int = ATTEMPTS) -> dict[str, Any]:
    """Return for each thing its seconds (``s``) and, where it is known, its processor time
    (``cpu_s``) in each attempt; and what was left out, and why."""
    rows: dict[str, Row] = {}
    skipped = []
    for attempt in range(attempts + 1):
        taken = {what: _run(command) for what, command in COMMANDS.items()}
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
            taken |= compiling.measure(Path(folder), _run)
        if os.geteuid() == 0:
            taken |= _demo()
        if attempt:  # the first makes what is kept for others
            for what, each in taken.items():
                row = rows.setdefault(what, {})
                for name, value in each.items():
                    row.setdefault(name, []).append(value)
    if os.geteuid() == 0:
        rows |= _first_packets(attempts)
        if PACKETS["bmv2"] not in rows:
            skipped.append("BMv2: neither simple_switch_grpc nor simple_switch is on PATH")
        rows["16 hosts and 8 switches up"] = {"s": bring_up.measure(attempts)["ready_s"]}
    else:
        skipped.append("all with switches: it needs root, use sudo")
    return {"attempts": attempts, "rows": rows, "skipped": skipped}


def _environment(more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the environment of what is measured: bytecode is kept, as it is elsewhere."""
    known = {**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH")), **more}
    known.pop("PYTHONDONTWRITEBYTECODE", None)
    return known


def _run(
    command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> dict[str, float]:
    """Return how long a command takes, and what processor time. Raises RunError if it fails."""
    before, started = getrusage(RUSAGE_CHILDREN), time.monotonic()
    done = run_tool(command, environment=_environment(environment), timeout_s=BENCHMARK_LIMIT_S)
    took_s, after = time.monotonic() - started, getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        raise RunError(f"{' '.join(command[-4:])!r} failed: {last_words(done)}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"s": took_s, "cpu_s": cpu_s}


def _demo() -> dict[str, dict[str, float]]:
    """Run a demo, and return what it took and its parts."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        events = Path(folder, "events")
        times = {"": datetime.datetime.now(datetime.timezone.utc)}
        results = str(Path(folder, "out"))
        whole = _run(python_command("weft", "demo", "--out", results, "--events", str(events)))
        for line in events.read_text("utf-8").splitlines():
            event = json.loads(line)
            time_of = datetime.datetime.fromisoformat(event["time"])
            times.setdefault(event["event"], time_of)
            times.setdefault(f"{event['event']} {event.get('stage')}", time_of)
    parts = {
        f"demo: {name}": {"s": (times[last] - times[first]).total_seconds()}
        for name, first, last in PARTS
    }
    return {"demo": whole, **parts}


def _first_packets(attempts: int) -> dict[str, Row]:
    """Return the rows of first packets."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        wanted = json.dumps({"folder": folder, "attempts": attempts})
        done = run_tool(
            [*DIE_WITH_PARENT, "unshare", "--net", "--mount",
             *python_command("weft.tools.bench.first_packets", wanted)],
            environment=_environment(),
            timeout_s=BENCHMARK_LIMIT_S,
            what="the benchmark",
        )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1:] or [last_words(done)]
    if done.returncode:
        raise RunError(f"the benchmark failed: {last[0]}")
    found = msgspec.json.decode(last[0], type=dict[str, list[dict[str, float]]])
    return {
        PACKETS[way]: {name: [each[name] for each in came] for name in ("s", "cpu_s")}
        for way, came in found.items()
    }


def lines(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as a table."""
    title = f"medians of {figures['attempts']}"
    return [
        *table_lines(title, COLUMNS, _table_rows(figures["rows"])),
        *(f"left out: {why}" for why in figures["skipped"]),
    ]


def _table_rows(rows: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    numba_s = statistics.median(rows[NUMBA]["s"])
    bmv2 = rows.get(PACKETS["bmv2"])
    for what, row in rows.items():
        median_s = statistics.median(row["s"])
        beside = bmv2 is not None and what in PACKETS.values()
        yield {
            "what": what,
            "median_s": median_s,
            "least_s": min(row["s"]),
            "most_s": max(row["s"]),
            "cpu": f"{statistics.median(row['cpu_s']):.3f}" if "cpu_s" in row else "",
            "of_numba": median_s / numba_s,
            "of_bmv2": f"{median_s / statistics.median(bmv2['s']):.1f}" if beside and bmv2 else "",
        }
