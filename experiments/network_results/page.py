"""The report of a network that was up: one self-contained HTML page."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from weft.base import files
from weft.base.errors import MachineError, refuse
from weft.base.units import format_rate, format_size
from weft.experiments.network_results.document import FABRIC, NetworkResults
from weft.experiments.results.results import DOCUMENT
from weft.experiments.results.summary import byte_unit
from weft.experiments.runs.folder import REPORT, ResultsFolder
from weft.topo.drawing import draw_svg

if TYPE_CHECKING:
    from markupsafe import Markup

HERE = Path(__file__).resolve().parent
PARTS = HERE.parent / "report"
DROPS = {
    "no_program": "without a program",
    "ingress": "by the program, in ingress",
    "egress": "by the program, in egress",
    "no_port": "for a port that is not there",
    "repeats": "that went round too often",
    "too_long": "that were too long",
    "priority": "of a priority that has no queue",
}
"""Why switches drop packets, behind how many."""


def write_results(results: NetworkResults, folder: ResultsFolder) -> list[Path]:
    """Write the document and its report to a results folder, and return the files. Raises
    MachineError if one cannot be written."""
    documents = ((DOCUMENT, results.text()), (REPORT, render(results)))
    written, problem = folder.write_files(documents)
    refuse(problem, problem, MachineError)
    return written


def write_report(results: NetworkResults, out: Path) -> Path:
    """Write results as one HTML page, and return the file. Raises InputError for a place where no
    file can be written."""
    page = render(results)
    with files.told_as_input(f"cannot write the report to {str(out)!r}"):
        files.write_whole(out, page)
    return out


def render(results: NetworkResults) -> str:
    """Return the page as text."""
    from markupsafe import Markup

    from weft.base.templates import environment
    from weft.experiments.plots.palette import style_sheet

    templates = environment(HERE / "templates", PARTS / "templates")
    network = results.topology
    picture, width = _picture(results)
    rates = {each.ends: format_rate(each.link.rate_bps) for each in network.directions}
    machine = {
        name: ", ".join(f"{key} {inner}" for key, inner in value.items())
        if isinstance(value, dict) else str(value)
        for name, value in results.environment.items()
    }  # fmt: skip
    return templates.get_template("network_results.html").render(
        results=results,
        carried=sum(each.tx_bytes for each in results.links),
        dropped=sum(each.dropped for each in results.links),
        picture=picture,
        width=width,
        rates=rates,
        programs={each.name: _program(each.program, results) for each in results.switches},
        by_fabric=any(each.counted_by == FABRIC for each in results.links),
        loses=any(each.lost is not None for each in results.links),
        machine=machine,
        why=lambda reason: DROPS.get(reason, reason),
        duration=f"{results.seconds:,.1f} s" if results.seconds >= 1 else f"{results.seconds:g} s",
        size=format_size,
        thousands="{:,}".format,
        style=Markup((PARTS / "report.css").read_text() + style_sheet()),
        script=Markup((PARTS / "report.js").read_text()),
    )


def _program(source: str, results: NetworkResults) -> str:
    if source:
        return source
    return "the fabric's" if results.controlled else "none that Weft has loaded"


def _picture(results: NetworkResults) -> "tuple[Markup, str]":
    """Return the network with the load of each direction, and the picture's width."""
    from markupsafe import Markup

    unit, unit_bytes = byte_unit(max((each.tx_bytes for each in results.links), default=0))
    loads = {
        (each.from_node, each.to_node): each.tx_bytes / unit_bytes for each in results.links
    }  # fmt: skip
    svg = draw_svg(results.topology, loads, unit=unit, title="Frames on each link")
    natural = re.search(r'width="(\d+)"', svg)
    return Markup(svg), natural.group(1) if natural else "900"
