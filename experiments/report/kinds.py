"""All kinds of results documents: those of runs, of networks that were up, and what kinds of work
with a command of their own write."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from weft.experiments.report import network, page
from weft.experiments.results.differences import difference_lines, difference_table, pairs_of
from weft.experiments.results.document import Document, schema_of
from weft.experiments.results.kind import AnyKind, ResultsKind
from weft.experiments.results.network import NetworkResults
from weft.experiments.results.results import Results
from weft.experiments.results.rows import TABLES, Row, columns_of
from weft.experiments.scenario.families import families

if TYPE_CHECKING:
    from rich.table import Table


class OfRuns(ResultsKind[Results]):
    """Results of ``weft run``."""

    document = Results
    tables = tuple(TABLES)

    def rows(self, results: Results, table: str) -> list[Row]:
        return results.rows(table)

    def columns(self, results: Results, table: str) -> Sequence[str]:
        return columns_of(results.swept, table)

    def page(self, results: Results, folder: Path) -> str:
        return page.render(results)

    def differences(
        self, one: Results, other: Results, names: tuple[str, str]
    ) -> "Iterator[Table | str]":
        pairs = pairs_of(one, other)
        yield difference_table(pairs, dict(zip(("one", "other"), names, strict=True)))
        yield from difference_lines(pairs, one, other)


class OfNetworks(ResultsKind[NetworkResults]):
    """Results of ``weft up``: what links have carried, and what switches held at the end."""

    document = NetworkResults
    tables = ("links", "switches", "tables")

    def rows(self, results: NetworkResults, table: str) -> list[Row]:
        if table == "links":
            return [msgspec.to_builtins(each) for each in results.links]
        if table == "tables":
            return [
                {"switch": switch.name, **msgspec.to_builtins(each)}
                for switch in results.switches
                for each in switch.tables
            ]
        reasons = dict.fromkeys(reason for each in results.switches for reason in each.dropped)
        return [
            {
                "switch": each.name,
                "device_id": each.device_id,
                "program": each.program,
                **{f"dropped_{reason}": each.dropped.get(reason, 0) for reason in reasons},
            }
            for each in results.switches
        ]

    def columns(self, results: NetworkResults, table: str) -> Sequence[str]:
        return ("switch", "name", "size", "entries") if table == "tables" else ()

    def page(self, results: NetworkResults, folder: Path) -> str:
        return network.render(results)


RUNS = OfRuns()


def opened(folder: Path) -> tuple[AnyKind, Document]:
    """Return the kind of the results in a folder, or in a document, and these. Raises
    `InputError`."""
    kinds: list[AnyKind] = [
        RUNS,
        OfNetworks(),
        *(kind for one in families() for kind in one.documents()),
    ]
    schema = schema_of(folder)
    kind = next((each for each in kinds if schema == each.document.SCHEMA), RUNS)
    return kind, kind.document.read(folder)
