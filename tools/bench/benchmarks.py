"""The benchmarks of ``weft bench``, and the files that their figures are written to."""

import importlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.base import files
from weft.base.errors import InputError, did_you_mean

NAMES = (
    "balance", "bring-up", "capacity", "compiler", "engines", "progress-engine", "pytorch",
    "reduction", "simulator", "start", "switch", "torch-failures", "transport",
)  # fmt: skip
"""Each name is a module ``weft.tools.bench.NAME`` with ``measure`` and, maybe, ``plot``,
which returns a figure of matplotlib's. A template of that name, or ``lines`` of the module, writes
the figures for a person to read."""


def load(name: str) -> ModuleType:
    """Return the module of a benchmark. Raises `InputError` if no benchmark has this name."""
    if name not in NAMES:
        hint = did_you_mean(name, NAMES)
        raise InputError(f"no benchmark {name!r}{hint}: choose from {', '.join(NAMES)}")
    return importlib.import_module(f"weft.tools.bench.{name.replace('-', '_')}")


def lines(name: str, figures: Mapping[str, Any]) -> list[str]:
    """Return a benchmark's figures as lines for a person to read."""
    module = load(name)
    return module.lines(figures) if hasattr(module, "lines") else filled_in(name, figures)


def filled_in(template: str, figures: Mapping[str, Any]) -> list[str]:
    """Return the lines of a template into which figures are filled by their names."""
    from weft.base.templates import environment  # nothing but a text waits for it

    templates = environment(Path(__file__).with_name("templates"))
    return templates.get_template(f"{template}.txt").render(figures).splitlines()


def table_lines(
    title: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return a table of columns, each with how it is written of a row: text on the left, numbers on
    the right."""
    from rich.console import Console  # nothing but a table waits for them
    from rich.table import Table

    table = Table(title=title)
    for name, form in columns.items():
        table.add_column(name, justify="left" if form.endswith("!s}") else "right")
    for row in rows:
        table.add_row(*(form.format(**row) for form in columns.values()))
    text = io.StringIO()
    Console(file=text, width=110, force_terminal=False).print(table)
    return text.getvalue().splitlines()


def check_writable(folder: Path) -> None:
    """Raise InputError, before minutes are spent on measuring, if a folder cannot be made or
    written to; leave nothing behind."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"--out {str(folder)!r} cannot be written: name another folder")


def write(module: ModuleType, name: str, figures: dict[str, Any], folder: Path) -> list[Path]:
    """Write ``NAME.json`` and, if the module plots, ``NAME.svg`` and ``NAME.png``.

    Returns the files. Raises `InputError` if they cannot be written.
    """
    contents: dict[str, bytes | str] = {f"{name}.json": json.dumps(figures, indent=1) + "\n"}
    if hasattr(module, "plot"):
        for ending in ("svg", "png"):
            drawn = io.BytesIO()
            module.plot(figures).savefig(drawn, format=ending)
            contents[f"{name}.{ending}"] = drawn.getvalue()
    try:
        for file, content in contents.items():
            files.write_whole(folder / file, content, folders=True)
    except OSError as error:
        raise InputError(
            f"--out {str(folder)!r} cannot be written: {error.strerror}; name another folder"
        ) from None
    return [folder / file for file in contents]
