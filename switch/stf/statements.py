"""What an STF test says, as data, with the positions in its text for messages."""

from dataclasses import dataclass

from weft.base.errors import InputError, refuse


@dataclass(frozen=True)
class Place:
    """A stretch of a test's text; lines and columns are counted from 1."""

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
class Word:
    """A name as written, without quotes."""

    text: str
    place: Place


@dataclass(frozen=True)
class Value:
    """A number: its value (wildcard digits are 0), and the mask of the digits that were written.

    ``digits_bits`` is the number of bits that the digits stand for, or None for a decimal number or
    an address, which stand for the whole field; ``wildcard_bits`` are those of the ``*`` digits.
    """

    value: int
    mask: int
    digits_bits: int | None
    wildcard_bits: int
    place: Place


def number_of(index: Word | Value) -> int:
    """Return the number that a value is; raises `InputError` for a name, and for wildcards."""
    if isinstance(index, Word):
        raise index.place.error(f"{index.text!r} is a name: a number is needed here")
    refuse(index.wildcard_bits, "a number without wildcards is needed here", index.place.error)
    return index.value


@dataclass(frozen=True)
class Match:
    """One field of a key: a value alone, or with a prefix length, a mask or an upper bound."""

    name: Word
    value: Value
    prefix_length: int | None = None
    mask: Value | None = None
    high: Value | None = None


@dataclass(frozen=True)
class Argument:
    """An argument of an action, named or in its place; a word as value is the name of a handle."""

    name: Word | None
    value: Value | Word


@dataclass(frozen=True)
class Call:
    """An action with its arguments."""

    name: Word
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Statement:
    """Something that a test does or expects."""

    place: Place


@dataclass(frozen=True)
class Add(Statement):
    """Insert a table entry, and call it ``handle``."""

    table: Word
    priority: int | None
    matches: tuple[Match, ...]
    call: Call
    handle: str | None


@dataclass(frozen=True)
class SetDefault(Statement):
    """Set a table's default action."""

    table: Word
    call: Call


@dataclass(frozen=True)
class Remove(Statement):
    """Remove an entry by the name that it was given, or with None all that the test added."""

    handle: Word | None


@dataclass(frozen=True)
class RemoveEntry(Statement):
    """Remove an entry by its key."""

    table: Word
    priority: int | None
    matches: tuple[Match, ...]


@dataclass(frozen=True)
class Packet(Statement):
    """Send a frame to a port."""

    port: int
    frame: bytes


@dataclass(frozen=True)
class Expect(Statement):
    """Expect a frame at a port: hex digits with ``*`` for any digit, or None for any frame.

    With ``exact`` the frame must not be longer than that.
    """

    port: int
    digits: str | None
    exact: bool


@dataclass(frozen=True)
class NoPacket(Statement):
    """Expect that the frame that was sent last leaves nowhere."""


@dataclass(frozen=True)
class Wait(Statement):
    """Let time pass."""

    seconds: int


@dataclass(frozen=True)
class Check(Statement):
    """Compare a cell of a counter or register; without ``comparison`` it is only read.

    ``kind`` is counter or register, ``counted`` what of a counter is compared: packets or bytes.
    """

    kind: str
    array: Word
    index: Word | Value
    counted: str
    comparison: str | None
    value: int


@dataclass(frozen=True)
class NewMember(Statement):
    """Create a member of an action profile."""

    profile: Word
    call: Call
    handle: str | None


@dataclass(frozen=True)
class NewGroup(Statement):
    """Create a group of an action selector."""

    profile: Word
    handle: str | None


@dataclass(frozen=True)
class Command(Statement):
    """A command of BMv2's command line: its name, the object that it is about, and numbers."""

    command: str
    target: Word | None
    numbers: tuple[Value | Word, ...] = ()
    rates: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Test:
    """A whole test file."""

    __test__ = False  # to pytest

    file: str
    statements: tuple[Statement, ...]
