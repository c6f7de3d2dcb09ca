"""The report's first part: what came of the algorithms, against theory and against each other."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.bounds import tier_model_bytes
from experiments.report.charts import Bar, bars
from experiments.report.markup import Markup, element, heading, number, table
from experiments.results import Results
from experiments.scenario import Scenario
from experiments.summary import (
    TIERS,
    Summary,
    byte_unit,
    short_duration,
    short_rate,
    three_digits,
    time_unit,
)
from topo.clos import Topology

COLOURS = {"multicast": "multicast", "ring": "ring"}
"""Class of the style sheet by algorithm; others take ``other``."""


def colour(algorithm: str) -> str:
    """The class of the style sheet that colours an algorithm."""
    return COLOURS.get(algorithm, "other")


def headline(summaries: Sequence[Summary]) -> str | None:
    """The comparison in one sentence, where there are two verified algorithms to compare."""
    timed = {each.algorithm: each for each in summaries if each.completion_ns}
    if not {"ring", "multicast"} <= timed.keys():
        return None
    ring, multicast = timed["ring"], timed["multicast"]
    assert ring.completion_ns and multicast.completion_ns
    ratio = ring.completion_ns / multicast.completion_ns
    if 0.95 <= ratio <= 1.05:
        speed = "Multicast and ring took the same time within 5 %"
    elif ratio > 1:
        speed = f"Multicast was {ratio:.2g} times as fast as ring"
    else:
        speed = f"Ring was {1 / ratio:.2g} times as fast as multicast"
    return f"{speed}; multicast {_fewer(multicast.tiers, ring.tiers)}."


def _fewer(tiers: dict[str, float], other: dict[str, float]) -> str:
    host = _share(tiers, other, "host_up", "host_down")
    if not other["fabric_up"] + other["fabric_down"]:
        return f"put {host} bytes on the links"
    fabric = _share(tiers, other, "fabric_up", "fabric_down")
    return f"put {host} bytes on the host links and {fabric} on the fabric's"


def _share(tiers: dict[str, float], other: dict[str, float], *names: str) -> str:
    mine, theirs = (sum(each[name] for name in names) for each in (tiers, other))
    percent = round(100 * (mine / theirs - 1)) if theirs else 0
    return f"{abs(percent)} % {'fewer' if percent <= 0 else 'more'}"


def failures(results: Results) -> Markup | None:
    """The runs that failed or whose data did not verify, and why."""
    rows = [
        (
            f"{run.algorithm}, {run.repetition + 1}" if run.repetition else run.algorithm,
            rank.host if rank else "",
            (rank.error if rank else run.error) or "the data is not what it should be",
        )
        for run in results.runs
        if not run.verified
        for rank in [None, *(rank for rank in run.ranks if rank.error or not rank.verified)]
        if rank or run.error
    ]
    if results.verified or not results.runs:
        return None
    return element(
        "section",
        element("h2", "What failed"),
        table(("run", "rank", "what happened"), rows),
        class_="failed",
        id="failures",
    )


def key_figures(summaries: Sequence[Summary]) -> Markup:
    """One row an algorithm: the figures of the terminal's table."""
    largest = max(size for each in summaries for size in each.tiers.values())
    unit, unit_bytes = byte_unit(largest)
    headings: list[object] = ["algorithm", heading("verified"), heading("completion")]
    headings += [heading("bound"), heading("over it"), heading("goodput")]
    headings += [heading(f"{name}, {unit}") for name in TIERS.values()]
    headings += [heading("resent"), heading("lost"), "fidelity"]
    rows = []
    for each in summaries:
        done, over, goodput = each.completion_ns, each.over_bound, each.goodput_bps
        rows.append(
            [
                element("td", element("b", each.algorithm), class_=f"key {colour(each.algorithm)}"),
                number(f"{len(each.verified)} of {len(each.runs)}"),
                number("-" if done is None else short_duration(done)),
                number(short_duration(each.bound_ns)),
                number("-" if over is None else f"{100 * over:.1f} %"),
                number("-" if goodput is None else short_rate(goodput)),
                *(number(three_digits(size / unit_bytes)) for size in each.tiers.values()),
                number(str(each.retransmitted_packets)),
                number(str(each.dropped)),
                each.fidelity,
            ]
        )
    many = any(len(each.runs) > 1 for each in summaries)
    return element(
        "section",
        table(headings, rows, "figures"),
        element("p", _explanation(many), class_="caption"),
        id="figures",
    )


