"""Sums that hosts make of data that travel without bytes: which memory was added to what, and
when."""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.agents.transport.payload_layout import Landings


class NotedSum(NamedTuple):
    """A host combined vectors of so many `elements` into one, or copied bytes."""

    step: int
    """When: as `payload_layout.Landings` numbers what is sent and what lands."""
    out: int
    """Addresses of the result..."""
    vectors: tuple[int, ...]
    """... and of what it is made of."""
    elements: int
    item_bytes: int
    """The bytes of an element of the vectors, 0 where as many bytes as `elements` were copied..."""
    out_item_bytes: int
    """... and of the result."""


class NotedSums:
    """All sums that hosts of a world have made, in their order.

    Args:
        landings: what numbers the steps.
    """

    def __init__(self, landings: Landings) -> None:
        self._landings = landings
        self._words = array("q")

    def note(
        self,
        out: int,
        vectors: Sequence[int],
        elements: int,
        item_bytes: int,
        out_item_bytes: int | None = None,
    ) -> None:
        """Take note of a sum that is made now; the arguments are those of `NotedSum`, and elements
        are as large in the result if nothing else is said."""
        if not elements:
            return
        self._landings.step += 1
        sizes = item_bytes, item_bytes if out_item_bytes is None else out_item_bytes
        self._words.extend((self._landings.step, out, elements, *sizes, len(vectors), *vectors))

    def note_copy(self, out: int, source: int, size_bytes: int) -> None:
        """Take note of bytes that are copied now."""
        self.note(out, (source,), size_bytes, 0)

    def __iter__(self) -> Iterator[NotedSum]:
        words = self._words
        at = 0
        while at < len(words):
            step, out, elements, item_bytes, out_item_bytes, number = words[at : at + 6]
            at += 6 + number
            vectors = tuple(words[at - number : at])
            yield NotedSum(step, out, vectors, elements, item_bytes, out_item_bytes)

    def forget(self) -> None:
        """Begin again."""
        del self._words[:]
