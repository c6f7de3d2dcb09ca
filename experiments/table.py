"""Tables for the terminal: what came of the runs, and a network's links. 100 columns are enough."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from experiments.results import Results
from experiments.summary import TIERS, Summary, byte_unit, short_duration, summarize
from experiments.summary import three_digits as digits
from experiments.units import format_rate, format_size
from topo.clos import Topology

VERDICT_STYLES = {"ok": "green", "strained": "yellow", "invalid": "red"}
MISSING = Text("-", style="dim")


def summary_table(results: Results) -> Table:
    """One row an algorithm: times and goodput (medians of verified runs), bytes by tier, losses."""
    summaries = summarize(results)
    largest = max((size for each in summaries for size in each.tiers.values()), default=0.0)
    unit, unit_bytes = byte_unit(largest)
    repeated = any(len(each.runs) > 1 for each in summaries)

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=_title(results),
        title_style="bold",
        title_justify="left",
        caption=_caption(repeated),
        caption_justify="left",
        caption_style="dim",
    )
    table.add_column("algorithm", no_wrap=True)
    table.add_column("data", no_wrap=True)
    for heading in ("time", "bound", "goodput\nMbit/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in TIERS.values():
        where, direction = name.split()
        table.add_column(f"{where}\n{direction}\n{unit}", justify="right", no_wrap=True)
    table.add_column("re-\nsent", justify="right", no_wrap=True)
    table.add_column("lost", justify="right", no_wrap=True)
    table.add_column("fidelity", no_wrap=True)
    for each in summaries:
        table.add_row(*_row(each, unit_bytes))
    return table


def _row(summary: Summary, unit_bytes: int) -> list[Text]:
    good, total = len(summary.verified), len(summary.runs)
    data = Text("verified" if good == total else "failed", "green" if good == total else "bold red")
    if total > 1:
        data = Text(f"{good}/{total}", data.style)
    time = summary.completion_ns
    goodput = summary.goodput_bps
    return [
        Text(summary.algorithm, style="bold"),
        data,
        MISSING if time is None else Text(short_duration(time)),
        Text(short_duration(summary.bound_ns)),
        MISSING if goodput is None else Text(digits(goodput / 1e6)),
        *(Text(digits(size / unit_bytes)) for size in summary.tiers.values()),
        Text(str(summary.retransmitted_packets)),
        Text(str(summary.dropped)),
        Text(summary.fidelity, VERDICT_STYLES.get(summary.fidelity, "red")),
    ]


def _title(results: Results) -> str:
    if not results.runs:
        return "no runs"
    scenario = results.runs[0].scenario
    ranks = len(results.runs[0].ranks)
    return (
        f"{str(scenario['collective']).capitalize()} of {format_size(scenario['size_bytes'])} a "
        f"rank, {ranks} ranks, {scenario['topology']}, {format_rate(scenario['rate_bps'])} links"
    )


def _caption(repeated: bool) -> str:
    text = "time: of the slowest rank; bytes: Ethernet frames on all links of the kind"
    return text + "; medians, re-sent and lost: sums" if repeated else text


def links_table(network: Topology) -> Table:
    """A network's links: ends with their ports, rate, delay and the bound of a port's queue."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.title, table.title_justify = network.describe(), "left"
    table.add_column("link", no_wrap=True)
    table.add_column("from port", no_wrap=True)
    table.add_column("to port", no_wrap=True)
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("delay", justify="right", no_wrap=True)
    table.add_column("queue", justify="right", no_wrap=True)
    for link in network.links:
        table.add_row(
            link.name,
            f"{link.a.node}:{link.a.number}",
            f"{link.b.node}:{link.b.number}",
            format_rate(link.rate_bps),
            short_duration(link.delay_ns),
            format_size(link.queue_bytes),
        )
    return table
