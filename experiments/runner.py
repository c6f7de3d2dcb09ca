"""Run a scenario in its world, and write down what came of it."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import secrets
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.progress import Progress
from experiments.report import write_report
from experiments.results import Results
from experiments.scenario import Scenario
from experiments.simulation import simulate
from switch.compiler import compile_cached
from switch.errors import InputError
from switch.program_files import fabric_program


@dataclass(frozen=True)
class Outcome:
    """What `run_to_folder` made."""

    results: Results
    folder: Path
    report: Path
    captures: Path | None


def run(scenario: Scenario, progress: Progress | None = None) -> Results:
    """Run every algorithm of a scenario, each as often as it says; write no files.

    Raises:
        InputError, MachineError: before anything was brought up.
        RunError: the world could not be brought up, or broke.
    """
    if scenario.pcap:
        raise InputError("captures need a folder to be written to: use run_to_folder")
    results = _new_results(scenario)
    _run(scenario, results, progress or Progress.silent(), None)
    return results


def run_to_folder(
    scenario: Scenario,
    *,
    progress: Progress,
    out: Path | None = None,
    name: str | None = None,
) -> Outcome:
    """Run a scenario and write ``results.json``, ``report.html`` and captures, if asked for.

    Args:
        out: results folder; by default ``results/<name>-<run id>`` in the current folder.
        name: of the results folder; by default the collective.

    Raises: as `run` does, and InputError for a folder that cannot be made.
    """
    if scenario.world == "emulated":
        from experiments.emulation import check

        check(scenario)  # before a folder is made
    results = _new_results(scenario)
    folder = _make_folder(
        out or Path("results") / f"{name or scenario.collective}-{results.run_id}"
    )
    captures = folder / "pcap" if scenario.pcap else None
    _run(scenario, results, progress, captures)
    results.write(folder)
    report = write_report(results.to_dict(), folder / "report.html")
    _give_to_invoker(folder)
    return Outcome(results, folder, report, captures)


def _new_results(scenario: Scenario) -> Results:
    return Results(
        runs=[],
        run_id=secrets.token_hex(3),
        started=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=_environment(scenario),
    )


def _run(scenario: Scenario, results: Results, progress: Progress, captures: Path | None) -> None:
    started = time.monotonic()
    with progress.stage("compile", "Compile the P4 program"):
        program = compile_cached(fabric_program())
    if scenario.world == "simulated":
        for algorithm, repetition, label in scenario.operations():
            with progress.stage(f"{algorithm}_{repetition}", label) as advance:
                results.runs.append(simulate(scenario, program, algorithm, repetition, advance))
    else:
        from experiments.emulation import emulate
        from topo.runs import Run

        record = Run.create()
        try:
            results.run_id = record.id
            emulate(scenario, program, record, results, progress, captures)
        finally:
            record.remove()
    results.duration_s = time.monotonic() - started
    results.timings_s = dict(progress.timings_s)


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"results folder {str(folder)!r} cannot be made: {error.strerror}; name another with "
            "--out"
        ) from None
    return folder.resolve()


def _give_to_invoker(folder: Path) -> None:
    """Under sudo, results belong to whoever called it."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() != 0 or not user or not group:
        return
    for path in [folder.parent, folder, *folder.rglob("*")]:
        if path.stat().st_uid == 0:
            os.chown(path, int(user), int(group))


def _environment(scenario: Scenario) -> dict[str, Any]:
    """Versions and the machine, for whoever reads the results later."""
    packages = {}
    for package in ("weft", "numpy", "numba", "grpcio", "mininet"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[package] = metadata.version(package)
    return {
        "python": platform.python_version(),
        "packages": packages,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "switch": scenario.switch,
    }
