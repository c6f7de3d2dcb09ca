"""The report's figures of single runs by kind of link: loads against each other, queues."""

from __future__ import annotations

from collections.abc import Sequence

from weft.base.units import format_size
from weft.experiments.plots.palette import algorithm_class
from weft.experiments.report.markup import Markup, element, heading, number, table
from weft.experiments.report.overview import point_cells
from weft.experiments.results.results import LinkResult
from weft.experiments.results.summary import TIERS, Summary, three_digits
from weft.experiments.results.telemetry import load_spread


def by_kind(summaries: Sequence[Summary]) -> Markup:
    """A row an algorithm and kind of link: how evenly they were loaded, how full queues were."""
    headings: list[object] = ["algorithm", "links", heading("busiest"), heading("mean")]
    headings += [heading("busiest / mean", "of the bytes that each direction carried")]
    headings += [
        heading(f"queue {name}", "bytes that a packet found waiting when it came to the queue")
        for name in ("p50", "p99", "max")
    ]
    headings += [heading("marked", "by switches, for a long queue (ECN)")]
    headings += [heading("no room", "dropped by the sender's queue for want of room")]
    rows = []
    for each in summaries:
        for tier, name in TIERS.items():
            links = [link for link in each.shown.links if link.tier == tier]
            if load_spread(links)[1] > 0:
                rows.append(_row(each, name, links, each.shown.queues.get(tier)))
    return element(
        "section",
        element("h2", "Loads and queues by kind of link"),
        table(headings, rows, "sortable"),
        element(
            "p",
            "A queue's figures are of the packets that came to it: how many bytes waited before "
            "each. Half of them found p50 or less, 99 of 100 p99 or less.",
            class_="caption",
        ),
        id="kinds",
    )


def paths(summaries: Sequence[Summary], swept: Sequence[str] = ()) -> Markup | None:
    """A row a point and algorithm: how its flows shared the fabric, and what that cost; None where
    nobody asked for more than ECMP."""
    shown = [each for each in summaries if each.chose_paths]
    if not shown:
        return None
    headings: list[object] = [heading(name.replace("-", " ")) for name in swept]
    headings += ["algorithm"] if "paths" in swept else ["algorithm", "paths"]
    headings += [
        heading("busiest / mean", "of the bytes that links between switches carried"),
        heading("flows", "queue pairs that data left by"),
        heading("marks", "data packets that came with a congestion mark"),
        heading("reordered", "that came before an earlier one of their queue pair and were kept"),
        heading("farthest", "the most packets that one of them was ahead"),
        heading("thrown away", "that came before their turn and were not kept (go-back-N)"),
        heading("resent"),
        heading("changes of path", "that a sender made after marks or a timeout"),
    ]
    rows = []
    for each in shown:
        figures = each.paths
        ratio = figures.imbalance
        counts = [figures.flows, figures.marks, figures.reordered, figures.reorder_distance]
        counts += [figures.dropped_ahead, figures.retransmitted, figures.path_changes]
        rows.append(
            [
                *point_cells(each, swept),
                element("td", each.algorithm, class_=f"key {algorithm_class(each.algorithm)}"),
                *([] if "paths" in swept else [str(each.scenario.get("paths", "ecmp"))]),
                number("-" if ratio is None else three_digits(ratio), ratio),
                *(number(f"{count:,}", count) for count in counts),
            ]
        )
    return element(
        "section",
        element("h2", "Paths and reordering"),
        table(headings, rows, "sortable"),
        element("p", _whose(shown), class_="caption"),
        id="paths",
    )


def _whose(summaries: Sequence[Summary]) -> str:
    several = list(dict.fromkeys(each.several for each in summaries if each.several))
    return f"Packets; means of {' or '.join(several)}." if several else "Packets."


def _row(
    each: Summary, name: str, links: Sequence[LinkResult], queue: dict[str, int] | None
) -> list[object]:
    largest, mean = load_spread(links)
    dropped = [link.queue_dropped for link in links if link.queue_dropped is not None]
    return [
        element("td", each.algorithm, class_=f"key {algorithm_class(each.algorithm)}"),
        name,
        number(format_size(largest), largest),
        number(format_size(round(mean)), mean),
        number(three_digits(largest / mean), largest / mean),
        *(
            number(format_size(queue[which]), queue[which]) if queue else number("-")
            for which in ("p50", "p99", "max")
        ),
        number(f"{sum(link.marked for link in links):,}"),
        number(f"{sum(dropped):,}" if dropped else "not known", sum(dropped)),
    ]
