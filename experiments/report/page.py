"""The report's page: head, sections and foot put together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from experiments.report import details, overview
from experiments.report.markup import Markup, element, join
from experiments.report.scenarios import command_line
from experiments.results import Results, scenario_of
from experiments.summary import Summary, short_duration, summarize, worst_fidelity
from experiments.units import format_rate, format_size
from switch.errors import InputError

HERE = Path(__file__).resolve().parent


def write_report(results: dict[str, Any], out: Path) -> Path:
    """Write a results document (`experiments.results`) as one HTML page that needs no other file.

    Returns `out`. Raises `InputError` for a document of another kind or a place that takes no file.
    """
    page = render(Results.from_dict(results))
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write the report to {str(out)!r}: {error.strerror}"
        ) from None
    return out


def render(results: Results) -> str:
    """The page as text."""
    summaries = summarize(results)
    sections: list[Markup | None] = [_head(results, summaries)]
    if summaries:
        scenario = scenario_of(results.runs[0].scenario)
        network = scenario.network()
        sections += [
            overview.failures(results),
            overview.key_figures(summaries),
            overview.completion_times(summaries),
            overview.tier_bytes(summaries, scenario, network),
            details.link_loads(summaries, network),
            details.ranks(summaries),
            details.links(summaries),
            details.fidelity(results),
            _scenario(results, scenario.to_dict(), network.describe(), command_line(scenario)),
        ]
    sections.append(_environment(results))
    style = Markup((HERE / "report.css").read_text())
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
    collective = str(results.runs[0].scenario["collective"]).capitalize()
    return f"{collective} of {len(results.runs[0].ranks)} ranks"


def _head(results: Results, summaries: Sequence[Summary]) -> Markup:
    good = sum(run.verified for run in results.runs)
    total = len(results.runs)
    fidelity = worst_fidelity(results)
    subtitle = None
    if results.runs:
        scenario = results.runs[0].scenario
        network = scenario_of(scenario).network()
        subtitle = element(
            "p",
            f"{format_size(scenario['size_bytes'])} a rank over "
            f"{format_rate(scenario['rate_bps'])} links on {network.describe()}",
            class_="subtitle",
        )
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
        element("p", overview.headline(summaries), class_="headline"),
    )


def _date(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        return text


def pill(text: str, kind: str) -> Markup:
    """A verdict: ``ok``, ``warn`` or ``bad``."""
    return element("span", text, class_=f"pill {kind}")


def _scenario(
    results: Results, asked: dict[str, Any], network: str, command: str
) -> Markup:
    shown = {"network": network, **{k: v for k, v in asked.items() if v is not None}}
    return element(
        "section",
        element("h2", "Scenario"),
        element("p", "To run it again:"),
        element("pre", command),
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
