"""Meters and digests of a program, as BMv2 JSON has them."""

from dataclasses import dataclass

from weft.switch.engine.program.headers import Field
from weft.switch.engine.program.words import join_words


@dataclass(frozen=True)
class Meter:
    """A meter array, which counts packets or bytes; ``base`` is its first cell.

    Of a direct meter ``target`` is the field that gets the colour, and the cells are the entries',
    the default entry's first.
    """

    name: str
    base: int
    size: int
    packets: bool
    target: Field | None = None


@dataclass(frozen=True)
class LearnList:
    """A digest: the fields and constants that it tells the controller, in their order."""

    identifier: int
    name: str
    elements: tuple[Field | int, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the elements without the constants."""
        return tuple(element for element in self.elements if not isinstance(element, int))

    @property
    def words(self) -> int:
        """Return how many words a sample has."""
        return sum(field.data_words for field in self.fields)

    def values(self, words: list[int]) -> tuple[int, ...]:
        """Return the values of a sample, without sign."""
        values = join_words(words, (field.width for field in self.fields))
        return tuple(
            element if isinstance(element, int) else next(values) for element in self.elements
        )
