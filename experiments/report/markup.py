"""HTML and SVG as text: elements with escaped attributes and content."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is HTML already; what is not is escaped when it is put into an element."""

    __slots__ = ()


VOID = {"col", "line", "rect", "circle", "path", "meta", "input", "br", "img"}


def element(name: str, *content: object, **attributes: object) -> Markup:
    """One element: ``class_`` is ``class``, ``text_anchor`` ``text-anchor``; None is left out."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(str(text))}"')
    opening = " ".join(parts)
    if name in VOID and not content:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{join(content)}</{name}>")


def join(content: Iterable[object], separator: str = "") -> Markup:
    """Pieces one after the other, escaped unless they are Markup; None is left out."""
    return Markup(
        separator.join(
            piece if isinstance(piece, Markup) else escape(str(piece), quote=False)
            for piece in content
            if piece is not None
        )
    )


def table(
    headings: Iterable[object], rows: Iterable[Iterable[object]], class_: str | None = None
) -> Markup:
    """A table of cells; a cell that is not Markup of its own ``td`` becomes one."""
    head = element("tr", *(_cell(heading, "th") for heading in headings))
    body = [element("tr", *(_cell(cell, "td") for cell in row)) for row in rows]
    return element(
        "div",
        element("table", element("thead", head), element("tbody", *body), class_=class_),
        class_="scroll",
    )


def _cell(cell: object, name: str) -> Markup:
    if isinstance(cell, Markup) and cell.startswith(f"<{name}"):
        return cell
    return element(name, cell)


def number(text: str, value: float | None = None) -> Markup:
    """A cell that stands on the right; `value` is what it is sorted by."""
    return element("td", text, class_="n", data_value=value)


def heading(text: str, title: str | None = None) -> Markup:
    """A column's heading that stands on the right, over numbers."""
    return element("th", text, class_="n", title=title)