def _explanation(many: bool) -> str:
    text = (
        "Completion: the slowest rank, from the common start. Goodput: what each rank received of "
        "the others' data, over that time. Bytes: Ethernet frames on all links of the kind."
    )
    return f"{text} Medians of the verified runs; resent and lost: sums." if many else text


def completion_times(summaries: Sequence[Summary]) -> Markup | None:
    """Bars against the bound, single runs as points."""
    timed = [(each, each.completion_ns) for each in summaries]
    drawn = [
        Bar(
            label=each.algorithm,
            value=done,
            colour=colour(each.algorithm),
            text=f"{short_duration(done)}{_range(each)}, {_over(each)}",
            mark=each.bound_ns or None,
            points=each.completions_ns,
            tooltip=f"{each.algorithm}: {short_duration(done)}",
        )
        for each, done in timed
        if done is not None
    ]
    if not drawn:
        return None
    many = any(len(each.completions_ns) > 1 for each in summaries)
    longest = max(bar.value for bar in drawn)
    words = "; ".join(f"{bar.label} {bar.text}" for bar in drawn)
    caption = "The line across a bar is the algorithm's bound: the least time that its slowest "
    caption += "link takes for the payload."
    if many:
        caption += " Each point is a run, the bar their median."
    return element(
        "section",
        element("h2", "Completion time"),
        element(
            "figure",
            bars([("", drawn)], time_unit(longest), thickness=40, description=words),
            element("figcaption", caption),
        ),
        id="completion",
    )


def _range(summary: Summary) -> str:
    times = summary.completions_ns
    if len(times) < 2:
        return ""
    unit, size = time_unit(max(times))
    return f" ({three_digits(min(times) / size)} to {three_digits(max(times) / size)} {unit})"


def _over(summary: Summary) -> str:
    if summary.over_bound is None:
        return "no bound"
    return f"{100 * summary.over_bound:+.1f} % to the bound"


def tier_bytes(
    summaries: Sequence[Summary], scenario: Scenario, network: Topology
) -> Markup:
    """Bytes on every tier, measured against the model."""
    models = {
        each.algorithm: tier_model_bytes(network, scenario.size_bytes, each.algorithm)
        for each in summaries
    }
    largest = max(size for each in summaries for size in each.tiers.values())
    unit, unit_bytes = byte_unit(largest)

    def said(size: float) -> str:
        return f"{three_digits(size / unit_bytes)} {unit}"

    groups = [
        (
            name,
            [
                Bar(
                    label=each.algorithm,
                    value=each.tiers[tier],
                    colour=colour(each.algorithm),
                    text=said(each.tiers[tier]) + _against(each.tiers[tier], model),
                    mark=model or None,
                    tooltip=f"{each.algorithm}, {name}: {each.tiers[tier]:.0f} bytes",
                )
                for each in summaries
                for model in [models[each.algorithm][tier]]
            ],
        )
        for tier, name in TIERS.items()
        if any(each.tiers[tier] or models[each.algorithm][tier] for each in summaries)
    ]
    legend = [
        element("span", each.algorithm, class_=f"key {colour(each.algorithm)}")
        for each in summaries
    ]
    words = "; ".join(f"{name}: {bar.label} {bar.text}" for name, group in groups for bar in group)
    return element(
        "section",
        element("h2", "Bytes by tier"),
        element("p", *legend, class_="legend"),
        element(
            "figure",
            bars(groups, (unit, unit_bytes), description=words),
            element(
                "figcaption",
                "Frames on all links of a kind, in one direction. The line across a bar is the "
                "model, which counts payload alone: headers and control come on top.",
            ),
        ),
        id="bytes",
    )


def _against(measured: float, model: int) -> str:
    return f", {100 * (measured / model - 1):+.1f} % to the model" if model else ""
