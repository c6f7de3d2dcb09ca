"""``weft torch run``: a program of PyTorch on all hosts of a network that is up."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from weft.agents.collectives.fixed_point import losses, saturation
from weft.agents.collectives.registry import named
from weft.base.errors import InputError, refuse
from weft.experiments.families.programs.asked import NAMES_FOR_WEFT, ProgramAsked, check_program
from weft.experiments.families.programs.fault_results import fault_results
from weft.experiments.families.programs.faults import faults_of
from weft.experiments.families.programs.gathering import Gathering
from weft.experiments.families.programs.ranks import Rank, failure, reason_of
from weft.experiments.families.programs.report import render
from weft.experiments.families.programs.results import (
    TRACE,
    TorchRank,
    TorchRun,
    rank_of,
    trace_of,
)
from weft.experiments.results.document import DOCUMENT
from weft.experiments.results.results import tier_bytes
from weft.experiments.runs.folder import REPORT, ResultsFolder
from weft.experiments.runs.operate import Observed, observe
from weft.experiments.runs.testbed import Testbed
from weft.experiments.runs.up_network import UpNetwork
from weft.experiments.runs.verdict import verdict
from weft.pytorch import timeline
from weft.topo.switch_kinds import check_kind, require
from weft.topo.worlds.registry import has_real_time


def torch_run(
    net: UpNetwork,
    script: str,
    arguments: Sequence[str] = (),
    options: ProgramAsked | None = None,
    *,
    output: TextIO | None = None,
    errors: TextIO | None = None,
    folder: ResultsFolder | None = None,
) -> TorchRun:
    """Run a program of PyTorch on hosts of a network that is up, a rank on each.

    Args:
        net: the network, of the emulated world.
        script: the path of a script, or ``-m``, with a module as the first argument.
        arguments: the program's own.
        output, errors: where its labelled lines go; None: nowhere.
        folder: where its document, the timeline and the report are written; None: nowhere.

    Raises:
        InputError: something that is asked for makes no sense.
        MachineError: torch is not installed, or the machine lacks something.
        RunError: a process of the network has ended.
    """
    options = options or ProgramAsked()
    check(net, script, arguments, options)
    words = [script, *arguments]
    testbed = Testbed(net.scenario, net.backend, net.controller, net.epochs, net.down)
    gathering = Gathering(net, words, options, output, errors)
    seen = observe(testbed, gathering)
    if seen.failure is not None:
        raise seen.failure
    run = _result(net, words, options, gathering, seen)
    if folder is not None:
        folder.put(documents_of(run, seen.reports))
    return run


def check(net: UpNetwork, script: str, arguments: Sequence[str], options: ProgramAsked) -> None:
    """Raise InputError or MachineError for what could not be run; see `torch_run`."""
    if not has_real_time(net.world):
        raise InputError(
            "torch run: programs of PyTorch are processes, and the simulated world has none; bring "
            "the network up with world='emulated'"
        )
    check_program(script, arguments, options)
    hosts = len(net.topology.hosts)
    refuse(
        options.ranks is not None and not 1 <= options.ranks <= hosts,
        f"--ranks {options.ranks}: the network has {hosts} hosts, and each runs one rank: choose 1 "
        f"to {hosts}",
    )
    faults_of(options, net.topology, options.ranks or hosts)
    if options.change_link:
        require(check_kind(net.scenario.switch), ("links that become slow",), "--change-link")


def _result(
    net: UpNetwork,
    words: Sequence[str],
    options: ProgramAsked,
    gathering: Gathering,
    seen: Observed[timeline.RankTimeline],
) -> TorchRun:
    """Return what came of a program whose ranks have ended."""
    ranks = gathering.ranks
    records = {each.rank: each for each in seen.reports}
    found = [
        rank_of(records.get(rank.rank), rank.rank, rank.host, rank.status or 0, _why(rank))
        for rank in ranks.ranks
    ]
    links = seen.links(net.topology)
    failed = ranks.first_failed
    silent = [str(rank.rank) for rank in ranks.ranks if rank.rank not in records]
    if silent:
        ranks.notes.append(
            f"rank {', '.join(silent)} ended without a record of what it did: figures of ranks "
            "are without it"
        )
    notes = sorted({note for record in records.values() for note in record.notes})
    notes += gathering.trees.notes()
    made: dict[str, set[str]] = {}
    """The names of groups by their backends."""
    for record in records.values():
        for backend, names in record.groups.items():
            made.setdefault(backend, set()).update(names)
    groups = {backend: len(names) for backend, names in sorted(made.items())}
    notes += notes_on_backends(groups, options.backend)
    notes += fixed_point_notes(found)
    faults = fault_results(
        gathering.injection.faults, gathering.injection.happened, gathering.attempts
    )
    notes += [
        f"{each.fault} did not come: the program had ended before"
        for each in faults if each.at_ns is None
    ]  # fmt: skip
    fidelity = verdict(
        net.scenario,
        seen.reports,
        seen.counts,
        gathering.evidence,
        max((rank.total_ns for rank in found), default=0) or None,
    )
    return TorchRun(
        script=words[0],
        arguments=[*words[1:]],
        backend=options.backend,
        algorithms={name: str(choice) for name, choice in gathering.choices.items()},
        network=net.topology.describe(),
        scenario=net.scenario.to_dict(),
        status=0 if failed is None else _status(failed.status or 0),
        error="" if failed is None else failure(failed, reason_of(gathering.folder, failed.rank)),
        ranks=found,
        links=links,
        tiers=tier_bytes(links),
        fidelity=fidelity if failed is None else fidelity.of_failed(),
        management_bytes=gathering.managed_bytes,
        groups_in_switches=gathering.trees.most_groups,
        groups=groups,
        restarts=gathering.restarts,
        faults=faults,
        notes=[*gathering.notes, *notes, *ranks.notes],
    )


def documents_of(
    run: TorchRun, records: Sequence[timeline.RankTimeline]
) -> Iterator[tuple[str, str]]:
    """Yield, by name, the files that a run leaves behind."""
    yield DOCUMENT, run.text()
    yield TRACE, json.dumps(trace_of(records))
    yield REPORT, render(run, records)


def _status(status: int) -> int:
    """Return an exit status as a shell has it, from one as subprocess has it."""
    return status if status >= 0 else 128 - status


def _why(rank: Rank) -> str:
    return "" if rank.status == 0 else "\n".join(rank.last_lines)


def fixed_point_notes(ranks: Sequence[TorchRank]) -> list[str]:
    """Return notes if blocks of sums lost something to the fixed point of switches, or did not fit
    into their 32 bits."""
    lost = losses(rank.statistics for rank in ranks)
    too_large = saturation(rank.statistics for rank in ranks)
    done = [each for rank in ranks for each in rank.collectives]
    names = [each.name for each in done if (kind := named(each.algorithm)) and kind.adds]
    options = {
        f"--{'reduce-scatter' if 'reduce_scatter' in name else 'allreduce'} ring" for name in names
    }
    instead = " ".join(sorted(options))
    found = [f"{lost}; with {instead} all is added in floating point"] if lost else []
    if too_large:
        found.append(f"switches add int32: {too_large}; with {instead} it wraps around")
    return found


def notes_on_backends(groups: Mapping[str, int], asked: str) -> list[str]:
    """Return what is to be said of groups that are not of the backend that was asked for.

    Args:
        groups: how many there were, by backend.
        asked: what `init_process_group` without a backend gets.
    """
    found = []
    for backend, count in groups.items():
        if backend in ("weft", asked):
            continue
        advice = f"; --as {backend} makes them Weft's" if backend in NAMES_FOR_WEFT else ""
        groups_are = "1 group of ranks is" if count == 1 else f"{count} groups of ranks are"
        found.append(
            f"{groups_are} of the backend {backend}, which the program named: what they carried "
            "went over the links as the kernel's TCP, not by Weft's collectives, and is in no "
            f"table of these{advice}"
        )
    return found
