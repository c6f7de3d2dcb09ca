"""Tables for the terminal: what came of the runs, and a network's links. They fit into 100
columns."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from weft.agents.collectives.names import baseline
from weft.base.units import format_rate, format_size, listed
from weft.experiments.results.comparison import compare, why_not_measured
from weft.experiments.results.metric import (
    BYTES,
    COUNT,
    Metric,
    columns_of,
    metric_of,
    metrics,
    short_count,
)
from weft.experiments.results.queue_counts import totals
from weft.experiments.results.results import Results, scenario_of
from weft.experiments.results.summary import (
    Summary,
    by_point,
    common_of,
    operations_of,
    short_duration,
    short_size,
    swept_values,
    three_digits,
    time_unit,
    ways_of,
    what_of,
)
from weft.experiments.scenario.families import result_parts
from weft.experiments.scenario.family import Family, family_of
from weft.experiments.scenario.options import value_of
from weft.experiments.theory.chance import chances
from weft.topo.clos import Topology
from weft.topo.worlds.registry import has_real_time

VERDICT_STYLES = {"ok": "green", "strained": "yellow", "invalid": "red", "failed": "red"}
LONG_NAME, LONG_NAME_OF_SEVERAL = 11, 14
"""The longest names of algorithms that take one line: beside four columns of bytes, and in the
table of several points."""
MISSING = Text("-", style="dim")


def empty_table(title: str, caption: str = "") -> Table:
    """Return a table without columns, with a title above it and a caption below."""
    return Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        title_style="bold",
        title_justify="left",
        caption=caption or None,
        caption_justify="left",
        caption_style="dim",
    )


def summary_table(results: Results) -> Table:
    """Return a table with one row a point and algorithm: times, goodput, bytes, losses.

    If an algorithm has several runs, over seeds or repeated, figures are means over the verified
    ones, and the least and the greatest time stand beside the mean. For one point, bytes are given
    by tier and direction; for several, for host and for fabric links, and the swept values come
    first.
    """
    points = by_point(results)
    summaries = [each for point in points for each in point]
    several = len(points) > 1
    spread = any(len(each.runs) > 1 for each in summaries)
    swept = results.swept if several else []
    table = empty_table(_title(results, several), _caption(summaries, several))
    for name in swept:
        table.add_column(name.replace("-", "\n"), justify="right", no_wrap=True)
    for name in ("algorithm", "data"):
        table.add_column(name, no_wrap=True)
    shown = _metrics(summaries, several, spread)
    for metric in shown:
        is_ranged = spread and metric.is_ranged
        names = [f"mean\n{metric.heading}", "least\nto most"] if is_ranged else [metric.heading]
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
    table.add_column("fidelity", no_wrap=True)
    for each in summaries:
        table.add_row(
            *(Text(value) for value in swept_values(each.scenario, swept)),
            *_name_and_data(each, several),
            *(cell for metric in shown for cell in _cells(metric, each, spread)),
            Text(each.fidelity, VERDICT_STYLES.get(each.fidelity, "red")),
        )
    return table


def _metrics(summaries: Sequence[Summary], several: bool, spread: bool) -> list[Metric]:
    """Return the metrics that have columns."""
    kind = "points" if several else "runs" if spread else "run"
    chosen = [
        metric
        for metric in metrics()
        if metric.heading and kind in metric.tables
        # Bytes and counts that no point has take no room.
        if not several or metric.unit not in (BYTES, COUNT) or any(map(metric.told, summaries))
    ]
    return list(columns_of(chosen, summaries, "heading"))


def _cells(metric: Metric, summary: Summary, spread: bool) -> list[Text]:
    value = metric.told(summary)
    cell = MISSING if value is None else Text(metric.unit.terminal(value))
    return [cell, _range(metric, summary)] if spread and metric.is_ranged else [cell]


def _range(metric: Metric, summary: Summary) -> Text:
    """Return the least and the greatest time, in the unit of the mean; of an exact one, say that it
    is."""
    found = metric.spread(summary)
    if found is None:
        return MISSING
    if summary.exact:
        return Text("exact")
    _, size = time_unit(found.mean)
    return Text(f"{three_digits(found.least / size)}-{three_digits(found.greatest / size)}")


def _name_and_data(summary: Summary, several: bool) -> list[Text]:
    good, total = len(summary.verified), len(summary.runs)
    word = ("ok" if several else "verified") if good == total else "failed"
    count = f"{good}/{total}" if total > 1 else word
    name = summary.algorithm
    if len(name) > (LONG_NAME_OF_SEVERAL if several else LONG_NAME):
        name = name.replace("-", "-\n", 1)
    return [Text(name, style="bold"), Text(count, "green" if good == total else "bold red")]


def _errors(summary: Summary) -> str:
    """Say how far rounded sums are from exact ones."""
    found = summary.accuracy
    if found is None:
        return ""
    return (
        f"\nerrors of {summary.algorithm}: rms {found.error_rms_relative:.1e} of the exact sums', "
        f"at most {found.error_max_of_terms:.1e} of what is added, "
        f"{100 * found.error_max_of_bound:.0f} % of the bound"
    )


def _title(results: Results, several: bool) -> str:
    if not results.runs:
        return "no runs"
    if several:
        return common_of([run.scenario for run in results.runs], results.swept)
    scenario = results.runs[0].scenario
    ranks, jobs = len(results.runs[0].ranks), value_of("jobs", scenario)
    words = [
        what_of(scenario),
        operations_of(scenario),
        f"{ranks} rank{'s' * (ranks != 1)}" + (f" in {jobs} jobs" if jobs > 1 else ""),
        str(scenario["topology"]),
        f"{format_rate(scenario['rate_bps'])} links",
        *ways_of(scenario),
    ]
    return ", ".join(filter(None, words))


def _caption(summaries: Sequence[Summary], several: bool) -> str:
    text = "time: of the slowest rank; bytes: Ethernet frames on all links of the kind"
    means = list(dict.fromkeys(each.several for each in summaries if each.several))
    if means:
        sums = (each.heading for each in metrics() if each.heading and each.is_count)
        names = listed((name.replace("\n", "") for name in sums), "and")
        text += f"; means of {' or '.join(means)}, {names}: sums"
    text += _chance(summaries, several)
    if several:
        if any(each.accuracy for each in summaries):
            text += "; error: of sums, rms over that of the exact ones, max over what is added"
        return text
    for kind in reversed(result_parts().values()):
        for each in summaries:
            runs = [run for run in each.verified or [each.shown] if run.part(kind)]
            remark = kind.remark(each.algorithm, runs) if runs else ""
            text += f"\n{remark}" if remark else ""
    for each in summaries:
        if len(each.phases_ns) > 1 and each.slowest:
            parts = ", ".join(
                f"{name} {short_duration(spent)}" for name, spent in each.phases_ns.items()
            )
            of = "all operations of " if each.operations > 1 else ""
            which = f"{of}rank {each.slowest.rank}, the slowest"
            text += f"\nphases of {each.algorithm} ({which}): {parts}"
    text += "".join(map(_paths, summaries)) + "".join(map(_queues, summaries))
    text += "".join(map(_errors, summaries))
    return text + _speed_ups(summaries)


def _chance(summaries: Sequence[Summary], several: bool) -> str:
    """Say which times of single runs in virtual time are exact, and what another seed could change
    in the others."""
    single = [
        each
        for each in summaries
        if len(each.runs) == 1
        and each.verified
        and not has_real_time(str(each.scenario.get("world")))
    ]
    exact = [each for each in single if each.exact]
    text = ""
    if exact:
        which = "all times"
        if len(exact) < len(summaries):
            names = ", ".join(each.algorithm for each in exact)
            which = f"{len(exact)} of {len(summaries)} times" if several else f"times of {names}"
        text += f"\n{which} are exact: nothing that is drawn has a part in them"
    drawn = [word for each in single for word in chances(scenario_of(each.scenario))]
    if drawn:
        words = ", ".join(dict.fromkeys(drawn))
        text += f"\nof a single seed, which decides {words}: --seeds 1..10 tells means and ranges"
    return text


def _paths(summary: Summary) -> str:
    """Say how flows shared the links between switches, if somebody asked for more than ECMP."""
    spread = metric_of("imbalance").spread(summary)
    if spread is None or not summary.chose_paths:
        return ""
    text = f"\npaths of {summary.algorithm}: fullest fabric link {spread.mean:.2f} of mean"
    if spread.least != spread.greatest:
        text += f" ({spread.least:.2f} to {spread.greatest:.2f})"
    for name in ("flows", "marks", "reordered"):
        text += f", {_counted(name, summary)} {name}"
    if metric_of("reordered").mean(summary):
        text += f" (by {metric_of('reorder-distance').mean(summary)} at most)"
    if metric_of("path-changes").mean(summary):
        text += f", {_counted('path-changes', summary)} changes of path"
    return text


def _queues(summary: Summary) -> str:
    """Say what the queues of each priority carried, where ports have several, the first one's
    first."""
    text = ""
    for each in reversed(totals(link.queues for link in summary.shown.links)):
        text += f"\npriority {each.priority} of {summary.algorithm}: "
        text += f"{short_size(each.tx_bytes)} in {short_count(each.tx_packets)} packets"
        text += f", deepest queue {short_size(each.max_bytes)}, {each.dropped} had no room"
    return text


def _counted(name: str, summary: Summary) -> str:
    return short_count(metric_of(name).mean(summary) or 0)


def _family(summary: Summary) -> Family:
    """Return what kind of work is summed up."""
    return family_of(str(summary.scenario["collective"]))


def _speed_ups(summaries: Sequence[Summary]) -> str:
    """Say, where sums are made, how times compare with the baseline, since that is what servers and
    switches are for; where times cannot be believed, give the prediction. Say how full the
    hosts' links were, too, where that decides the time."""
    text = ""
    interleaved = any(_family(each).fills_links for each in summaries)
    for each in summaries if interleaved else ():
        if each.injection is not None:
            up, down = (f"{100 * part:.0f} %" for part in each.injection)
            text += f"\n{each.algorithm}: hosts' links are {up} full up, {down} down"
    other = baseline()
    base = next((each for each in summaries if each.algorithm == other), None)
    for each in summaries:
        if each is base or base is None or not each.bound_ns:
            continue
        summed = _family(each).reduces(str(each.scenario["collective"]))
        found = compare(each, base) if summed else None
        if found is None:
            continue
        bounds = f"their bounds: {base.bound_ns / each.bound_ns:.2f}"
        bounds += f"; 2 - 2/P: {2 - 2 / each.ranks:.2f}" if interleaved else ""
        if found.measured:
            text += f"\n{each.algorithm}: {found.ratio:.2f} times as fast as {other} ({bounds})"
            continue
        text += f"\n{each.algorithm}: "
        if found.ratio is not None:
            text += f"predicted to be {found.ratio:.2f} times as fast as {other} ({bounds}); "
        text += f"measured times are not compared, since {why_not_measured([found])}"
    return text


def links_table(network: Topology) -> Table:
    """Return a table of a network's links, which shows their ends with ports, rate, delay and the
    bound of a port's queue."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.title, table.title_justify = network.describe(), "left"
    for name in ("link", "from port", "to port"):
        table.add_column(name, no_wrap=True)
    for name in ("rate", "delay", "queue"):
        table.add_column(name, justify="right", no_wrap=True)
    lossy = any(link.loss for link in network.links)
    if lossy:
        table.add_column("loss", justify="right", no_wrap=True)
    for link in network.links:
        table.add_row(
            link.name,
            f"{link.a.node}:{link.a.number}",
            f"{link.b.node}:{link.b.number}",
            format_rate(link.rate_bps),
            short_duration(link.delay_ns),
            format_size(link.queue_bytes),
            *([f"{100 * link.loss:.3g} %"] if lossy else []),
        )
    return table
