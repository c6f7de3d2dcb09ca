"""Breakpoints: lines and names, with conditions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from weft.base.errors import InputError
from weft.switch.debugger.expressions import evaluated, parsed
from weft.switch.debugger.places import Line, Named, Places
from weft.switch.debugger.values import View


@dataclass
class Breakpoint:
    """A place to stop at, if a condition holds there."""

    number: int
    at: Line | Named
    condition: str = ""
    hits: int = 0

    def __str__(self) -> str:
        condition = f" if {self.condition}" if self.condition else ""
        times = f", hit {self.hits} time{'s' if self.hits > 1 else ''}" if self.hits else ""
        return f"{self.number}: {self.at}{condition}{times}"


@dataclass
class Breakpoints:
    """The breakpoints of a program."""

    places: Places
    all: dict[int, Breakpoint] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def add(self, at: Line | Named, condition: str = "") -> Breakpoint:
        """Set a breakpoint. Raises InputError for a condition that is no expression."""
        if condition:
            parsed(condition)
        new = Breakpoint(next(self.numbers), at, condition)
        self.all[new.number] = new
        return new

    def add_text(self, text: str) -> Breakpoint:
        """Set a breakpoint as it is written: ``LINE``, ``FILE:LINE`` or a name, and behind it
        perhaps ``if CONDITION``. Raises InputError."""
        place, _, condition = text.strip().partition(" if ")
        file, _, number = place.strip().rpartition(":")
        at: Line | Named
        if number.isdecimal() and number.isascii():
            if not file and not self.places.lines:
                raise InputError("the program does not say from which lines it was compiled")
            at = self.places.line(file or self.places.lines[0].file, int(number[:9]))
        else:
            at = self.places.name(place.strip())
        return self.add(at, condition.strip())

    def remove(self, number: int) -> None:
        """Remove a breakpoint. Raises InputError."""
        if number not in self.all:
            known = ", ".join(map(str, self.all)) or "none"
            raise InputError(f"there is no breakpoint {number}; there are: {known}")
        del self.all[number]

    def hit(self, line: Line | None, named: Named | None, view: View) -> tuple[list[int], str]:
        """Return the breakpoints that a place hits, and what was wrong with a condition: then its
        breakpoint is hit, too."""
        found, wrong = [], ""
        for one in self.all.values():
            if one.at not in (line, named):
                continue
            try:
                holds = not one.condition or bool(evaluated(one.condition, view))
            except InputError as error:
                holds, wrong = True, f"the condition of breakpoint {one.number}: {error}"
            if holds:
                one.hits += 1
                found.append(one.number)
        return found, wrong
