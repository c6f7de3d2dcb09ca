"""What a fault is, how a line of text asks for one, and the kinds of faults by their names."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from weft.base.entry_points import blamed
from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.registry import Registry
from weft.base.units import parse_probability
from weft.topo.network import Topology

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Fault:
    """Something that goes wrong in a network on purpose.

    The worlds carry out three classes: `LinkLoss`, `PacketFault` and `Outage`, and subclasses of
    these.
    """

    carried_out = False
    """Whether the worlds carry out faults of this class."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Return what the fault needs of a kind of switch, in the words of
        `weft.topo.switch_kinds`."""
        return ()

    @property
    def emulated_problem(self) -> str:
        """Return what the emulated world's switches cannot do for the fault; empty if they can do
        everything."""
        return ""

    def check(self, topology: Topology) -> None:
        """Raise InputError unless the fault fits the topology."""
        raise NotImplementedError

    @staticmethod
    def parse(text: str) -> "Fault":
        """Read one line, which is written as `weft.topo.faults` says.

        Raises:
            InputError: the line makes no sense; the error says what is valid.
        """
        line = Line(text)
        kind = FAULTS.get(line.action)
        if kind is None:
            raise not_understood(line)
        with blamed(kind, "read"):
            fault = kind.read(line)
        if not getattr(fault, "carried_out", False):
            raise line.error(
                f"{line.action!r} of another package makes a {type(fault).__name__}, which no "
                "world carries out; let it make a LinkLoss, a PacketFault or an Outage"
            )
        return fault


class FaultKind(Protocol):
    """A kind of fault, which makes a `LinkLoss`, a `PacketFault` or an `Outage` of a line. Other
    packages bring kinds of their own by the entry point ``weft.faults``.

    A kind that the emulated world can carry out, too, has a text ``emulated``, which says how its
    lines are written there (`emulated_lines`). A kind that can last from the start has a text
    ``lasting``, which says what it makes of a link, and how its line is written then
    (`lasting_lines`).
    """

    @property
    def name(self) -> str:
        """Return the ACTION of the kind's lines."""

    def read(self, line: "Line") -> Fault:
        """Make the fault that a line asks for; raise InputError if the line makes no sense."""


FAULTS: Registry[FaultKind] = Registry("weft.faults", "weft.topo.faults:KINDS", needs=("read",))
"""All kinds of faults, each a `FaultKind`."""


def emulated_lines() -> list[str]:
    """Return, for help and messages, how the lines are written that the emulated world carries out:
    ``LINK:loss=P``. The lines of hosts come last."""
    lines = [getattr(kind, "emulated", "") for kind in FAULTS.values()]
    return sorted(filter(None, lines), key=lambda line: line.startswith("HOST"))


def lasting_lines() -> list[str]:
    """Return, for help and messages, what links can be from the start on, each with a line that
    asks for it: ``slow, like leaf0-spine1:slow,rate=0.25``."""
    return list(filter(None, (getattr(kind, "lasting", "") for kind in FAULTS.values())))


