"""Which algorithm carries out which collective of PyTorch, by size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.agents.collectives.dtypes import is_integer
from weft.agents.collectives.names import ALGORITHMS, algorithms
from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import listed, parse_size
from weft.pytorch.defaults import DEFAULTS, FALLBACKS, SMALL_BYTES

CHOSEN = ("allgather", "broadcast", "reduce-scatter", "allreduce")
"""The collectives whose algorithm can be chosen. All others have one."""


@dataclass(frozen=True)
class AlgorithmChoice:
    """A choice says by which algorithm a collective is done, by its bytes."""

    collective: str
    steps: tuple[tuple[int | None, str], ...]
    """(the size in bytes below which it is used, or None: always; the algorithm), in order."""
    asked: bool = True
    """Whether somebody has asked for it; it is the default otherwise."""

    def of(self, size_bytes: int) -> str:
        """Return the algorithm for so many bytes."""
        return next(name for below, name in self.steps if below is None or size_bytes < below)

    def __str__(self) -> str:
        return ",".join(name if below is None else f"{name}<{below}" for below, name in self.steps)


def parse_choice(collective: str, text: str) -> AlgorithmChoice:
    """Return the choice that a text describes, like ``ring`` or ``ring<64KiB,switch``.

    Raises:
        InputError: there is no such algorithm, or a size makes no sense.
    """
    known = list(algorithms()[collective])
    steps: list[tuple[int | None, str]] = []
    parts = [part.strip() for part in text.split(",")]
    for place, part in enumerate(parts):
        name, less, size = part.partition("<")
        name = name.strip()
        if name not in known:
            raise InputError(
                f"--{collective} {text!r}: algorithm {name!r} is "
                f"unknown{did_you_mean(name, known)}; choose {listed(known, 'or')}, or several by "
                f"size, like 'ring<64KiB,{known[0]}'"
            )
        last = place == len(parts) - 1
        refuse(
            bool(less) == last,
            f"--{collective} {text!r}: the last algorithm has no size, and each one before it has "
            f"one, below which it is used, like 'ring<64KiB,{known[0]}'",
        )
        below = parse_size(size.strip()) if less else None
        refuse(
            below is not None and steps and below <= (steps[-1][0] or 0),
            f"--{collective} {text!r}: sizes grow from one algorithm to the next",
        )
        steps.append((below, name))
    return AlgorithmChoice(collective, tuple(steps))


@dataclass
class Choices:
    """All choices of a run, and what a group can do."""

    by_collective: Mapping[str, AlgorithmChoice]
    multicasts: bool
    """Whether the group has multicast groups of the switches."""
    adds: bool
    """Whether switches add for it."""
    notes: set[str] = field(default_factory=set)
    """Why another algorithm than the chosen one was used."""

    def algorithm(
        self, collective: str, size_bytes: int, dtype: str = "uint8", op: str = "sum"
    ) -> str:
        """Return the algorithm for a collective; if the chosen one cannot do it, another one that
        can, with a note."""
        name = self.by_collective[collective].of(size_bytes)
        why = self.why_not(collective, name, dtype, op)
        if why:
            able = parse_choice(collective, FALLBACKS[collective]).of(size_bytes)
            if self.by_collective[collective].asked:
                self.notes.add(f"{collective} by {able}, not {name}: {why}")
            return able
        return name

    def goes_by_messages(
        self, collective: str, sizes: Sequence[int], ranks: int, most: int
    ) -> bool:
        """Return whether a collective goes by messages, as it is so small, and nobody has asked for
        an algorithm.

        Args:
            sizes: the bytes of each rank's part, or of the only one.
            most: the most bytes that a rank may give.
        """
        if self.by_collective[collective].asked or collective not in ("allgather", "allreduce"):
            return False
        is_small = 0 < sizes[0] * ranks <= SMALL_BYTES and sizes[0] <= most
        return len(set(sizes)) == 1 and is_small

    def why_not(self, collective: str, name: str, dtype: str, op: str) -> str:
        """Return why an algorithm cannot do a collective, or an empty text."""
        kind = ALGORITHMS[name]
        if kind.multicasts and not self.multicasts:
            return "the switches hold no multicast group for it"
        if kind.adds and not self.adds:
            return "the switches hold no aggregation tree for it"
        why: str = kind.why_not(op, dtype)
        asked = self.by_collective[collective].asked
        if not why and kind.saturates and is_integer(dtype) and not asked:
            return "sums of integers wrap around elsewhere, and stay at their ends in switches"
        return why


def choices_of(asked: Mapping[str, str]) -> dict[str, AlgorithmChoice]:
    """Return the choices by collective, the default where nothing is asked.

    Raises:
        InputError: something that is asked makes no sense.
    """
    for collective in asked:
        if collective not in CHOSEN:
            raise InputError(
                f"collective {collective!r} has no choice of algorithms: {', '.join(CHOSEN)} have"
            )
    return {
        collective: parse_choice(collective, asked[collective])
        if collective in asked
        else replace(parse_choice(collective, DEFAULTS[collective]), asked=False)
        for collective in CHOSEN
    }
