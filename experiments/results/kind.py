"""A kind of results document, with what commands for results make of it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weft.base.errors import InputError
from weft.experiments.results.document import Document
from weft.experiments.results.rows import Row

if TYPE_CHECKING:
    from rich.table import Table

D = TypeVar("D", bound=Document)


class ResultsKind(Generic[D]):
    """A kind of results document: its flat tables, its page, and how two of them differ."""

    document: type[D]
    tables: Sequence[str]
    """The names of its flat tables."""

    def rows(self, results: D, table: str) -> list[Row]:
        """Return one of its `tables` as rows, all with the same keys in the same order."""
        raise NotImplementedError

    def columns(self, results: D, table: str) -> Sequence[str]:
        """Return the names of the columns of one of its `tables` that has no rows."""
        return ()

    def page(self, results: D, folder: Path) -> str:
        """Return its report, as HTML; the folder is that of the document."""
        raise NotImplementedError

    def differences(self, one: D, other: D, names: tuple[str, str]) -> "Iterator[Table | str]":
        """Yield tables and lines for the terminal: how two documents, of these names, differ.
        Raises InputError for two that have nothing in common."""
        raise InputError(
            f"{names[0]!r} and {names[1]!r} are results of {self.document.WRITTEN_BY!r}: there is "
            "nothing to compare in such"
        )

    def table(self, results: D, table: str) -> tuple[list[Row], Sequence[str]]:
        """Return a table as rows, and its columns where it has none. Raises InputError for a table
        that there is not."""
        if table not in self.tables:
            raise InputError(f"table {table!r}: results have the tables {', '.join(self.tables)}")
        return self.rows(results, table), self.columns(results, table)


AnyKind = ResultsKind[Any]
