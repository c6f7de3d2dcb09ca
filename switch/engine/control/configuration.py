"""The program that a switch runs and what its controller has set of it, by their names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.engine.control.contents import Contents, ProfileState, ValueSetState
from weft.switch.engine.control.errors import InvalidValue, NoProgram, NotFound
from weft.switch.engine.control.tables import TableState
from weft.switch.engine.program.attachments import Meter
from weft.switch.engine.program.program import Cells, Program

Item = TypeVar("Item")
Array = TypeVar("Array", Cells, Meter)


@dataclass
class Configuration:
    """The program of a switch, and what is set of its tables, profiles and value sets.

    ``switch`` is the switch's name, for messages. All methods that look something up raise
    NoProgram when no program is loaded, and NotFound for an unknown name.
    """

    switch: str
    pipeline: Pipeline | None = None
    contents: Contents = field(default_factory=Contents)
    running: bool = False
    """Whether the arrays of this program are in place."""

    def begin(self, pipeline: Pipeline, contents: Contents) -> None:
        """Take another program. Its arrays are put in place later."""
        self.pipeline, self.contents, self.running = pipeline, contents, False

    def program(self) -> Program:
        """Return the program that runs."""
        if self.pipeline is None:
            raise NoProgram(f"switch {self.switch!r} has no program: load one first")
        return self.pipeline.program

    def _named(self, kind: str, items: Mapping[str, Item], name: str) -> Item:
        self.program()
        if name not in items:
            raise NotFound(
                f"the program has no {kind} {name!r}; it has: {', '.join(items) or 'none'}"
            )
        return items[name]

    def table(self, name: str) -> TableState:
        """Return a table and what is in it."""
        return self._named("table", self.contents.tables, name)

    def profile(self, name: str) -> ProfileState:
        """Return an action profile and what is in it."""
        return self._named("action profile", self.contents.profiles, name)

    def value_set(self, name: str) -> ValueSetState:
        """Return a parser's value set and its members."""
        return self._named("value set", self.contents.value_sets, name)

    def array(self, kind: str, arrays: Mapping[str, Array], name: str, index: int) -> Array:
        """Return one of the counters, registers or meters, which has a cell ``index``.

        Raises InvalidValue if it has no such cell.
        """
        array = self._named(kind, arrays, name)
        if not 0 <= index < array.size:
            raise InvalidValue(f"{kind} {name!r} has cells 0 to {array.size - 1}, not {index}")
        return array
