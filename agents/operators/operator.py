"""What a fused operator is: tiles that ranks compute, whose they are, and what the result must be.

An operator has up to four steps. Ranks *gather* inputs of each other; each computes *tiles*, which
go to their owners; the owner *adds* those of all ranks, or *finishes* what has come by itself; and
it *gives* the sums to all. Which of the steps there are is what tells operators apart.

All numbers are float32, and integers so small that sums are exact in any order. They are functions
of seed, operation and place, so every rank can check its result by itself, against a plain
computation that knows no tiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt

from weft.agents.operators.tasks import REMOTE_FIRST
from weft.base.errors import refuse

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Floats = npt.NDArray[np.float32]

ITEM_BYTES = 4
MOST_MAGNITUDE = 3
"""Inputs are whole numbers of this magnitude at most."""


@dataclass(frozen=True)
class Sizes:
    """How large an operator is. What an operator does not have is 0."""

    batch_size: int = 0
    """Rows of the whole input: samples, or tokens."""
    width: int = 0
    """Columns of the result."""
    inner: int = 0
    """The dimension that a multiplication sums over."""
    tables: int = 0
    table_rows: int = 0
    pooling: int = 0
    """How many rows of a table are summed for a sample."""
    experts: int = 0
    top_k: int = 0
    """How many experts a token goes to."""
    imbalance: float = 0.0
    """How uneven experts are wanted: expert e is drawn in proportion to (e + 1) ** -imbalance."""
    tile_rows: int = 0
    """Rows of a tile; 0: the operator's choice."""
    dispatch: str = ""
    """How tokens get to their experts: ``unicast`` or ``multicast``; empty: they are there."""
    combines: bool = False
    """Whether what experts make of a token is added on its way to the token's owner."""


class Tile(NamedTuple):
    """A tile is a run of bytes of its owner's part of the result."""

    owner: int
    first: int
    """The place of its first byte in what comes to its owner: of operators that add, in the owner's
    part; of others, in the owner's landing place."""
    size_bytes: int
    flops: int
    memory_bytes: int
    """What computing it reads and writes: what several tiles read is in caches after the first, so
    each has its share of that."""
    needs: tuple[int, ...] = ()
    """The numbers of the inputs that it needs of other ranks."""
    source: int = -1
    """The rank by whose turn it is computed: the owner, or the one that its inputs come from."""
    contributors: tuple[int, ...] = ()
    """The ranks whose tile of these bytes is more than zeros, where they are added; empty: all."""


class Input(NamedTuple):
    """An input is a run of bytes that one rank has and others need."""

    source: int
    destinations: tuple[int, ...]
    first: int
    """Its first byte in the source's own inputs..."""
    targets: tuple[int, ...]
    """... and in what each of the destinations has gathered."""
    size_bytes: int


def remembered(
    method: Callable[Arguments, Result], most: int | None = None
) -> Callable[Arguments, Result]:
    """Return an object's method that remembers what it returned, by its arguments, as
    ``functools.lru_cache`` does, but without a reference to the object.

    So an operator that keeps it is in no circle of references, and its weights, which may be
    gigabytes, go when the operator does, not when the garbage collector looks for circles.
    """
    reference = WeakMethod(cast(Callable[..., Result], method))

    @lru_cache(maxsize=most)
    def found(*arguments: Any) -> Result:
        own = reference()
        assert own is not None, "the operator that remembers is gone"
        return own(*arguments)

    return cast(Callable[Arguments, Result], found)


