"""A packet inside a switch: its fields, which of its headers are valid, and what it asks for."""

from copy import copy
from dataclasses import dataclass, field

from weft.switch.interpreter.description import VALID, Description, Place


@dataclass(eq=False)
class Packet:
    """A packet on its way, with all its metadata.

    Fields of a header that is not valid keep what they held, so they are 0 at first (P4 leaves
    them undefined).
    """

    program: Description
    frame: bytes
    """The packet as it came to the parser."""
    copy: int = 0
    """0 for the packet that came in, others for those that were made of it."""
    repeats: int = 0
    """How often it has been resubmitted and recirculated."""
    payload: bytes = b""
    values: dict[Place, int] = field(default_factory=dict)
    valid: set[str] = field(default_factory=set)
    lengths: dict[str, int] = field(default_factory=dict)
    """The bits that the varbit field of a header has."""
    following: dict[str, int] = field(default_factory=dict)
    """How many elements of a stack have been extracted."""
    length: int = 0
    """What ``packet_length`` will be in egress."""
    ingress_length: int = 0
    """What counters and meters count."""
    keep: int = 0
    """How many bytes of a clone are kept; 0 means all."""
    egress_port: int = 0
    clone: tuple[int, int] | None = None
    """The session and the field list of the last clone()."""
    resubmit: int = 0
    recirculate: int = 0
    digest: int = 0
    truncate: int | None = None
    exited: bool = False
    written: list[tuple[str, int]] = field(default_factory=list)
    """The fields that have been assigned to since somebody looked, and their values."""

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Take the length of the frame for the packet's."""
        self.length = self.ingress_length = len(self.frame)
        self["packet_length"] = self.length

    def duplicate(self, number: int) -> "Packet":
        """Return a copy without requests."""
        new = copy(self)
        for name in ("values", "valid", "lengths", "following"):
            setattr(new, name, copy(getattr(self, name)))
        new.copy, new.written = number, []
        new.forget_requests()
        return new

    def forget_requests(self) -> None:
        """Ask for nothing more."""
        self.clone, self.truncate = None, None
        self.resubmit = self.recirculate = self.digest = 0

    # -- fields

    def __getitem__(self, name: str) -> int:
        """Return a standard metadata field."""
        return self.values.get(self.program.standard(name), 0)

    def __setitem__(self, name: str, value: int) -> None:
        place = self.program.standard(name)
        self.values[place] = self.program.field(place).cut(value)

    def read(self, place: Place) -> int:
        """Return the value of a field; of a varbit field its bits as a number."""
        header, name = place
        if name == VALID:
            return int(self.is_valid(header))
        self.program.field(place)
        return self.values.get(place, 0)

    def write(self, place: Place, value: int) -> None:
        """Store a number in a field, as far as it has room."""
        kind = self.program.field(place)
        value = value & ((1 << self.lengths.get(place[0], 0)) - 1) if kind.varbit else (
            kind.cut(value)
        )  # fmt: skip
        self.values[place] = value
        self.written.append((".".join(place), value & ((1 << kind.width) - 1)))

    def clear_metadata(self, but_for: int) -> None:
        """Set all metadata to 0, but for the fields of a field list."""
        kept = self.program.field_lists.get(but_for, [])
        metadata = {*self.program.metadata, "standard_metadata"}
        self.values = {
            place: value
            for place, value in self.values.items()
            if place in kept or place[0] not in metadata
        }

    # -- headers

    def is_valid(self, header: str) -> bool:
        """Return whether a header is valid; metadata always is."""
        return header in self.valid or header in self.program.metadata

    def make_valid(self, header: str) -> None:
        """Make a header valid; the others of its union become invalid."""
        self.valid.add(header)
        self.valid.difference_update(self.program.peers.get(header, ()))

    def size(self, header: str) -> int:
        """Return the bytes of a header."""
        return (self.program.fixed_bits(header) + self.lengths.get(header, 0)) // 8

    def bits(self, header: str, name: str) -> tuple[int, int]:
        """Return a field without sign, and how many bits it has."""
        kind = self.program.headers[header][name]
        width = self.lengths.get(header, 0) if kind.varbit else kind.width
        return self.values.get((header, name), 0) & ((1 << width) - 1), width

    def content(self, header: str) -> list[tuple[int, int]]:
        """Return all fields of a header as numbers without sign, and their widths."""
        return [self.bits(header, name) for name in self.program.headers[header]]

    def copy_header(self, target: str, source: str) -> None:
        """Copy a header with its validity; the fields of one that is not valid stay."""
        metadata = self.program.metadata
        if not self.is_valid(source):
            self.valid.discard(target)
            return
        if target not in metadata:
            self.make_valid(target)
        if source in self.lengths:
            self.lengths[target] = self.lengths[source]
        for mine, theirs in zip(
            self.program.headers[target].values(),
            self.program.headers[source].values(),
            strict=True,
        ):
            value = self.values.get((source, theirs.name), 0)
            self.values[target, mine.name] = value if mine.varbit else mine.cut(value)


def joined(parts: list[tuple[int, int]]) -> bytes:
    """Return numbers of these widths bit by bit, the last byte filled with zeros."""
    value = bits = 0
    for part, width in parts:
        value, bits = value << width | part, bits + width
    return (value << (-bits % 8)).to_bytes((bits + 7) // 8, "big")
