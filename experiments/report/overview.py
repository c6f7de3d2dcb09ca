"""The report's first part: what came of the algorithms, against theory and against each other."""

from __future__ import annotations

from collections.abc import Sequence

from weft.experiments.plots.palette import algorithm_class as colour
from weft.experiments.plots.palette import in_order, phase_class
from weft.experiments.report.charts import Bar, bars, phases
from weft.experiments.report.markup import Markup, element, heading, number, table
from weft.experiments.results.comparison import Comparison, compare, why_not_measured
from weft.experiments.results.results import Results
from weft.experiments.results.summary import (
    TIERS,
    Summary,
    byte_unit,
    short_duration,
    short_rate,
    swept_values,
    three_digits,
    time_unit,
    which_run,
)
from weft.experiments.scenario.options import field_of

ERRORS = ("error, rms", "max of terms", "max relative", "of its bound")
"""Columns for sums of data that are not exact."""


def headline(points: Sequence[Sequence[Summary]]) -> str | None:
    """Multicast against each other algorithm in words (or, without it, the first one).

    Args:
        points: the summaries of each point. Of one point, times and bytes are compared; of several,
            how much faster it was at the least and at the most.

    Times are compared where they can be believed; elsewhere, what is predicted.
    """
    timed = [{each.algorithm: each for each in point if each.completion_ns} for point in points]
    names = list(dict.fromkeys(name for point in timed for name in point))
    if len(names) < 2:
        return None
    one = "multicast" if "multicast" in names else names[0]
    sentences = []
    for other in names:
        pairs = [(point[one], point[other]) for point in timed if {one, other} <= point.keys()]
        if other == one or not pairs:
            continue
        compared = [found for pair in pairs if (found := compare(*pair)) is not None]
        parts = _compared(one, other, compared, len(points))
        if len(points) == 1:
            parts.append(f"{one} {_fewer(pairs[0][0].tiers, pairs[0][1].tiers)}")
        if means := pairs[0][0].several or pairs[0][1].several:
            parts.append(f"figures are means of {means}")
        sentence = "; ".join(parts)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return " ".join(sentences) or None


def _compared(one: str, other: str, compared: Sequence[Comparison], points: int) -> list[str]:
    """What measured times say, and what is predicted where they say nothing."""
    parts = []
    ratios = [each.ratio for each in compared if each.measured and each.ratio is not None]
    if ratios:
        parts.append(_faster(one, other, ratios))
    doubtful = [each for each in compared if not each.measured]
    if not doubtful:
        return parts
    predicted = [each.ratio for each in doubtful if each.ratio is not None]
    if predicted:
        foreseen = _faster(one, other, predicted, ("will take", "will be"))
        parts.append(f"the simulated world predicts that {foreseen}")
    where = f" at {len(doubtful)} of {points} points" if points > 1 else ""
    parts.append(f"measured times are not compared{where}, since {why_not_measured(doubtful)}")
    return parts


def _faster(
    one: str, other: str, ratios: Sequence[float], verbs: tuple[str, str] = ("took", "was")
) -> str:
    low, high = min(ratios), max(ratios)
    took, was = verbs
    if low >= 0.95 and high <= 1.05:
        return f"{one} and {other} {took} the same time within 5 %"
    if f"{low:.2g}" != f"{high:.2g}":
        return f"{one} {was} {low:.2g} to {high:.2g} times as fast as {other}"
    if low > 1:
        return f"{one} {was} {low:.2g} times as fast as {other}"
    return f"{other} {was} {1 / low:.2g} times as fast as {one}"


def _fewer(tiers: dict[str, float], other: dict[str, float]) -> str:
    host = _share(tiers, other, "host_up", "host_down")
    if not other["fabric_up"] + other["fabric_down"]:
        return f"put {host} bytes on the links"
    fabric = _share(tiers, other, "fabric_up", "fabric_down")
    return f"put {host} bytes on the host links and {fabric} on the fabric's"


def _share(tiers: dict[str, float], other: dict[str, float], *names: str) -> str:
    mine, theirs = (sum(each[name] for name in names) for each in (tiers, other))
    percent = round(100 * (mine / theirs - 1)) if theirs else 0
    if percent == 0:
        return "as many"
    return f"{abs(percent)} % {'fewer' if percent < 0 else 'more'}"


