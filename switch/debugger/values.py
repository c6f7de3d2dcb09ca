"""What a packet holds while it is stopped, by the names that the P4 source has for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from weft.base.errors import InputError
from weft.switch.interpreter.description import Description, FieldType, Place
from weft.switch.interpreter.packet import Packet

SCALARS = "scalars"
"""The header that has all numbers of structs and variables."""
METADATA = "userMetadata."
STANDARD = "standard_metadata"


@dataclass(frozen=True)
class Argument:
    """An argument of the action that runs: its number."""

    index: int
    width: int


@dataclass
class View:
    """A packet with the arguments of the action that it is in, if it is in one.

    Names are those of the source: ``hdr.ipv4.ttl`` is the field ``ttl`` of the header ``ipv4``,
    ``meta.class`` a field of the metadata, and what is declared in a block has its own name.
    """

    program: Description
    packet: Packet
    parameters: Sequence[tuple[str, int]] = ()
    """The names and widths of the action's parameters."""
    arguments: list[int] = field(default_factory=list)

    # -- what there is

    def headers(self) -> list[str]:
        """Return all headers, in the order of the program."""
        return [name for name in self.program.headers if name not in self.program.metadata]

    def fields(self, header: str) -> list[str]:
        """Return the fields of a header, without those that only fill it up."""
        return [name for name in self.program.headers.get(header, ()) if name != "_padding"]

    def metadata(self) -> list[str]:
        """Return what names of the metadata begin with ``meta.`` here."""
        own = [
            f"meta.{name.removeprefix(METADATA)}"
            for name in self.fields(SCALARS)
            if name.startswith(METADATA)
        ]
        others = [
            f"{header}.{name}"
            for header in sorted(self.program.metadata - {SCALARS, STANDARD})
            for name in self.fields(header)
        ]
        return own + others

    def standard(self) -> list[str]:
        """Return the names of the standard metadata."""
        return [f"{STANDARD}.{name}" for name in self.fields(STANDARD)]

    def variables(self) -> list[str]:
        """Return the variables of all blocks, those of the compiler among them."""
        return [name for name in self.fields(SCALARS) if not name.startswith(METADATA)]

    def names(self) -> Iterator[str]:
        """Yield every name of a number."""
        yield from (name for name, _ in self.parameters)
        for header in self.headers():
            yield from (f"hdr.{header}.{name}" for name in self.fields(header))
        yield from (*self.metadata(), *self.standard(), *self.variables())

    # -- names

    def header(self, text: str) -> str | None:
        """Return the header that a name means, if it means one."""
        for name in (text, text.partition(".")[2]):
            if name and name in self.program.headers and name not in self.program.metadata:
                return name
        return None

    def find(self, text: str) -> Place | Argument:
        """Return what a name of a number means. Raises InputError."""
        for index, (name, width) in enumerate(self.parameters):
            if text == name and index < len(self.arguments):
                return Argument(index, width)
        before, _, last = text.rpartition(".")
        for header in (before, before.partition(".")[2]):
            if header and last in self.program.headers.get(header, ()):
                return header, last
        known = self.program.headers.get(SCALARS, {})
        if text in known:
            return SCALARS, text
        inner = text.partition(".")[2]
        for name in filter(None, (METADATA + inner if inner else "", METADATA + text)):
            if name in known:
                return SCALARS, name
        same = [name for name in known if name.rpartition(".")[2] == text]
        if len(same) == 1:
            return SCALARS, same[0]
        if same:
            raise InputError(f"{text!r} may be {', '.join(same)}: write one of these")
        raise InputError(f"there is no {text!r} here; the command 'names' lists what there is")

    # -- values

    def type_of(self, at: Place | Argument) -> FieldType:
        """Return what a number is stored as."""
        if isinstance(at, Argument):
            return FieldType(self.parameters[at.index][0], at.width)
        return self.program.field(at)

    def width(self, at: Place | Argument) -> int:
        """Return how many bits a number has now."""
        kind = self.type_of(at)
        if not isinstance(at, Argument) and kind.varbit:
            return self.packet.lengths.get(at[0], 0)
        return kind.width

    def read(self, at: Place | Argument) -> int:
        """Return a number."""
        return self.arguments[at.index] if isinstance(at, Argument) else self.packet.read(at)

    def write(self, at: Place | Argument, value: int) -> None:
        """Store a number. Raises InputError if it does not fit."""
        kind, width = self.type_of(at), self.width(at)
        low, most = (-1 << (width - 1) if kind.signed else 0), (1 << width) - 1
        if kind.signed:
            most >>= 1
        if not low <= value <= most:
            raise InputError(f"{value} does not fit: {kind.name} has {width} bits, {low} to {most}")
        if isinstance(at, Argument):
            self.arguments[at.index] = value
        else:
            self.packet.values[at] = kind.cut(value)

    def text(self, at: Place | Argument) -> str:
        """Return a number as text: in hexadecimal, and in decimal where that says more."""
        value = self.read(at)
        return shown(value, self.width(at))

    def set_valid(self, header: str, valid: bool) -> None:
        """Make a header valid or invalid."""
        if valid:
            self.packet.make_valid(header)
        else:
            self.packet.valid.discard(header)


def shown(value: int | bool, width: int | None = None) -> str:
    """Return a value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    digits = 0 if width is None else (width + 3) // 4
    sign = "-" if value < 0 else ""
    text = f"{sign}0x{abs(value):0{digits}x}"
    return text if abs(value) < 10 and digits < 2 else f"{text} ({value})"
