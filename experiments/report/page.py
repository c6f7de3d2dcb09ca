"""The report's page: head, sections and foot put together."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from weft.base import files
from weft.base.errors import InputError
from weft.base.units import format_rate, format_seeds, format_size
from weft.experiments.plots.palette import style_sheet
from weft.experiments.report import details, network_figures, overview
from weft.experiments.report.markup import Markup, element, join
from weft.experiments.report.scenarios import command_line
from weft.experiments.results.results import Results, scenario_of
from weft.experiments.results.summary import (
    Summary,
    by_point,
    collectives_of,
    common_of,
    operations_of,
    short_duration,
    ways_of,
    what_of,
    worst_fidelity,
)
from weft.experiments.scenario.scenario import Scenario

HERE = Path(__file__).resolve().parent


def write_report(results: dict[str, Any], out: Path) -> Path:
    """Write a results document as one HTML page that needs no other file.

    Returns `out`. Raises `InputError` for a document of another kind or a place that takes no file.
    """
    page = render(Results.from_dict(results))
    try:
        files.write_whole(out, page)
    except OSError as error:
        raise InputError(f"cannot write the report to {str(out)!r}: {error.strerror}") from None
    return out


def render(results: Results) -> str:
    """The page as text."""
    points = by_point(results)
    summaries = [summary for point in points for summary in point]
    sections: list[Markup | None] = [_head(results, points)]
    sections.append(overview.failures(results))
    if len(points) == 1:
        scenario = scenario_of(results.runs[0].scenario)
        network = scenario.network()
        sections += [
            overview.key_figures(summaries),
            _plots(results),
            overview.completion_times(summaries),
            overview.phase_bars(summaries),
            overview.tier_bytes(summaries),
            details.link_loads(summaries, network),
            details.loads_over_time(summaries),
            network_figures.by_kind(summaries),
            network_figures.paths(summaries),
            details.ranks(summaries),
            details.links(summaries),
            details.fidelity(results),
            _scenario(
                results,
                {"network": network.describe(), **_asked(scenario)},
                element("p", "To run it again:"),
                element("pre", command_line(scenario)),
            ),
        ]
    elif points:
        asked = _asked(scenario_of(results.runs[0].scenario))
        sections += [
            _plots(results),
            overview.key_figures(summaries, results.swept),
            network_figures.paths(summaries, results.swept),
            details.fidelity(results),
            _scenario(
                results,
                {name: value for name, value in asked.items() if _is_common(results, name, value)},
                element("p", f"What is the same at all of the {len(points)} points."),
            ),
        ]
    sections.append(_environment(results))
    style = Markup((HERE / "report.css").read_text() + style_sheet())
    script = Markup((HERE / "report.js").read_text())
    document = element(
        "html",
        element(
            "head",
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            element("title", f"{_title(results)} - Weft"),
            element("style", style),
        ),
        element("body", element("main", *filter(None, sections)), element("script", script)),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{document}\n"


def _title(results: Results) -> str:
    if not results.runs:
        return "No runs"
    collectives = collectives_of([run.scenario for run in results.runs])
    ranks = sorted({len(run.ranks) for run in results.runs})
    many = f"{ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else str(ranks[0])
    return f"{collectives} of {many} rank{'s' * (many != '1')}"


def _subtitle(results: Results, points: Sequence[Sequence[Summary]]) -> str:
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


def _head(results: Results, points: Sequence[Sequence[Summary]]) -> Markup:
    good = sum(run.verified for run in results.runs)
    total = len(results.runs)
    fidelity = worst_fidelity(results)
    subtitle = element("p", _subtitle(results, points), class_="subtitle") if points else None
    if total == 1:
        verified = "data verified" if good else "data not verified"
    else:
        which = f"all {total}" if good == total else f"{good} of {total}"
        verified = f"data verified in {which} runs"
    verdicts = element(
        "p",
        pill(verified, "ok" if results.verified else "bad"),
        pill(f"fidelity {fidelity}", {"ok": "ok", "strained": "warn"}.get(fidelity, "bad")),
        class_="pills",
    )
    return element(
        "header",
        element("p", f"Weft run {results.run_id}, {_date(results.started)}", class_="eyebrow"),
        element("h1", _title(results)),
        subtitle,
        verdicts,
        element("p", overview.headline(points), class_="headline"),
    )


def _date(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        return text


def pill(text: str, kind: str) -> Markup:
    """A verdict: ``ok``, ``warn`` or ``bad``."""
    return element("span", text, class_=f"pill {kind}")


def _plots(results: Results) -> Markup | None:
    """What the scenario file has had plotted, as images within the page."""
    if not results.plots:
        return None
    from weft.experiments.plots.draw import svg_of, title_of

    images = []
    for spec in results.plots:
        data = base64.b64encode(svg_of(results, spec)).decode()
        image = element("img", src=f"data:image/svg+xml;base64,{data}", alt=title_of(spec))
        images.append(element("figure", image, class_="plot"))
    return element("section", *images, id="plots")


def _is_common(results: Results, name: str, value: object) -> bool:
    return all(run.scenario.get(name, value) == value for run in results.runs)


def _asked(scenario: Scenario) -> dict[str, Any]:
    """The fields of a scenario as its point has them: the seeds, where there are several."""
    asked = scenario.to_dict()
    del asked["seed" if scenario.seeds else "seeds"]
    return asked


def _scenario(results: Results, asked: dict[str, Any], *words: Markup) -> Markup:
    """What was asked, by the fields of a scenario."""
    shown = {name: value for name, value in asked.items() if value is not None}
    return element(
        "section",
        element("h2", "Scenario"),
        *words,
        pairs({_plain(name): _said(name, value) for name, value in shown.items()}),
        *(element("p", f"Note: {note}", class_="note") for note in results.notes),
        id="scenario",
    )


def _plain(name: str) -> str:
    """A field's name without its unit, which stands behind the figure."""
    for suffix in ("_bytes", "_bps"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def _said(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return format_size(value)
    if name.endswith("_bps") and isinstance(value, int):
        return format_rate(value)
    if name == "mtu":
        return f"{value} B of payload a packet"
    if name.endswith("_s"):
        return f"{value} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "seeds" and isinstance(value, list):
        return format_seeds(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _environment(results: Results) -> Markup:
    timings = {
        name.replace("_", " "): short_duration(seconds * 1e9)
        for name, seconds in results.timings_s.items()
    }
    timings["in all"] = short_duration(results.duration_s * 1e9)
    return element(
        "section",
        element("h2", "Environment"),
        element(
            "div",
            element("div", element("h3", "Machine and versions"), _nested(results.environment)),
            element("div", element("h3", "How long it took"), pairs(timings)),
            class_="columns",
        ),
        id="environment",
    )


def _nested(values: dict[str, Any]) -> Markup:
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update({f"{name} {key}": str(inner) for key, inner in value.items()})
        else:
            flat[name] = _said(name, value)
    return pairs({name.replace("_", " "): value for name, value in flat.items()})


def pairs(values: dict[str, str]) -> Markup:
    """A list of names and what they are."""
    items = (
        element("div", element("dt", name), element("dd", value)) for name, value in values.items()
    )
    return element("dl", join(items))
