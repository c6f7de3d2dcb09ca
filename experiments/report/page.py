"""The report's page: it puts a results document into the templates beside this module."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING, Any

from weft.base.units import format_rate
from weft.experiments.plots.gantt import gantt_svg
from weft.experiments.plots.heatmap import RAMP, heat_map
from weft.experiments.plots.palette import (
    algorithm_class,
    in_order,
    label_of,
    phase_class,
)
from weft.experiments.report.base import network_drawing, templates
from weft.experiments.report.scenarios import command_line
from weft.experiments.report.words import failures, headline
from weft.experiments.results.metric import metric_of
from weft.experiments.results.queue_counts import totals
from weft.experiments.results.results import RankResult, Results, scenario_of
from weft.experiments.results.summary import (
    Summary,
    by_point,
    byte_unit,
    collectives_of,
    common_of,
    operations_of,
    short_duration,
    swept_values,
    three_digits,
    ways_of,
    what_of,
    which_run,
    worst_fidelity,
)
from weft.experiments.results.telemetry import load_spread
from weft.experiments.scenario.options import OPTIONS, field_of, value_of
from weft.experiments.scenario.scenario import Scenario
from weft.topo.clos import LINK_TIERS, Topology

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup


def render(results: Results) -> str:
    """Return the page as text."""
    points = by_point(results)
    summaries = [summary for point in points for summary in point]
    shown: dict[str, Any] = {
        "results": results,
        "points": points,
        "summaries": summaries,
        "swept": results.swept if len(points) > 1 else (),
        "title": _title(results),
        "subtitle": _subtitle(results, points),
        "date": _date(results.started),
        "fidelity": worst_fidelity(results),
        "verdicts": [(which_run(results, run), run.fidelity) for run in results.runs],
        "headline": headline(points),
        "failures": failures(results),
        "plots": _plots(results),
        "environment": _flat(results.environment),
        "timings": _timings(results),
    }
    if points:
        scenario = scenario_of(results.runs[0].scenario)
        shown["asked"] = {}
        asked = _asked(scenario)
        if len(points) == 1:
            network = scenario.network()
            shown |= _drawings(summaries, network)
            shown["command"] = command_line(scenario)
            shown["asked"] = {"network": network.describe()}
        else:
            shown["command"] = ""
            asked = {
                key: value
                for key, value in asked.items()
                if all(run.scenario.get(key, value) == value for run in results.runs)
            }
        shown["asked"] |= _told(asked)
    return _template().render(shown)


@cache
def _template() -> "Template":
    """Return the page's template, with all that templates know besides what is shown."""
    found = templates()
    found.filters["sum_of_values"] = lambda values: sum(values.values())
    found.globals.update(
        ramp=", ".join(f"rgb{colour}" for colour in RAMP),
        algorithm_class=algorithm_class,
        label_of=label_of,
        value_of=value_of,
        phase_class=phase_class,
        in_order=in_order,
        swept_figures=_swept_figures,
        run_shown=_run_shown,
        load_spread=load_spread,
        queue_totals=totals,
        metric_of=metric_of,
        slowest=_slowest,
        duration=short_duration,
        digits=three_digits,
    )
    return found.get_template("page.html")


MOST_RANKS = 1_000
"""How many ranks of a run the page has a row for; of more, it has one for the slowest."""
FEW_RANKS = 200


def _slowest(ranks: Sequence[RankResult]) -> Sequence[RankResult]:
    """Return the ranks that are shown: all of them, or those that failed and the slowest."""
    if len(ranks) <= MOST_RANKS:
        return ranks
    failed = float("inf")
    return sorted(ranks, key=lambda each: -(each.completion_ns or failed))[:FEW_RANKS]


def _title(results: Results) -> str:
    if not results.runs:
        return "No runs"
    collectives = collectives_of([run.scenario for run in results.runs])
    ranks = sorted({len(run.ranks) for run in results.runs})
    many = f"{ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else str(ranks[0])
    return f"{collectives} of {many} rank{'s' * (many != '1')}"


