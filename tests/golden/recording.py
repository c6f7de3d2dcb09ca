"""What came of each line of the golden set, as data that is kept beside it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import multiprocessing
import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console
from tests.golden.traces import trace_entry
from tests.support.fabric import program_names

from weft.base.errors import InputError, WeftError
from weft.controller import Plan
from weft.controller.entities import PlannedGroup, PlannedMember, PlannedMulticast
from weft.experiments.results.results import Results, Run
from weft.experiments.results.table import summary_table
from weft.experiments.runs.inputs import plan_at_start, program_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.scenario import Scenario

FOLDER = Path(__file__).parent
SIZE = "64KiB"
"""Of a run that does not say its own, in the simulated world."""

PLAIN_TERMINAL = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
LONGEST_S = 60.0
"""For a command that prints a text; it takes a moment."""

Entry = dict[str, Any]

FIGURES = ("completion_ns", "bound_ns", "goodput_bps", "tiers", "queues", "load_bin_ns")
RANK = ("rank", "host", "verified", "completion_ns", "error", "retransmitted_packets", "phases_ns",
        "statistics", "spans_ns")  # fmt: skip
LINK = ("from", "to", "tier", "tx_packets", "tx_bytes", "lost", "queue_dropped", "max_queue_bytes",
        "marked", "queue_depths", "load_bytes")  # fmt: skip
"""What is looked at of a run, its ranks and its links. Results may come to have more."""


class EndlessError(Exception):
    """A command does not end, which is nothing that could be kept of it."""


def lines_of(kind: str) -> list[str]:
    """The lines of a file of the set, named as in `ENTRIES`, comments left out."""
    lines = (FOLDER / f"{kind}.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def read(kind: str) -> dict[str, Entry]:
    """What is kept, by line."""
    document: dict[str, Entry] = json.loads((FOLDER / f"{kind}.json").read_text("utf-8"))
    return document


def write(kind: str, entries: dict[str, Entry]) -> None:
    """Keep it: an entry a line, so that a change shows which entries it is of."""
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    (FOLDER / f"{kind}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def scenario_of(line: str, **more: Any) -> Scenario:
    """The scenario of a line of ``runs.txt`` or ``plans.txt``. Raises `InputError`."""
    collective, *rest = shlex.split(line)
    options: dict[str, Any] = {"world": "simulated", "predict": False, **more}
    for name, value in itertools.zip_longest(rest[::2], rest[1::2]):
        if not name.startswith("--") or value is None:
            raise InputError(f"{line!r}: write a collective, and options as --name value")
        key = name.removeprefix("--")
        several = key in ("fault", "algorithm")
        options[key] = [*options.get(key, []), value] if several else value
    if not options.keys() & {"size", "sizes", "model", "workload"}:
        options["size"] = SIZE
    return from_options({"collective": collective, **options})


def run(line: str) -> Run:
    """Run a line in the simulated world."""
    scenario = scenario_of(line)
    (algorithm,) = scenario.algorithms
    return simulate(scenario, program_of(scenario), algorithm, 0, lambda _: None)


def run_entry(line: str) -> Entry:
    """What is kept of a run: the digest of every frame, its times, and of all else a hash."""
    came = run(line)
    document = came.to_dict()
    return {
        "digest": document["digest"],
        "verified": document["verified"],
        "error": document["error"],
        "retransmitted": sum(rank["retransmitted_packets"] for rank in document["ranks"]),
        "dropped": sum(link["dropped"] for link in document["links"]),
        **{name: document[name] for name in FIGURES},
        "accuracy": _rounded(document["accuracy"]),
        "ranks": _hash([{name: rank[name] for name in RANK} for rank in document["ranks"]]),
        "links": _hash([{name: link[name] for name in LINK} for link in document["links"]]),
        "flows": _hash(document["flows"]),
        "table": _hash(_table_of([came])),
        "plan": plan_entry(line),
    }


def _rounded(figures: dict[str, float] | None) -> dict[str, str] | None:
    """numpy sums in another order on other processors."""
    return {name: f"{value:.5g}" for name, value in figures.items()} if figures else None


def table_entry(line: str) -> Entry:
    """The terminal's table of runs by several algorithms or under several seeds."""
    scenarios = scenario_of(line).each_seed()
    runs = [
        simulate(each, program_of(each), algorithm, repetition, lambda _: None)
        for each in scenarios
        for algorithm, repetition, _ in each.runs()
    ]
    return {"table": _table_of(runs)}


