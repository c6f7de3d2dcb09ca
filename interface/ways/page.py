"""A walk as one self-contained HTML page."""

from collections import Counter
from pathlib import Path

from weft.experiments.report.base import network_drawing, page
from weft.interface.ways.told import HIDDEN, document, output_text, step_text, verdict
from weft.interface.ways.walk import Walk

TEMPLATES = Path(__file__).resolve().parent / "templates"


def render(walk: Walk) -> str:
    """Return the page as text."""
    shown = document(walk)
    carried: Counter[tuple[str, str]] = Counter({one.ends: 0 for one in walk.topology.directions})
    for output in walk.outputs:
        if output.link:
            carried[output.ends] += 1
    picture, width = network_drawing(walk.topology, carried, ("packets", 1), "Frames on the links")
    return page(
        "way_page.html",
        TEMPLATES,
        walk=walk,
        size=len(walk.start.frame),
        verdict=list(verdict(walk, shown["summary"])),
        reached=bool(shown["summary"]["always"]),
        picture=picture,
        width=width,
        hidden=HIDDEN,
        step_text=step_text,
        output_text=lambda output: output_text(walk, output),
    )
