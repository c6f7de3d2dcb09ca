"""The reference of all options, as Markdown that is made from their table."""

import re

from weft.base.option import GROUPS, Option
from weft.experiments.scenario.asked import OPTIONS, is_used
from weft.experiments.scenario.families import choices

_PLACE = re.compile(r"(<!-- options -->\n).*?(<!-- end of options -->)", re.DOTALL)


def with_options(text: str) -> str:
    """Return a page with the reference between two comments, if the page has these."""
    return _PLACE.sub(lambda found: f"{found[1]}{reference()}{found[2]}", text)


def reference() -> str:
    """Return a table for each group of options."""
    lines = []
    for group in GROUPS:
        lines += [
            "",
            f"## {group}",
            "",
            "| option | value | what | used by |",
            "|---|---|---|---|",
            *(_line(row) for row in OPTIONS.values() if row.group == group and row.help),
        ]
    return "\n".join([*lines, "", ""])


def _line(row: Option) -> str:
    using = [name for name in choices() if is_used(row, name)]
    used = "all" if len(using) == len(choices()) else ", ".join(using)
    value = ", ".join(f"`{choice}`" for choice in row.choices) or row.kind.unit
    if isinstance(row.between, tuple):
        value += f" from {row.kind.write(row.between[0])} to {row.kind.write(row.between[1])}"
    cells = (f"`{row.name}`", value, row.described, used)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
