"""Run a scenario: bring its world up, join it with the controller, run, measure, write it down."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from agents.drivers.launcher import Launcher
from controller import Controller, Plan, fabric_plan
from experiments.operation import Testbed, operate
from experiments.progress import Progress
from experiments.report import write_report
from experiments.results import Results
from experiments.scenario import Scenario
from switch.compiler import compile_cached
from switch.errors import InputError
from switch.program_files import fabric_program
from topo.clos import Topology
from topo.emulated import EmulatedWorld
from topo.runs import Run as RunRecord

MAX_GROUPS = 16
"""Multicast groups of a run. Linux lets a socket join 20 (net.ipv4.igmp_max_memberships)."""


@dataclass(frozen=True)
class Outcome:
    """What `run` made."""

    results: Results
    folder: Path
    report: Path
    captures: Path | None


def run(
    scenario: Scenario,
    *,
    progress: Progress,
    out: Path | None = None,
    name: str | None = None,
) -> Outcome:
    """Run every algorithm of a scenario, each as often as it says, and write results and report.

    The world is brought up once; every run has fresh rank processes on it.

    Args:
        out: results folder; by default ``results/<name>-<run id>`` in the current folder.
        name: of the results folder; by default the collective.

    Raises:
        InputError, MachineError: before anything was brought up.
        RunError: the world could not be brought up, or broke.
    """
    started = time.monotonic()
    network = scenario.network()
    # What the machine lacks is said before a folder is made.
    EmulatedWorld(network, scenario.switch, path_mtu=scenario.mtu)
    record = RunRecord.create()
    try:
        folder = _make_folder(out or Path("results") / f"{name or scenario.collective}-{record.id}")
        captures = folder / "pcap" if scenario.pcap else None
        results = Results(
            runs=[],
            run_id=record.id,
            started=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            environment=_environment(scenario),
        )
        if scenario.switch == "bmv2" and (scenario.loss or scenario.faults):
            results.notes.append("random() on BMv2 has no seed: this run's losses do not repeat")
        world = EmulatedWorld(
            network,
            scenario.switch,
            run=record,
            path_mtu=scenario.mtu,
            seed=scenario.seed,
            pcap_dir=captures,
        )
        with testbed_of(world, scenario, progress) as testbed:
            _run_all(testbed, results, progress)
    finally:
        record.remove()
    lost = {capture.end: capture.lost for capture in world.captured if capture.lost}
    for end, count in lost.items():
        results.notes.append(f"the capture at {end} misses {count} packets")
    results.duration_s = time.monotonic() - started
    results.timings_s = dict(progress.timings_s)
    results.write(folder)
    report = write_report(results.to_dict(), folder / "report.html")
    _give_to_invoker(folder)
    return Outcome(results, folder, report, captures)


@contextlib.contextmanager
def testbed_of(world: EmulatedWorld, scenario: Scenario, progress: Progress) -> Iterator[Testbed]:
    """A world that is up, its switches programmed, and a launcher that is ready to fork ranks."""
    stack = contextlib.ExitStack()
    try:
        record = world.record
        launcher = stack.enter_context(Launcher(record.folder, record.environment()))
        with progress.stage("compile", "Compile the P4 program"):
            program = compile_cached(fabric_program())
        with progress.stage("bring_up", f"Bring up {world.topology.describe()}"):
            stack.enter_context(world)
            controller = stack.enter_context(
                Controller(world.topology, world.switch_addresses, program)
            )
            plan = _plan(scenario, world.topology)
            controller.apply(plan)
            launcher.wait_warm()
        groups = [group.address for group in plan.groups]
        yield Testbed(scenario, world, controller, launcher, groups)
    finally:
        with progress.stage("take_down", "Take down"):
            stack.close()


def _run_all(testbed: Testbed, results: Results, progress: Progress) -> None:
    scenario = testbed.scenario
    for algorithm in scenario.algorithms:
        for repetition in range(scenario.repeat):
            label = f"{scenario.collective.capitalize()} by {algorithm}"
            if scenario.repeat > 1:
                label += f", {repetition + 1} of {scenario.repeat}"
            with progress.stage(f"{algorithm}_{repetition}", label) as advance:
                results.runs.append(operate(testbed, algorithm, repetition, advance))


def _plan(scenario: Scenario, network: Topology) -> Plan:
    """All the entries of a scenario, with a multicast group of all hosts for each top switch."""
    everybody = [host.name for host in network.hosts]
    top = max(switch.level for switch in network.switches)
    roots = sum(switch.level == top for switch in network.switches)
    return fabric_plan(
        network,
        seed=scenario.seed,
        loss=scenario.loss,
        faults=scenario.faults,
        groups=[everybody] * min(roots, len(everybody), MAX_GROUPS),
    )


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
