"""What all pages have in common: the frame, the style, and pictures of networks."""

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.base import files
from weft.base.garbage import uncollected
from weft.base.units import format_size
from weft.experiments.plots.palette import style_sheet
from weft.topo.drawing import draw_svg
from weft.topo.network import Topology

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HERE = Path(__file__).resolve().parent


def load() -> Callable[[], None]:
    """Load what fills in and draws pages, which takes a while, in a thread. Returns at once what
    waits for its end: two threads must not import the same package at a time, since one of them
    may then see a module that is half made."""

    def load_all() -> None:
        with suppress(Exception), uncollected():  # whoever writes a page raises it again
            import_module("weft.experiments.report.charts")
            templates()

    loading = threading.Thread(target=load_all, name="report", daemon=True)
    try:
        loading.start()
    except RuntimeError:  # there are no more threads
        return lambda: None
    return loading.join


def templates(*folders: Path) -> "Environment":
    """Return what fills in the templates of pages, those of some folders or of this one, which all
    extend ``base.html``."""
    # Nothing but a report waits for it.
    from markupsafe import Markup

    from weft.base.templates import environment
    from weft.experiments.results.metric import columns_of, metrics_in
    from weft.experiments.results.summary import TIERS

    found = environment(*folders, HERE / "templates")
    found.globals.update(
        style=Markup((HERE / "report.css").read_text() + style_sheet()),
        script=Markup((HERE / "report.js").read_text()),
        verdict_kind=lambda verdict: {"ok": "ok", "strained": "warn"}.get(verdict, "bad"),
        size=format_size,
        thousands="{:,}".format,
        percent="{:.0%}".format,
        tiers=TIERS,
        names_in=lambda of_each: list(dict.fromkeys(chain.from_iterable(of_each))),
        columns_of=columns_of,
        metrics_in=metrics_in,
    )
    return found


def page(template: str, *folders: Path, **shown: Any) -> str:
    """Return a page as text: a template that is filled in, one of some folders or of this one."""
    return templates(*folders).get_template(template).render(shown)


def write_page(page: str, out: Path) -> Path:
    """Write a page, and return its file. Raises InputError for a place where none can be
    written."""
    with files.told_as_input(f"cannot write the report to {str(out)!r}"):
        files.write_whole(out, page)
    return out


def network_drawing(
    network: Topology,
    carried: Mapping[tuple[str, str], int],
    unit: tuple[str, int],
    title: str,
) -> "tuple[Markup, str]":
    """Return a picture of what each direction of the links has carried, and the picture's width.

    Args:
        carried: bytes by (from, to).
        unit: a unit of bytes, and its size.
    """
    from markupsafe import Markup

    name, size = unit
    known = {direction.ends for direction in network.directions}
    loads = {ends: count / size for ends, count in carried.items() if ends in known}
    svg = draw_svg(network, loads, unit=name, title=title)
    natural = re.search(r'width="(\d+)"', svg)
    return Markup(svg), natural.group(1) if natural else "900"
