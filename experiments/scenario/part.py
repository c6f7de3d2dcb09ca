"""What a kind of work adds to the result of a run: a part of it, with all that is told of it.

Help asks for the names of its tables: so modules that have parts import little, and the methods of
parts import what they need.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, ClassVar, TypeAlias

import msgspec

Run: TypeAlias = Any
"""A `weft.experiments.results.results.Run`, which has parts."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a run's result. The fields of a subclass are those of an object in the run's
    document, which stands under `key`."""

    key: ClassVar[str]
    """Its name in the run's document, and as an attribute of the run."""
    is_always_written: ClassVar[bool] = False
    """Whether the documents of all runs have the name, with null where there is no such part."""
    table: ClassVar[str] = ""
    """The name of the flat table that is made of it; without one there is none."""
    columns: ClassVar[Sequence[str]] = ()
    """The columns of that table: fields that are lists of the same length. Any other name numbers
    the rows."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table."""
        lists = [getattr(self, name, count()) for name in self.columns]
        for values in zip(*lists, strict=False):
            yield dict(zip(self.columns, values, strict=True))

    @classmethod
    def remark(cls, algorithm: str, runs: Sequence[Run]) -> str:
        """Return a line below the terminal's table of one point, or nothing.

        Args:
            runs: those of the algorithm that have such a part: the verified ones, or one that is
                not.
        """
        return ""
