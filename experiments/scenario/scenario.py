"""A scenario: all that is asked of a run, with its defaults, checked before anything starts.

A scenario comes from the command line, from a TOML file with the same options, or from Python. It
is plain data that never changes; `Scenario.network` says which network it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.experiments.scenario.asked import OPTIONS, Asked, title_of
from weft.experiments.scenario.resolve import resolve

__all__ = ["Scenario", "title_of"]


@dataclass(frozen=True, init=False)
class Scenario(Asked):
    """What is to be run: made of what is asked, by the names of the fields of `Asked`.

    Raises:
        InputError: what is asked makes no sense.
    """

    if not TYPE_CHECKING:  # to a type checker its arguments are those of Asked

        def __init__(self, *args: Any, **asked: Any) -> None:
            super().__init__(**vars(resolve(Asked(*args, **asked))))

    def each_seed(self) -> list[Scenario]:
        """Return the scenario with each of its seeds, which still names them all; itself if it has
        one."""
        return [replace(self, seed=seed) for seed in self.seeds] or [self]

    def part(self, collective: str, algorithm: str, **changes: Any) -> Scenario:
        """Another collective on the same network: of what it does not heed, the defaults."""
        it = Asked(collective, algorithms=(algorithm,))
        defaults = {
            row.field: row.default
            for row in OPTIONS.values()
            if row.heeded is not None and not it.heeds(row)
        }
        return replace(
            self, **{**defaults, "collective": collective, "algorithms": (algorithm,), **changes}
        )

    def runs(self) -> Iterator[tuple[str, int, str]]:
        """Return what is to be run, in order: algorithm, repetition, and how to call it."""
        for algorithm in self.algorithms:
            for repetition in range(self.repeat):
                label = f"{self.title} by {algorithm}"
                if self.repeat > 1:
                    label += f", {repetition + 1} of {self.repeat}"
                yield algorithm, repetition, label
