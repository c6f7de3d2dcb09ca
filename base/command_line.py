"""What the commands of the command line have in common: types of options, and how these are
read."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Optional

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text as StyledText

from weft.base.errors import refuse
from weft.base.streams import escaped, raw

Text = Optional[str]  # noqa: UP045
Place = Text
"""A file or folder to write; `output_folder` and `output_file` read it."""
Flag = Optional[bool]  # noqa: UP045
Texts = Optional[list[str]]  # noqa: UP045


class ShowingConsole(Console):
    """A console that shows control characters in texts; those that rich itself writes are
    obeyed."""

    @property
    def file(self) -> IO[str]:
        """What is written to: as it is, since texts have been escaped by then."""
        return raw(super().file)  # type: ignore[arg-type]

    @file.setter
    def file(self, file: IO[str]) -> None:
        self._file = file

    def render_str(self, text: str, **how: Any) -> StyledText:
        """Escape text before its width is looked at."""
        return super().render_str(escaped(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Escape what came as a styled text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escaped(text), style, control)

    def print_whole(self, table: RenderableType) -> None:
        """Print a table, of which nothing is cut where lines may be of any length."""
        if not self.is_terminal:
            wide = self.options.update(width=1000)
            self.width = max(self.width, self.measure(table, options=wide).maximum)
        self.print()
        self.print(table)


def make_console(*, stderr: bool = False) -> ShowingConsole:
    """Return the console of the terminal. Output to a file or a pipe has lines as long as the
    widest table."""
    console = ShowingConsole(stderr=stderr)
    if not console.is_terminal:
        console.width = max(console.width, 100)
    return console


def output_file(out: str | None, option: str = "--out") -> Path | None:
    """Return the file or folder that an option names; None if it is not given. Raises
    `InputError`."""
    refuse(
        out is not None and not out.strip(),
        f"{option} {out!r} is empty: write a path, or leave the option out",
    )
    return None if out is None else Path(out)


def output_folder(out: str | None, option: str = "--out") -> Path | None:
    """Return the folder that an option names, there already or not; None if it is not given. Raises
    `InputError`."""
    path = output_file(out, option)
    refuse(
        path is not None and path.exists() and not path.is_dir(),
        f"{option} {out!r} is a file: name a folder, there already or not",
    )
    return path


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given a value."""
    return {name: value for name, value in options.items() if value is not None and value != []}


def macros(define: Sequence[str] | None, option: str = "-D") -> dict[str, str | None]:
    """Return the macros that an option defines, by name. Raises `InputError` for what is none."""
    pairs = [text.partition("=") for text in define or []]
    for key, equals, value in pairs:
        refuse(
            not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII),
            f"{option} {key + equals + value!r}: write NAME or NAME=VALUE, the name of letters, "
            f"digits and _, like {'-D ' if option == '-D' else ''}PORTS=64",
        )
    return {key: value if equals else None for key, equals, value in pairs}
