"""All ways of a packet through a switch: every outcome of its choices, without a packet sent.

A way is a run with given answers; where it meets a choice beyond them, it takes the first
alternative and leaves the others for later runs.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.base.errors import RunError
from weft.switch.interpreter.interpreter import Interpreter
from weft.switch.interpreter.steps import PAUSES, Choice, Step

MOST_WAYS = 256
"""Of one packet through one switch, if nothing else is said."""

MOST_NUMBERS = 64
"""Of a random number with more alternatives those are tried at which a program may tell them
apart: its bounds, and the numbers that stand in the program and its entries."""

UNSEEN = frozenset(("primitive", "choice", "assigned", "register", "message"))
"""Events in which ways may differ, and still lead the same way."""


@dataclass(frozen=True)
class Way:
    """One way of a packet through a switch, or several that lead the same way."""

    steps: tuple[Step, ...]
    choices: tuple[str, ...] = ()
    """What was chosen, of the first of them."""
    count: int = 1
    """How many combinations of choices lead this way."""
    failed: str = ""
    """Why it has no end."""


@dataclass(frozen=True)
class Ways:
    """All ways of a packet through a switch that were looked at."""

    ways: tuple[Way, ...]
    cut: bool = False
    """Whether there are others."""
    sampled: bool = False
    """Whether random numbers stand for others."""


class Explorer:
    """Follows packets through one switch, all ways or one; its memory stays as it is."""

    def __init__(self, switch: Interpreter) -> None:
        self.switch = switch
        self.sampled = False
        self._numbers = sorted(numbers_of(switch))

    def follow(self, port: int, frame: bytes, answer: Callable[[Choice], int]) -> Way:
        """Return the way of a packet whose choices a function makes."""
        switch = replace(self.switch, memory=self.switch.memory.over())
        steps: list[Step] = []
        chosen: list[str] = []
        run, reply = switch.run(port, frame), None
        try:
            while True:
                step = run.send(reply)
                if step.event not in PAUSES:
                    steps.append(kept(step))
                reply = None
                if isinstance(step, Choice):
                    reply = answer(step)
                    chosen.append(choice_text(step, reply))
        except StopIteration:
            return Way(tuple(steps), tuple(chosen))
        except RunError as error:
            return Way(tuple(steps), tuple(chosen), failed=str(error))

    def ways(self, port: int, frame: bytes, most: int = MOST_WAYS) -> Ways:
        """Return all ways of a packet, at most so many runs."""
        self.sampled = False
        found: dict[Any, Way] = {}
        waiting: list[tuple[int, ...]] = [()]
        runs = 0
        while waiting and runs < most:
            runs += 1
            given = waiting.pop()
            answers = list(given)
            asked: Iterator[int] = iter(given)

            def answer(
                choice: Choice, asked: Iterator[int] = asked, answers: list[int] = answers
            ) -> int:
                for known in asked:
                    return known
                first, *others = self.alternatives(choice)
                waiting.extend((*answers, other) for other in reversed(others))
                answers.append(first)
                return first

            way = self.follow(port, frame, answer)
            same = signature(way)
            before = found.get(same)
            found[same] = way if before is None else replace(before, count=before.count + 1)
        return Ways(tuple(found.values()), bool(waiting), self.sampled)

    def alternatives(self, choice: Choice) -> Sequence[int]:
        """Return the answers that are tried: one for each alternative that differs."""
        if not isinstance(choice.alternatives, range):
            first: dict[Any, int] = {}
            for number, one in enumerate(choice.alternatives):
                first.setdefault(one, number)
            return list(first.values())
        low, high = choice.alternatives.start, choice.alternatives.stop - 1
        if high - low < MOST_NUMBERS:
            return range(high - low + 1)
        self.sampled = True
        near = {low, high, (low + high) // 2}
        for number in self._numbers:
            near |= {one for one in (number - 1, number, number + 1) if low < one < high}
        tried = sorted(near)
        step = -(-len(tried) // MOST_NUMBERS)
        return [one - low for one in dict.fromkeys((*tried[::step], high))]


def kept(step: Step) -> Step:
    """Return a step without what goes on changing, its packet but for the copy's number."""
    return replace(step, packet=_Copy(step.packet.copy))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Copy:
    """What is kept of a packet: which copy it is."""

    copy: int


def choice_text(choice: Choice, answer: int) -> str:
    """Return what was chosen, in words."""
    if isinstance(choice.alternatives, range):
        value = choice.alternatives.start + answer
        return f"random() from {choice.told['from']} to {choice.told['to']} draws {value:#x}"
    return f"the selector of {choice.told['table']} chooses {choice.told['of'][answer]}"


def signature(way: Way) -> Any:
    """Return what tells ways apart that lead differently: what is looked up, done and sent."""
    return tuple(
        (step.packet.copy, step.event, repr(step.told), getattr(step, "frame", b""))
        for step in way.steps
        if step.event not in UNSEEN
    )


def numbers_of(switch: Interpreter) -> set[int]:
    """Return the numbers that a random one may be compared with: those of the program's
    expressions, and of the parameters of entries."""
    found = {int(text, 16) for text in re.findall(r"'(0x[0-9a-f]+)'", repr(_code(switch)))}
    for state in switch.contents.tables.values():
        targets = [state.default, *(entry.target for entry in state.entries.values())]
        for target in targets:
            found |= set(getattr(target, "params", ()))
    for profile in switch.contents.profiles.values():
        for member in profile.members.values():
            found |= set(member.call.params)
    return found


def _code(switch: Interpreter) -> list[Any]:
    document = switch.program.document
    conditions = [node for one in document["pipelines"] for node in one.get("conditionals") or ()]
    return [document["actions"], conditions]