class Line:
    """A line ``WHERE:ACTION=WHICH[,KEY=VALUE ...]``, split into its parts.

    All readers raise InputError, whose message shows the line.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        where, rest = split_line(text)
        self.where = where.strip()
        (action, _, which), *self._pairs = (part.partition("=") for part in rest.split(","))
        self.action, self.which = action.strip() if self.where else "", which.strip()
        self.values: dict[str, str] = {}

    def error(self, problem: str) -> InputError:
        """Return an error that shows the line and says what is wrong with it."""
        return InputError(f"fault {self.text!r}: {problem}")

    def take_values(self, *allowed: str) -> dict[str, str]:
        """Read the values and store them by their keys."""
        for key, equals, value in self._pairs:
            has_value = equals and value.strip()
            if not has_value:
                raise self.error(f"{key.strip()!r} needs a value, KEY=VALUE")
            self.values[key.strip()] = value.strip()
        for key in self.values:
            if key not in allowed:
                raise self.error(unknown(f"key of {self.action}", key, allowed))
        return self.values

    def count(self, what: str, value: str) -> int:
        """Read a number of packets, which is 1 or more."""
        number = self.whole(what, value)
        refuse(number < 1, f"{what} {value} is out of range; packets count from 1", self.error)
        return number

    def whole(self, what: str, value: str) -> int:
        """Read a whole number, 0 or more."""
        is_whole = re.fullmatch(r"[0-9]{1,15}", value.strip())
        if not is_whole:
            raise self.error(f"{what} {value!r} is not a whole number, 0 or more")
        return int(value)

    def part(self, key: str) -> float:
        """Read a number above 0 and below 1, or the same as a percentage."""
        value = self.values[key]
        found = re.fullmatch(r"([0-9]{0,4}(?:\.[0-9]{1,9})?)(%?)", value)
        part = float(found[1]) / (100 if found[2] else 1) if found and found[1] else 0.0
        if not 0 < part < 1:
            raise self.error(
                f"{key}={value} is no part of a rate; write one above 0 and below 1, like 0.25 or "
                "25%"
            )
        return part

    def duration_ns(self, key: str, default: str) -> int:
        """Read a time and return it in ns; it is `default` if it is not given."""
        value = self.values.get(key, default)
        found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) *(ns|us|ms|s)", value)
        if value == "0":
            return 0
        if not found:
            raise self.error(f"{key}={value} is no time; write one like 250us or 1.5ms")
        whole, _, fraction = found[1].partition(".")
        unit = _UNITS[found[2]]
        return int(whole) * unit + int((fraction or "0").ljust(9, "0")) * unit // 1_000_000_000

    def optional_ns(self, key: str) -> int | None:
        """Read a time and return it in ns; None if it is not given."""
        return self.duration_ns(key, "") if key in self.values else None


def split_line(text: str) -> tuple[str, str]:
    """Return the WHERE of a line, and what is behind its colon. Ends of links may have numbers of
    ports: ``s1:1-s2:1:fail,at=2ms``."""
    head = re.split("[=,]", text, maxsplit=1)[0]
    where, _, action = head.rpartition(":")
    if not where:  # there is no colon
        return (head, "") if head == text else ("", text)
    if action.strip().isdecimal():  # the number of a port
        return head, text[len(head) + 1 :]
    return where, text[len(where) + 1 :]


def not_understood(line: Line) -> InputError:
    """Return an error that says how lines are written."""
    names = [name for name in FAULTS if name != "loss"]
    return InputError(
        f"fault {line.text!r} is not understood{did_you_mean(line.action, names)}: write "
        "LINK:loss=P, like "
        "leaf0-spine1:loss=0.1 for both directions or 'leaf0>spine1:loss=1.0' for one; or "
        f"WHERE:ACTION, ACTION one of {', '.join(names)} (see docs/faults.md)"
    )


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return a message that says that a name is unknown, which known name is near, and which names
    there are."""
    names = list(known)
    return f"unknown {kind} {name!r}{did_you_mean(name, names)}; choose from {', '.join(names)}"


@dataclass(frozen=True)
class LinkLoss(Fault):
    """A link or a direction that loses each packet with a probability.

    The link is given by its text, ``leaf0-spine1`` (both directions) or ``leaf0>spine1``. In both
    worlds the switches' fault tables lose the packets.
    """

    carried_out = True
    link: str
    loss: float

    def check(self, topology: Topology) -> None:
        """Raise InputError unless the fault fits the topology."""
        topology.select(self.link)

    def __str__(self) -> str:
        return f"{self.link}:loss={self.loss:g}"


class LossKind:
    """The kind of the lines ``LINK:loss=P``."""

    name = "loss"
    emulated = "LINK:loss=P"

    def read(self, line: Line) -> LinkLoss:
        """See `FaultKind.read`."""
        _, equals, value = split_line(line.text)[1].partition("=")
        if not equals:
            raise not_understood(line)
        return LinkLoss(line.where, parse_probability(value, f"fault {line.text!r}: loss"))


KINDS = (LossKind(),)