def failures(results: Results) -> Markup | None:
    """The runs that failed or whose data did not verify, and why."""
    rows = [
        (
            which_run(results, run),
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


def key_figures(summaries: Sequence[Summary], swept: Sequence[str] = ()) -> Markup:
    """One row a point and algorithm: the figures of the terminal's table."""
    largest = max(size for each in summaries for size in each.tiers.values())
    unit, unit_bytes = byte_unit(largest)
    headings: list[object] = [heading(name.replace("-", " ")) for name in swept]
    spread = any(len(each.runs) > 1 for each in summaries)
    headings += ["algorithm", heading("verified")]
    headings += [heading("mean completion" if spread else "completion")]
    headings += [heading("least"), heading("most")] if spread else []
    headings += [heading("bound"), heading("over it"), heading("goodput")]
    rounded = any(each.accuracy for each in summaries)
    headings += [heading(name) for name in ERRORS] if rounded else []
    headings += [heading(f"{name}, {unit}") for name in TIERS.values()]
    headings += [heading("resent"), heading("lost"), "fidelity"]
    rows = []
    for each in summaries:
        done, over, goodput = each.completion_ns, each.over_bound, each.goodput_bps
        rows.append(
            [
                *point_cells(each, swept),
                element("td", element("b", each.algorithm), class_=f"key {colour(each.algorithm)}"),
                number(f"{len(each.verified)} of {len(each.runs)}"),
                number("-" if done is None else short_duration(done), done),
                *(_least_and_most(each) if spread else []),
                number(short_duration(each.bound_ns), each.bound_ns),
                number("-" if over is None else f"{100 * over:.1f} %", over),
                number("-" if goodput is None else short_rate(goodput), goodput),
                *(_error_cells(each) if rounded else ()),
                *(number(three_digits(size / unit_bytes), size) for size in each.tiers.values()),
                number(str(each.retransmitted_packets)),
                number(str(each.dropped)),
                each.fidelity,
            ]
        )
    return element(
        "section",
        element("h2", "All points") if swept else None,
        table(headings, rows, "figures sortable" if swept else "figures"),
        element("p", _explanation(summaries), class_="caption"),
        id="figures",
    )


def _least_and_most(summary: Summary) -> list[Markup]:
    """The range of a mean; of an exact time, that it is."""
    found = summary.completions
    if found is None:
        return [number("-"), number("-")]
    if summary.exact:
        return [number("exact", found.least), number("exact", found.greatest)]
    return [number(short_duration(end), end) for end in (found.least, found.greatest)]


def _error_cells(summary: Summary) -> list[Markup]:
    found = summary.accuracy
    if found is None:
        return [number("-") for _ in ERRORS]
    figures = (found.error_rms_relative, found.error_max_of_terms, found.error_max_relative)
    return [
        *(number(f"{figure:.1e}", figure) for figure in figures),
        number(f"{100 * found.error_max_of_bound:.0f} %", found.error_max_of_bound),
    ]


def point_cells(summary: Summary, swept: Sequence[str]) -> list[Markup]:
    """The cells that say which point it is."""
    cells = []
    for name, text in zip(swept, swept_values(summary.scenario, swept), strict=True):
        value = summary.scenario.get(field_of(name))
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        cells.append(number(text, value if is_number else None))
    return cells


def phase_bars(summaries: Sequence[Summary]) -> Markup | None:
    """How the slowest rank of each algorithm spent its time, where that is known."""
    timed = [each for each in summaries if each.phases_ns]
    names = in_order(name for each in timed for name in each.phases_ns)
    if len(names) < 2:
        return None
    largest = max(sum(each.phases_ns.values()) for each in timed)
    rows = []
    for each in timed:
        said = {name: short_duration(spent) for name, spent in each.phases_ns.items()}
        parts = [
            (name, each.phases_ns[name], f"{name}: {said[name]}") for name in names if name in said
        ]
        row: list[object] = [
            element("td", element("b", each.algorithm)),
            f"{each.slowest.rank} ({each.slowest.host})" if each.slowest else "",
            element("td", phases(parts, largest), class_="phases"),
        ]
        row += [number(said.get(name, "-"), each.phases_ns.get(name)) for name in names]
        rows.append(row)
    headings: list[object] = ["algorithm", "rank", "phases"]
    headings += [
        element("th", element("span", name, class_=f"key {phase_class(name)}"), class_="n")
        for name in names
    ]
    return element(
        "section",
        element("h2", "Phases of the slowest rank"),
        table(headings, rows),
        element("p", "Sums over all operations, which may run at the same time.", class_="caption")
        if any(each.operations > 1 for each in timed)
        else None,
        id="phases",
    )


def _explanation(summaries: Sequence[Summary]) -> str:
    reducing = {each.scenario["collective"] == "reduce-scatter" for each in summaries}
    goodput = {
        False: "the others' data that a rank receives",
        True: "a rank's data that goes into what the others end with",
    }
    text = (
        "Completion: the slowest rank, from the common start. Goodput: "
        f"{' or, of Reduce-Scatter, '.join(goodput[each] for each in sorted(reducing))}, over that "
        "time. Bytes: Ethernet frames on all links of the kind."
    )
    if any(each.accuracy for each in summaries):
        text += (
            " Errors: distances of the worst rank's sums from the exact ones; root mean square over"
            " that of the exact sums; the greatest over the sum of the magnitudes of what is added;"
            " the greatest over the exact sum itself, which is large where terms cancel; the"
            " greatest over what theory allows."
        )
    several = list(dict.fromkeys(each.several for each in summaries if each.several))
    if several:
        text += f" Means of {' or '.join(several)}, as far as verified; resent and lost: sums."
    return text


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
        caption += " Each point is a run, the bar their mean."
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
    if summary.exact:
        return ", exact"
    unit, size = time_unit(max(times))
    return f" ({three_digits(min(times) / size)} to {three_digits(max(times) / size)} {unit})"


def _over(summary: Summary) -> str:
    if summary.over_bound is None:
        return "no bound"
    return f"{100 * summary.over_bound:+.1f} % to the bound"


def tier_bytes(summaries: Sequence[Summary]) -> Markup:
    """Bytes on every tier, measured against the model."""
    models = {each.algorithm: each.model for each in summaries}
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