def _table_of(runs: Sequence[Run]) -> list[str]:
    """Lines as they are where lines may be of any length."""
    console = Console(file=io.StringIO(), width=300, color_system=None, _environ={})
    with console.capture() as captured:
        console.print(summary_table(Results(list(runs), run_id="golden", started="")))
    return [line.rstrip() for line in captured.get().splitlines()]


def plan_entry(line: str) -> Entry:
    """What is kept of a scenario's plans: how many entities of each kind, and a hash of all."""
    scenario = scenario_of(line)
    network = scenario.network()
    entry = {}
    for algorithm in scenario.algorithms:
        plan = plan_at_start(program_names(), scenario, network, algorithm=algorithm)
        texts = {switch: sorted(map(str, held)) for switch, held in plan.entities.items()}
        entry[algorithm] = {"entities": _counts(plan), "all": _hash(texts)}
    return entry


_SORTS = {PlannedMember: "Member", PlannedGroup: "Group", PlannedMulticast: "MulticastGroup"}
"""What entities without a table are kept as."""


def _counts(plan: Plan) -> dict[str, int]:
    names: Counter[str] = Counter()
    for held in plan.entities.values():
        names.update(str(getattr(entity, "table", _SORTS.get(type(entity)))) for entity in held)
    return dict(sorted(names.items()))


def _hash(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def output_entry(line: str) -> Entry:
    """What ``weft`` prints for a line that is in order; in this process. ``FOLDER`` is an empty
    one."""
    import weft.tools.commands  # noqa: F401, what developers have of commands
    from weft.cli.command_line import app

    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        arguments = [each.replace("FOLDER", f"{folder}/out.svg") for each in shlex.split(line)]
        with mock.patch.dict(os.environ, PLAIN_TERMINAL), contextlib.redirect_stdout(printed):
            app(arguments, prog_name="weft", standalone_mode=False)
        text = printed.getvalue().replace(folder, "FOLDER")
        drawn = [hashlib.sha256(each.read_bytes()).hexdigest() for each in Path(folder).iterdir()]
    return {"output": [each.rstrip() for each in text.splitlines()], "files": drawn}


def text_entry(line: str) -> Entry:
    """What ``weft`` prints for a line, and its status; called in a folder that is empty.

    In a forked process, which has imported the command line already; 80 columns wide. Raises
    `EndlessError` if it does not end.
    """
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("fork").Process(
            target=_command, args=(shlex.split(line), Path(folder))
        )
        process.start()
        try:
            process.join(LONGEST_S)
            if process.is_alive():
                raise EndlessError(f"'weft {line}' has not ended after {LONGEST_S:g} s")
        finally:
            process.kill()
            process.join()
        told = {name: Path(folder, name).read_text("utf-8") for name in ("output", "errors")}
        told = {name: text.replace(folder, "FOLDER") for name, text in told.items()}
        return {"status": process.exitcode, **told}


def _command(arguments: Sequence[str], folder: Path) -> None:
    import weft.tools.commands  # noqa: F401, what developers have of commands
    from weft.cli.command_line import main
    from weft.topo.worlds.emulated.testbeds import find_testbed

    find_testbed.__defaults__ = (None, folder / "runs")  # not those that others have up just now
    os.environ.update(PLAIN_TERMINAL)
    for name, number in (("output", 1), ("errors", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    (folder / "empty").mkdir()
    os.chdir(folder / "empty")
    sys.argv[:] = ["weft", *arguments]
    main()


ENTRIES: dict[str, Callable[[str], Entry]] = {
    "runs": run_entry,
    "tables": table_entry,
    "plans": plan_entry,
    "traces": trace_entry,
    "outputs": output_entry,
    "helps": text_entry,
    "errors": text_entry,
}
"""The kinds of lines, and how their entries are made."""


def entry_of(kind: str, line: str) -> Entry:
    """A line's entry, as JSON has it; that of a line that makes no sense is its error."""
    try:
        entry: Entry = json.loads(json.dumps(ENTRIES[kind](line)))
    except WeftError as error:
        return {"refused": str(error)}
    return entry


def all_entries(kind: str) -> Iterator[tuple[str, Entry]]:
    """(line, its entry now), one after the other."""
    for line in lines_of(kind):
        yield line, entry_of(kind, line)