def _subtitle(results: Results, points: Sequence[Sequence[Summary]]) -> str:
    if not points:
        return ""
    scenario = results.runs[0].scenario
    if len(points) > 1:
        names = " and ".join(name.replace("-", " ") for name in results.swept)
        over = f", by {names}" if names else ""
        common = common_of([run.scenario for run in results.runs], results.swept)
        return f"{common}; {len(points)} points{over}"
    network = scenario_of(scenario).network()
    size = what_of(scenario).partition(" of ")[2]
    if operations := operations_of(scenario):
        size += f", {operations},"
    text = f"{size} over {format_rate(scenario['rate_bps'])} links on {network.describe()}"
    return "; ".join([text, *filter(None, [", ".join(ways_of(scenario))])])


def _date(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        return text


def _swept_figures(summary: Summary, swept: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the texts that say which point it is, each with the number that it is sorted by, or
    None."""
    values = [summary.scenario.get(field_of(name)) for name in swept]
    return [
        (text, value if isinstance(value, (int, float)) and not isinstance(value, bool) else None)
        for text, value in zip(swept_values(summary.scenario, swept), values, strict=True)
    ]


def _run_shown(summary: Summary) -> str:
    """Say which run is shown, where there are several."""
    if len(summary.runs) == 1:
        return label_of(summary.algorithm)
    if summary.scenario.get("seeds"):
        return f"{label_of(summary.algorithm)}, seed {summary.shown.scenario['seed']}"
    return (
        f"{label_of(summary.algorithm)}, run {summary.shown.repetition + 1} of {len(summary.runs)}"
    )


def _plots(results: Results) -> list[tuple[str, str]]:
    """Return the plots that the scenario file asks for, and what was under way when: their titles,
    and their SVG files in base64."""
    found: list[tuple[str, bytes]] = []
    if results.plots:
        from weft.experiments.plots.draw import svg_of, title_of

        found += [(title_of(spec), svg_of(results, spec)) for spec in results.plots]
    if (chart := gantt_svg(results)) is not None:
        found.append(chart)
    return [(title, base64.b64encode(svg).decode()) for title, svg in found]


def _drawings(summaries: Sequence[Summary], network: Topology) -> dict[str, Any]:
    """Return the charts and networks of one point, those of single runs by algorithm."""
    from weft.experiments.report import charts

    known = all(link.directions == 1 for each in summaries for link in each.shown.links)
    maps = {each.algorithm: heat_map(each.shown, LINK_TIERS) for each in summaries if known}
    return {
        "completion_chart": charts.completion_times(summaries),
        "tiers_chart": charts.tier_bytes(summaries),
        "heat_maps": {name: found and charts.heat_map(found) for name, found in maps.items()},
        "network_drawings": _network_drawings(summaries, network) if known else {},
    }


def _network_drawings(
    summaries: Sequence[Summary], network: Topology
) -> "dict[str, tuple[Markup, str]]":
    """Return, by algorithm, a picture of what each direction of the links carried, and the
    picture's width."""
    unit = byte_unit(
        max((link.tx_bytes for each in summaries for link in each.shown.links), default=0)
    )
    return {
        each.algorithm: network_drawing(
            network,
            {(link.from_node, link.to_node): link.tx_bytes for link in each.shown.links},
            unit,
            f"{label_of(each.algorithm)}: frames on each link",
        )
        for each in summaries
    }


def _asked(scenario: Scenario) -> dict[str, Any]:
    """Return the fields of a scenario as its point has them: the seeds, where there are several."""
    asked = scenario.to_dict()
    del asked["seed" if scenario.seeds else "seeds"]
    return asked


def _told(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return those fields of a scenario that have a value, named and written as their rows of the
    table of options say: ``retransmit timeout`` and ``100 ms``."""
    rows = (row for row in OPTIONS.values() if asked.get(row.field) is not None)
    return {
        row.name.replace("-", " "): f"{row.said(asked[row.field])} {row.counted}".rstrip()
        for row in rows
    }


def _flat(values: Mapping[str, Any]) -> dict[str, str]:
    """Yield names and what they are, those of inner tables behind the table's."""
    pairs: Iterable[tuple[str, str]] = (
        pair
        for name, value in values.items()
        for pair in (
            [(f"{name} {key}", str(inner)) for key, inner in value.items()]
            if isinstance(value, dict)
            else [(name, str(value))]
        )
    )
    return {name.replace("_", " "): value for name, value in pairs}


def _timings(results: Results) -> dict[str, str]:
    taken_s = {**results.timings_s, "in all": results.duration_s}
    return {name.replace("_", " "): short_duration(s * 1e9) for name, s in taken_s.items()}
