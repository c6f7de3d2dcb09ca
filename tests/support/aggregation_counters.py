"""What the switches count of the jobs that they add for, read from the fabric's program."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import sub

from weft.controller import Controller
from weft.controller.counters import Cell
from weft.controller.features.aggregation import trees_of


@dataclass(frozen=True)
class AggregationCounters:
    """Packets of one job at one switch, since the program was loaded."""

    contributions: int
    """Added to a sum."""
    results: int
    """Sums made (at the root) or passed on downwards."""
    resent_partials: int
    """Stored partial sums sent to the parent once more."""
    resent_results: int
    """Stored results sent to one child once more."""
    duplicates: int
    """Dropped: had been added before."""
    late: int
    """Dropped: of a round whose row had gone to a newer one."""
    other_epoch: int
    """Dropped: of another job that had the address."""
    malformed: int
    """Dropped: wrong length, structure or ICRC."""
    unexpected: int
    """Dropped: from no child, or a result that nothing waited for."""
    saturated: int
    """Additions in which a sum did not fit into 32 bits."""

    def __sub__(self, earlier: AggregationCounters) -> AggregationCounters:
        return AggregationCounters(*map(sub, vars(self).values(), vars(earlier).values()))


def job_counters(controller: Controller) -> dict[tuple[str, str], AggregationCounters]:
    """Return what every switch counted of each job of the plan that it holds, by (address,
    switch)."""
    counters = [
        controller.names.name(f"aggregation.{each.name}") for each in fields(AggregationCounters)
    ]
    cells: dict[str, list[Cell]] = {}
    for tree in trees_of(controller.plan):
        for switch in tree.nodes:
            cells.setdefault(switch, []).extend((each, tree.job.number) for each in counters)
    counted = controller.read_cells(cells)
    return {
        (tree.job.address, switch): AggregationCounters(
            *(counted[switch][each, tree.job.number][0] for each in counters)
        )
        for tree in trees_of(controller.plan)
        for switch in tree.nodes
    }
