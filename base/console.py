"""The terminal's console, as Weft writes to it."""

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from weft.base.streams import escaped, raw


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

    def render_str(self, text: str, **how: Any) -> Text:
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
