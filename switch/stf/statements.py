"""What an STF test says, as data, with the positions in its text for messages."""

from dataclasses import dataclass

from weft.base.errors import InputError, refuse


@dataclass(frozen=True)
class TextPlace:
    """A place is a stretch of a test's text; lines and columns are counted from 1."""

    file: str
    line: int
    column: int
    source_line: str
    length: int = 1

    def error(self, message: str) -> InputError:
        """Return an error about this place, with its line and a marker under it."""
        return InputError(self.describe(message))

    def describe(self, message: str, severity: str = "error") -> str:
        """Return a message about this place, as compilers write it."""
        text = f"{self.file}:{self.line}:{self.column}: {severity}: {message}"
        if not self.source_line.strip():
            return text
        shown = self.source_line.expandtabs(1).rstrip()
        first = max(0, self.column - 60)
        shown = shown[first : first + 120]
        marker = " " * (self.column - 1 - first) + "^" + "~" * (self.length - 1)
        return f"{text}\n{self.line:>6} | {shown}\n{'':>6} | {marker[:121]}"


@dataclass(frozen=True)
class StfWord:
    """A word is a name as written, without quotes."""

    text: str
    place: TextPlace


@dataclass(frozen=True)
class StfValue:
    """A value is a number, with the mask of the digits that were written; wildcard digits are 0.

    ``digits_bits`` is the number of bits that the digits stand for, or None for a decimal number or
    an address, which stand for the whole field; ``wildcard_bits`` are those of the ``*`` digits.
    """

    value: int
    mask: int
    digits_bits: int | None
    wildcard_bits: int
    place: TextPlace


def number_of(index: StfWord | StfValue) -> int:
    """Return the number that a value is; raises `InputError` for a name, and for wildcards."""
    if isinstance(index, StfWord):
        raise index.place.error(f"{index.text!r} is a name: a number is needed here")
    refuse(index.wildcard_bits, "a number without wildcards is needed here", index.place.error)
    return index.value


@dataclass(frozen=True)
class Match:
    """A match is one field of a key: a value alone, or with a prefix length, a mask or an upper
    bound."""

    name: StfWord
    value: StfValue
    prefix_length: int | None = None
    mask: StfValue | None = None
    high: StfValue | None = None


@dataclass(frozen=True)
class StfArgument:
    """An argument of an action is named or in its place; a word as value is the name of a
    handle."""

    name: StfWord | None
    value: StfValue | StfWord


@dataclass(frozen=True)
class StfCall:
    """A call is an action with its arguments."""

    name: StfWord
    arguments: tuple[StfArgument, ...]


@dataclass(frozen=True)
class StfStatement:
    """A statement says something that a test does or expects."""

    place: TextPlace


@dataclass(frozen=True)
class Add(StfStatement):
    """A table entry that is inserted, and called ``handle``."""

    table: StfWord
    priority: int | None
    matches: tuple[Match, ...]
    call: StfCall
    handle: str | None


@dataclass(frozen=True)
class SetDefault(StfStatement):
    """A table's default action that is set."""

    table: StfWord
    call: StfCall


@dataclass(frozen=True)
class Remove(StfStatement):
    """An entry that is removed by the name that it was given; with None, all that the test
    added."""

    handle: StfWord | None


@dataclass(frozen=True)
class RemoveEntry(StfStatement):
    """An entry that is removed by its key."""

    table: StfWord
    priority: int | None
    matches: tuple[Match, ...]


@dataclass(frozen=True)
class SendPacket(StfStatement):
    """A frame that is sent to a port."""

    port: int
    frame: bytes


@dataclass(frozen=True)
class Expect(StfStatement):
    """A frame that is expected at a port: hex digits with ``*`` for any digit, or None for any
    frame.

    With ``exact`` the frame must not be longer than that.
    """

    port: int
    digits: str | None
    exact: bool


@dataclass(frozen=True)
class NoPacket(StfStatement):
    """An expectation that the frame that was sent last leaves nowhere."""


@dataclass(frozen=True)
class Wait(StfStatement):
    """A time that passes."""

    seconds: int


@dataclass(frozen=True)
class CheckCell(StfStatement):
    """A cell of a counter or register that is compared; without ``comparison`` it is only read.

    ``kind`` is counter or register; ``counted`` is what of a counter is compared: packets or bytes.
    """

    kind: str
    array: StfWord
    index: StfWord | StfValue
    counted: str
    comparison: str | None
    value: int


@dataclass(frozen=True)
class NewMember(StfStatement):
    """A member of an action profile that is created."""

    profile: StfWord
    call: StfCall
    handle: str | None


@dataclass(frozen=True)
class NewGroup(StfStatement):
    """A group of an action selector that is created."""

    profile: StfWord
    handle: str | None


@dataclass(frozen=True)
class Command(StfStatement):
    """A command of BMv2's command line has a name, the object that it is about, and numbers."""

    command: str
    target: StfWord | None
    numbers: tuple[StfValue | StfWord, ...] = ()
    rates: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Test:
    """A test has all statements of a file."""

    __test__ = False  # to pytest

    file: str
    statements: tuple[StfStatement, ...]
