"""Notes on runs: what whoever reads their figures ought to know of them."""

from collections.abc import Sequence

from weft.agents.collectives.fixed_point import losses, saturation
from weft.agents.congestion import reacts_to_marks
from weft.base.units import format_size
from weft.experiments.paths.registry import scheme_of
from weft.experiments.results.link_summary import MOST_ROWS, has_few_rows
from weft.experiments.results.results import Run
from weft.experiments.runs.capacity import carries_bytes
from weft.experiments.scenario.longest_path import Marking
from weft.experiments.scenario.sweep import Point
from weft.experiments.theory.lanes import placed_steps
from weft.topo.worlds.registry import WORLDS


def notes_on(runs: Sequence[Run], points: Sequence[Point]) -> list[str]:
    """Return the notes on the runs of all points."""
    return [
        *_saturated(runs),
        *_fixed_point(runs),
        *_unassigned(points),
        *_marking(points),
        *_of_workloads(points),
        *_bare(points),
        *_summarised(points),
        *_whole(points),
    ]


def _saturated(runs: Sequence[Run]) -> list[str]:
    """Return a note on runs whose switches met sums that do not fit into 32 bits."""
    return [
        f"{run.algorithm}: {said}"
        for run in runs
        if (said := saturation(rank.statistics for rank in run.ranks))
    ]


def _fixed_point(runs: Sequence[Run]) -> list[str]:
    """Return a note for each algorithm whose blocks lost something to the fixed point of switches:
    of the rank and the run that lost most."""
    found = []
    for algorithm in dict.fromkeys(run.algorithm for run in runs):
        ranks = [rank for run in runs if run.algorithm == algorithm for rank in run.ranks]
        lost = losses(rank.statistics for rank in ranks)
        if lost:
            instead = "--way direct" if "/" in algorithm else "--algorithm ring"
            found.append(f"{algorithm}: {lost}; with {instead} all is added in floating point")
    return found


def _marking(points: Sequence[Point]) -> list[str]:
    """Say from which length of a queue on switches marked, and why, if that was chosen for a
    scenario."""
    scenarios = [each.scenario for each in points if reacts_to_marks(each.scenario.congestion)]
    chosen = [Marking.of(scenario.network(), scenario.mtu) for scenario in scenarios]
    said = (
        f"switches mark from {marking.threshold_packets} packets on: {marking}"
        for scenario, marking in zip(scenarios, chosen, strict=True)
        if scenario.ecn_threshold_packets == marking.threshold_packets
    )
    return [*dict.fromkeys(said)]


def _of_workloads(points: Sequence[Point]) -> list[str]:
    """Return notes on the files of workloads."""
    return [
        *dict.fromkeys(
            note
            for scenario in (point.scenario for point in points)
            for algorithm in scenario.algorithms
            for note in scenario.family.notes(scenario, algorithm, scenario.ranks)
        )
    ]


def _bare(points: Sequence[Point]) -> list[str]:
    """Say that data travelled without their bytes, where nobody has asked for that."""
    chosen = (each.scenario for each in points if each.scenario.payload == "auto")
    refused = [each for each in chosen if not carries_bytes(each)]
    if not refused:
        return []
    most = max(each.family.check_memory(each, None) for each in refused)
    return [
        f"payload none: data of {format_size(most)} would take more than a quarter of memory, so "
        "that their lengths and places travel without their bytes; results are verified by these, "
        "and the digest is of headers (--payload all where all bytes are to travel)"
    ]


def _summarised(points: Sequence[Point]) -> list[str]:
    """Say that results have few rows of links, where nobody has asked for that."""
    chosen = (each.scenario for each in points if each.scenario.link_results == "auto")
    if not any(map(has_few_rows, chosen)):
        return []
    return [
        f"link results summary: all links would have more than {MOST_ROWS:,} rows, so that results "
        "have of each kind the fullest direction, and the others together (--link-results all for "
        "a row each)"
    ]


def _whole(points: Sequence[Point]) -> list[str]:
    """Say where one core drove a network of which several were to drive parts."""
    scenarios = [each.scenario for each in points if each.scenario.cores > 1]
    kept = (each for each in scenarios if WORLDS[each.world].cores(each, each.network()) == 1)
    said = (
        f"cores {each.cores}: links between parts of the network have no delay (--delay), so that "
        "no part could go ahead of the others; one core drove it"
        for each in kept
    )
    return [*dict.fromkeys(said)]


def _unassigned(points: Sequence[Point]) -> list[str]:
    """Return a note on collectives whose flows `paths` cuts without assigning any."""
    schemes = [(point.scenario, scheme_of(point.scenario.paths)) for point in points]
    found = dict.fromkeys(
        (scenario.paths, algorithm)
        for scenario, scheme in schemes
        for algorithm in scenario.algorithms
        if (scheme.assigned or scheme.lanes > 1) and not placed_steps(scenario, algorithm)
    )
    return [
        f"{algorithm}: paths {paths!r} assigns nothing here, since its data are no flows between "
        "two ranks; what it sends goes by trees and ECMP"
        for paths, algorithm in found
    ]