class Operator:
    """A fused operator on some ranks.

    Raises:
        InputError: sizes that ranks or tiles do not divide.
    """

    name: str
    about: str
    adds = False
    """Whether owners add the tiles of all ranks."""
    gives = False
    """Whether owners give sums to all."""
    finishes = False
    """Whether a rank's result is made of all that has come to it, at the end; of an operator that
    adds, too, of the sums."""
    order = REMOTE_FIRST
    """The order of tasks where none is asked for."""
    defaults = Sizes()

    def __init__(self, sizes: Sizes, ranks: int, seed: int) -> None:
        self.sizes, self.ranks, self.seed = sizes, ranks, seed
        self.check()
        self.tiles = remembered(self._tiles)
        self.inputs: tuple[Input, ...] = ()

    # -- what a subclass says

    def check(self) -> None:
        """Raise `InputError` for sizes that make no sense."""
        raise NotImplementedError

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        """Return a rank's tiles; those of one owner follow each other, and so do their bytes."""
        raise NotImplementedError

    def landing_bytes(self, rank: int) -> int:
        """Return the size of what comes to a rank: of operators that add, that of its part."""
        raise NotImplementedError

    def result_bytes(self, rank: int) -> int:
        """Return the size of a rank's result."""
        raise NotImplementedError

    def input_bytes(self, rank: int) -> int:
        """Return the size of what others may need of a rank."""
        return 0

    def gathered_bytes(self, rank: int) -> int:
        """Return the size of what a rank gathers of others."""
        return 0

    def most_tiles(self) -> int:
        """Return how many tiles all ranks have together, or a little more."""
        raise NotImplementedError

    def kept_numbers(self) -> int:
        """Return how many numbers of 4 bytes a process keeps to compute and check, roughly."""
        raise NotImplementedError

    def own_inputs(self, rank: int, number: int) -> Floats:
        """Return what others may need of a rank, flat. `number` is the operation's."""
        return np.zeros(0, np.float32)

    def compute(self, rank: int, number: int, tile: int, own: Floats, gathered: Floats) -> Floats:
        """Return the values of a rank's tile, flat."""
        raise NotImplementedError

    def finish(self, rank: int, number: int, landed: Floats) -> Floats:
        """Return a rank's result, flat, from what has come to it."""
        raise NotImplementedError

    def expected(self, rank: int, number: int) -> Floats:
        """Return what a rank's result must be, flat, by a plain computation."""
        raise NotImplementedError

    # -- what it says by that

    @property
    def computed_bytes(self) -> int:
        """Return the size of all tiles of all ranks."""
        landing = sum(map(self.landing_bytes, range(self.ranks)))
        return landing * self.ranks if self.adds else landing

    def part_first(self, owner: int) -> int:
        """Return where an owner's part begins in a result that all get."""
        return sum(map(self.landing_bytes, range(owner)))

    def numbers(self, *key: int, shape: Sequence[int], most: int = MOST_MAGNITUDE) -> Floats:
        """Return whole numbers of magnitude `most` at most, which the key tells."""
        random = np.random.default_rng([self.seed, *key])
        return random.integers(-most, most + 1, shape, np.int8).astype(np.float32)


def flat(values: npt.NDArray[Any]) -> Floats:
    """Return numbers as float32, flat."""
    found: Floats = np.asarray(values, np.float32).reshape(-1)
    return found


def divided(total: int, parts: int, what: str, whose: str) -> int:
    """Return the size of each of some equal parts.

    Raises:
        InputError: there are none, or the total is no multiple of the parts.
    """
    refuse(
        total < 1 or total % parts != 0,
        f"{what} {total} for {parts} {whose}: each gets as many; choose a multiple of {parts}",
    )
    return total // parts


def rows_of_tile(asked: int, rows: int, tiles: int, what: str) -> int:
    """Return how many rows a tile has.

    Args:
        asked: as many; 0: such that the rows make up to `tiles` equal tiles.

    Raises:
        InputError: the rows are no multiple of what is asked.
    """
    if asked:
        refuse(
            rows % asked != 0,
            f"tile-rows {asked}: no such tiles divide the {rows} {what}; choose a divisor of "
            f"{rows}",
        )
        return asked
    count = max(count for count in range(1, min(tiles, rows) + 1) if not rows % count)
    return rows // count
