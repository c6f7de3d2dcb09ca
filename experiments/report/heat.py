"""The report's heat maps: a picture of one pixel a link and bin of time, with words around it."""

from __future__ import annotations

import base64
import struct
import zlib

from weft.experiments.plots.heatmap import RAMP, HeatMap
from weft.experiments.report.charts import ticks
from weft.experiments.report.markup import Markup, element
from weft.experiments.results.summary import time_unit

WIDTH, LEFT, RIGHT = 1000.0, 150.0, 30.0
ROW, LEAST_HEIGHT, MOST_HEIGHT = 11.0, 120.0, 620.0
STEPS = 64
"""Of the colours from nothing to a full link."""


def chart(shown: HeatMap) -> Markup:
    """The map of one run, as SVG: time to the right, a row a direction of a link."""
    rows = len(shown.names)
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, ROW * rows))
    picture = base64.b64encode(_picture(shown)).decode()
    parts = [
        element(
            "image", x=LEFT, y=0.0, width=WIDTH - LEFT - RIGHT, height=height,
            preserveAspectRatio="none", style="image-rendering:pixelated",
            href=f"data:image/png;base64,{picture}",
        )
    ]  # fmt: skip
    for place, name in shown.marks():
        parts.append(_text(LEFT - 8, place / rows * height + 3.5, name, "end", "row"))
    unit, unit_ns = time_unit(shown.end_ns)
    for tick in ticks(shown.end_ns, unit_ns):
        x = LEFT + tick / shown.end_ns * (WIDTH - LEFT - RIGHT)
        said = f"{tick / unit_ns:g} {unit}" if tick else "0"
        parts.append(element("line", x1=x, x2=x, y1=height, y2=height + 5, class_="axis"))
        parts.append(_text(x, height + 20, said, "middle", "tick"))
    return element(
        "svg",
        element("title", f"Loads of {rows} directions of links over time"),
        *parts,
        viewBox=f"0 0 {WIDTH:.0f} {height + 28:.0f}",
        class_="chart heat",
        role="img",
    )


def legend() -> Markup:
    """What the colours mean."""
    colours = ", ".join(f"rgb{colour}" for colour in RAMP)
    bar = element("span", class_="ramp", style=f"background:linear-gradient(90deg, {colours})")
    return element("p", "nothing ", bar, " all that the link carries", class_="legend")


def _text(x: float, y: float, words: str, anchor: str, class_: str) -> Markup:
    return element("text", words, x=x, y=y, text_anchor=anchor, class_=class_)


def _picture(shown: HeatMap) -> bytes:
    """A PNG file of one byte a pixel, which is a place in a palette."""
    width, height = len(shown.loads[0]), len(shown.loads)
    lines = b"".join(
        b"\0" + bytes(round((STEPS - 1) * load) for load in row) for row in shown.loads
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"PLTE", _palette()),
            (b"IDAT", zlib.compress(lines, 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _palette() -> bytes:
    found = bytearray()
    for step in range(STEPS):
        place = step / (STEPS - 1) * (len(RAMP) - 1)
        low = min(int(place), len(RAMP) - 2)
        for one, other in zip(RAMP[low], RAMP[low + 1], strict=True):
            found.append(round(one + (other - one) * (place - low)))
    return bytes(found)
