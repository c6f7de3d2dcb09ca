"""The report's second part: links, ranks and fidelity of single runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from weft.base.units import format_size
from weft.experiments.plots.heatmap import heat_map
from weft.experiments.plots.palette import algorithm_class, in_order, phase_class
from weft.experiments.report import heat
from weft.experiments.report.charts import phases
from weft.experiments.report.markup import Markup, element, heading, join, number, table
from weft.experiments.results.results import LinkResult, RankResult, Results, Run
from weft.experiments.results.summary import TIERS, Summary, byte_unit, short_duration, which_run
from weft.topo.clos import LINK_TIERS, Topology
from weft.topo.drawing import draw_svg


def _which(summary: Summary) -> str:
    """The run that is shown, where there are several."""
    if len(summary.runs) == 1:
        return summary.algorithm
    if summary.scenario.get("seeds"):
        return f"{summary.algorithm}, seed {summary.shown.scenario['seed']}"
    return f"{summary.algorithm}, run {summary.shown.repetition + 1} of {len(summary.runs)}"


def _choice(name: str, summaries: Sequence[Summary], panels: Sequence[Markup]) -> Markup:
    """Panels of which one is seen at a time, with a button each; all of them are printed."""
    if len(panels) == 1:
        return panels[0]
    buttons = [
        element(
            "button", _which(each), type="button", data_panel=f"{name}-{index}",
            aria_pressed="true" if index == 0 else "false",
        )
        for index, each in enumerate(summaries)
    ]  # fmt: skip
    shown = [
        element(
            "div", element("h3", _which(each)), panel, id=f"{name}-{index}",
            class_="panel" if index == 0 else "panel other-panel",
        )
        for index, (each, panel) in enumerate(zip(summaries, panels, strict=True))
    ]  # fmt: skip
    return element("div", element("p", *buttons, class_="buttons"), *shown, class_="choice")


def link_loads(summaries: Sequence[Summary], network: Topology) -> Markup:
    """The network, drawn with what each direction of its links carried."""
    drawings = []
    unit, unit_bytes = byte_unit(
        max((link.tx_bytes for each in summaries for link in each.shown.links), default=0)
    )
    for each in summaries:
        loads = {(link.from_node, link.to_node): link.tx_bytes for link in each.shown.links}
        known = {direction.ends for direction in network.directions}
        drawing = draw_svg(
            network,
            {ends: size / unit_bytes for ends, size in loads.items() if ends in known},
            unit=unit,
            title=f"{each.algorithm}: frames on each link",
        )
        natural = re.search(r'width="(\d+)"', drawing)
        style = f"--natural: {natural.group(1) if natural else 900}px"
        drawings.append(element("figure", Markup(drawing), class_="network", style=style))
    return element(
        "section",
        element("h2", "Link loads"),
        _choice("network", summaries, drawings),
        id="network",
    )


def loads_over_time(summaries: Sequence[Summary]) -> Markup | None:
    """What every direction of every link carried, from the start to the end; None if no run has
    it."""
    maps = [heat_map(each.shown, LINK_TIERS) for each in summaries]
    if not any(maps):
        return None
    charts = [
        element("p", "not counted") if each is None else element("figure", heat.chart(each))
        for each in maps
    ]
    return element(
        "section",
        element("h2", "Loads over time"),
        _choice("heat", summaries, charts),
        heat.legend(),
        id="heat",
    )


def ranks(summaries: Sequence[Summary]) -> Markup:
    """One row a rank: completion, phases, what was sent again."""
    return element(
        "section",
        element("h2", "Ranks"),
        _choice("ranks", summaries, [_ranks_of(each.shown) for each in summaries]),
        id="ranks",
    )


def _ranks_of(run: Run) -> Markup:
    names = in_order(name for rank in run.ranks for name in rank.phases_ns)
    largest = max((sum(rank.phases_ns.values()) for rank in run.ranks), default=0)
    failed = any(rank.error for rank in run.ranks)
    headings: list[object] = [heading("rank"), "host", heading("completion")]
    headings += ["phases"] if names else []
    headings += [heading("resent"), "data"]
    headings += ["error"] if failed else []
    rows = []
    for rank in run.ranks:
        row: list[object] = [number(str(rank.rank)), rank.host, _completion(rank)]
        if names:
            parts = [
                (name, rank.phases_ns.get(name, 0), f"{name}: {_phase(rank, name)}")
                for name in names
            ]
            row.append(element("td", phases(parts, largest), class_="phases"))
        row.append(number(str(rank.retransmitted_packets), rank.retransmitted_packets))
        row.append("verified" if rank.verified else element("td", "wrong", class_="bad-text"))
        if failed:
            row.append(rank.error or "")
        rows.append(row)
    legend = [element("span", name, class_=f"key {phase_class(name)}") for name in names]
    return join([element("p", *legend, class_="legend") if names else None,
                 element("div", table(headings, rows, "sortable"), class_="tall")])  # fmt: skip


def _completion(rank: RankResult) -> Markup:
    if rank.completion_ns is None:
        return number("-")
    return number(short_duration(rank.completion_ns), rank.completion_ns)


def _phase(rank: RankResult, name: str) -> str:
    duration = rank.phases_ns.get(name)
    return "none" if duration is None else short_duration(duration)


def links(summaries: Sequence[Summary]) -> Markup:
    """Every direction of every link, sortable by each column."""
    return element(
        "section",
        element("h2", "Links"),
        _choice("links", summaries, [_links_of(each) for each in summaries]),
        id="links",
    )


def _links_of(summary: Summary) -> Markup:
    run = summary.shown
    largest = max((link.tx_bytes for link in run.links), default=0) or 1
    queues = any(link.max_queue_bytes is not None for link in run.links)
    headings: list[object] = ["from", "to", "kind", heading("packets"), heading("bytes"), "load"]
    headings += [heading("lost", "lost on the link on purpose")]
    headings += [heading("no room", "dropped by the sender's queue for want of room")]
    headings += [heading("deepest queue")] if queues else []
    rows = [
        _link_row(link, largest, queues, algorithm_class(summary.algorithm)) for link in run.links
    ]
    return element("div", table(headings, rows, "sortable"), class_="tall")


def _link_row(link: LinkResult, largest: int, queues: bool, of_colour: str) -> list[object]:
    share = link.tx_bytes / largest
    bar = element("span", class_=f"load {of_colour}", style=f"width:{100 * share:.1f}%")
    dropped = link.queue_dropped
    row: list[object] = [
        link.from_node,
        link.to_node,
        TIERS.get(link.tier, link.tier),
        number(f"{link.tx_packets:,}", link.tx_packets),
        number(f"{link.tx_bytes:,}", link.tx_bytes),
        element("td", bar, class_="loads", data_value=link.tx_bytes),
        number(f"{link.lost:,}", link.lost),
        number("not known" if dropped is None else f"{dropped:,}", dropped or 0),
    ]
    if queues:
        deepest = link.max_queue_bytes
        row.append(number("-" if deepest is None else format_size(deepest), deepest or 0))
    return row


def fidelity(results: Results) -> Markup:
    """Whether each run's figures can be believed, and why not."""
    lateness = [name for run in results.runs for name in run.fidelity.lateness_ns]
    consumers = [name for run in results.runs for name in run.fidelity.cpu_s]
    lateness, consumers = list(dict.fromkeys(lateness)), list(dict.fromkeys(consumers))
    headings: list[object] = ["run", "verdict", heading("CPU busy"), heading("stolen")]
    headings += [heading(f"{name}, CPU s") for name in consumers]
    headings += [heading(f"{name.replace('_', ' ')} late") for name in lateness]
    headings += [heading("kernel drops"), "reasons"]
    rows = []
    for run in results.runs:
        judged = run.fidelity
        kind = {"ok": "ok", "strained": "warn"}.get(judged.verdict, "bad")
        rows.append(
            [
                which_run(results, run),
                element("td", element("span", judged.verdict, class_=f"pill {kind}")),
                number(f"{judged.cpu_busy:.0%}", judged.cpu_busy),
                number(f"{judged.cpu_stolen:.0%}", judged.cpu_stolen),
                *(_maybe(judged.cpu_s.get(each), "{:.2f}") for each in consumers),
                *(_late(judged.lateness_ns.get(each)) for each in lateness),
                number(str(judged.unplanned_losses), judged.unplanned_losses),
                "; ".join(judged.reasons) or "none",
            ]
        )
    return element(
        "section",
        element("h2", "Fidelity"),
        element(
            "p",
            "Times mean something only while links, not processors, are the bottleneck: nobody "
            "was too busy to read a packet, and packets left when they were due.",
        ),
        table(headings, rows, "sortable"),
        id="fidelity",
    )


def _maybe(value: float | None, form: str) -> Markup:
    return number("-" if value is None else form.format(value), value)


def _late(value: int | None) -> Markup:
    return number("-" if value is None else short_duration(value), value)
