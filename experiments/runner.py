"""Run a scenario in its world, and write down what came of it."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.capacity import check_capacity
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
    _run(scenario, results, progress or Progress.silent(), None, lambda: None)
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

    A run that breaks off is in the results with its error, and ends the scenario.

    Raises: as `run` does, and InputError for a folder that cannot be written.
    """
    results = _new_results(scenario)
    folder = _Folder(out or Path("results") / f"{name or scenario.collective}-{results.run_id}")
    captures = folder.path / "pcap" if scenario.pcap else None
    try:
        _run(scenario, results, progress, captures, folder.make)
        results.write(folder.path)
        report = write_report(results.to_dict(), folder.path / "report.html")
    finally:
        folder.close()
    return Outcome(results, folder.path, report, captures)


class _Folder:
    """A results folder. What was made of it belongs, under sudo, to whoever called that."""

    FILES = ("results.json", "report.html", "pcap")

    def __init__(self, path: Path) -> None:
        if str(path) in ("", "."):
            raise InputError("the results folder has no name: name one with --out DIR")
        self.path = path.absolute()
        self._made: list[Path] = []

    def make(self) -> None:
        """Make the folder, or clear an older run's files from it; see that it can be written to."""
        try:
            for folder in reversed([self.path, *self.path.parents]):
                if not folder.exists():
                    folder.mkdir()
                    self._made.append(folder)
            with tempfile.TemporaryFile(dir=self.path):
                pass
            for name in self.FILES:
                old = self.path / name
                if old.is_dir() and not old.is_symlink():
                    for capture in old.glob("*.pcap"):
                        capture.unlink()
                else:
                    old.unlink(missing_ok=True)
        except OSError as error:
            self.close()
            raise InputError(
                f"results folder {str(self.path)!r} cannot be written: {error.strerror}; name "
                "another with --out"
            ) from None

    def close(self) -> None:
        """Remove the folders that were made and stayed empty; give the rest to the invoker."""
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
        if os.geteuid() != 0 or not user or not group:
            return
        ours = [self.path / name for name in self.FILES]
        for path in [*self._made, *ours, *ours[-1].glob("*.pcap")]:
            with contextlib.suppress(OSError):
                os.lchown(path, int(user), int(group))


def _new_results(scenario: Scenario) -> Results:
    return Results(
        runs=[],
        run_id=secrets.token_hex(3),
        started=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=_environment(scenario),
    )


def _run(
    scenario: Scenario,
    results: Results,
    progress: Progress,
    captures: Path | None,
    begin: Callable[[], None],
) -> None:
    """Check, compile, `begin`, run. What is wrong with a scenario is said before `begin`."""
    started = time.monotonic()
    check_capacity(scenario)
    if scenario.world == "emulated":
        from experiments.emulation import check

        check(scenario)
    with progress.stage("compile", "Compile the P4 program"):
        program = compile_cached(fabric_program())
    begin()
    if scenario.world == "simulated":
        for algorithm, repetition, label in scenario.operations():
            with progress.stage(f"{algorithm}_{repetition}", label) as advance:
                results.runs.append(simulate(scenario, program, algorithm, repetition, advance))
    else:
        from experiments.emulation import emulate
        from topo.runs import Run
        from topo.signals import signals_held

        record = None
        try:
            with signals_held():
                record = Run.create()
            emulate(scenario, program, record, results, progress, captures)
        finally:
            if record is not None:
                record.remove()
    results.duration_s = time.monotonic() - started
    results.timings_s = dict(progress.timings_s)


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
