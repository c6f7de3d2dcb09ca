"""What a switch tells on its own, digests, packets and idle entries, and the packets that are sent
out by it.

P4Runtime specification, sections "Packet I/O", "DigestList" and "Table Idle Timeout Notification".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.base.errors import InputError, did_you_mean
from weft.base.units import listed
from weft.controller.handles.access import SwitchAccess
from weft.controller.handles.table import match_of
from weft.controller.handles.values import Value, read_value
from weft.switch.engine.control.entities import Key
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.bytestrings import encode

if TYPE_CHECKING:  # it takes most of a second to import
    from scapy.packet import Packet

SLICES = 64
"""In how many slices of time is looked for what a switch tells."""

Wait = Callable[[float], None]
"""A function that lets so many seconds pass, in the time of the switch's world."""


@dataclass(frozen=True)
class Digest:
    """One message of a digest."""

    name: str
    """The digest's full name."""
    values: Any
    """A mapping of fields to numbers for a struct, a tuple for a tuple, or a number."""


@dataclass(frozen=True)
class ControllerPacket:
    """A packet that a switch has sent to the controller."""

    frame: bytes
    metadata: Mapping[str, int]
    """The fields of the program's packet_in header, by name."""

    @property
    def packet(self) -> "Packet":
        """The frame as a packet of scapy's."""
        from scapy.layers.l2 import Ether

        return Ether(self.frame)


@dataclass(frozen=True)
class IdleEntry:
    """An entry that nothing has hit for as long as its idle timeout; it is still there."""

    table: str
    """The table's full name."""
    match: Mapping[str, Key]
    """What key fields match, by their full names; those that match anything are left out."""
    priority: int
    idle_timeout_s: float


class SwitchNotices:
    """What a switch tells a script, and how packets are sent out by it."""

    def __init__(self, access: SwitchAccess, wait: Wait) -> None:
        self._access = access
        self._wait = wait
        self._digests: list[Digest] = []
        self._packets: list[ControllerPacket] = []
        self._idle: list[IdleEntry] = []
        access.session.want_digests()

    def digests(self, timeout_s: float, count: int) -> list[Digest]:
        """Return the digests that have come, and that come until the time is over or there are
        ``count`` (0: however many)."""
        found = self._digests
        self._hear(timeout_s, lambda: bool(count) and len(found) >= count)
        taken, self._digests = found, []
        return taken

    def packets_in(self, timeout_s: float, count: int) -> list[ControllerPacket]:
        """Return the packets for the controller, as `digests` returns digests."""
        found = self._packets
        self._hear(timeout_s, lambda: bool(count) and len(found) >= count)
        taken, self._packets = found, []
        return taken

    def idle_entries(self, timeout_s: float, count: int) -> list[IdleEntry]:
        """Return the entries that have become idle, as `digests` returns digests."""
        found = self._idle
        self._hear(timeout_s, lambda: bool(count) and len(found) >= count)
        taken, self._idle = found, []
        return taken

    def packet_out(self, frame: bytes, metadata: Mapping[str, Value]) -> None:
        """Let the switch take a frame in at its CPU port, with the fields of the program's
        packet_out header, all of which are needed."""
        name = self._access.name
        known = {field.name: field for field in self._header("packet_out")}
        for given in metadata:
            if given not in known:
                raise InputError(
                    f"{name}: packet_out has no field {given!r}{did_you_mean(given, known)}; the "
                    f"program's header has {', '.join(known) or 'none'}"
                )
        if missing := [field for field in known if field not in metadata]:
            raise InputError(
                f"{name}: packet_out needs {listed(missing, 'and')}, too: the program's header "
                f"has {', '.join(known)}"
            )
        request = p4runtime_pb2.StreamMessageRequest()
        request.packet.payload = frame
        for given, value in metadata.items():
            field = known[given]
            number = read_value(value, field.bitwidth, f"{name}, packet_out, {given}")
            request.packet.metadata.add(metadata_id=field.id, value=encode(number))
        self._access.session.tell(request)
        self._wait(0.0)

    def _hear(self, timeout_s: float, enough: Callable[[], bool]) -> None:
        self._take()
        for _ in range(SLICES if timeout_s > 0 else 0):
            if enough():
                return
            self._wait(timeout_s / SLICES)
            self._take()

    def _take(self) -> None:
        names = {one.preamble.id: one.preamble.name for one in self._access.p4info.digests}
        for message in self._access.session.take_notices():
            kind = message.WhichOneof("update")
            if kind == "packet":
                fields = {field.id: field.name for field in self._header("packet_in")}
                metadata = {
                    fields[one.metadata_id]: int.from_bytes(one.value, "big")
                    for one in message.packet.metadata
                }
                self._packets.append(ControllerPacket(message.packet.payload, metadata))
            elif kind == "idle_timeout_notification":
                tables = {one.preamble.id: one for one in self._access.p4info.tables}
                self._idle += (
                    IdleEntry(
                        tables[one.table_id].preamble.name,
                        match_of(tables[one.table_id].match_fields, one),
                        one.priority,
                        one.idle_timeout_ns / 1e9,
                    )
                    for one in message.idle_timeout_notification.table_entry
                    if one.table_id in tables
                )
            elif kind == "digest" and message.digest.digest_id in names:
                name = names[message.digest.digest_id]
                self._digests += (Digest(name, each) for each in self._values(message.digest))
                request = p4runtime_pb2.StreamMessageRequest()
                request.digest_ack.digest_id = message.digest.digest_id
                request.digest_ack.list_id = message.digest.list_id
                self._access.session.tell(request)

    def _values(self, digest: Any) -> Iterator[Any]:
        info = next(
            one for one in self._access.p4info.digests if one.preamble.id == digest.digest_id
        )
        for data in digest.data:
            yield self._value(info.type_spec, data)

    def _value(self, spec: Any, data: Any) -> Any:
        """Return what a ``P4Data`` holds, whose type is ``spec``."""
        match data.WhichOneof("data"):
            case "struct":
                members = self._access.p4info.type_info.structs[spec.struct.name].members
                return {
                    member.name: self._value(member.type_spec, one)
                    for member, one in zip(members, data.struct.members, strict=True)
                }
            case "tuple":
                return tuple(
                    self._value(member, one)
                    for member, one in zip(spec.tuple.members, data.tuple.members, strict=True)
                )
            case "bool":
                return int(data.bool)
            case _:
                return int.from_bytes(data.bitstring, "big")

    def _header(self, name: str) -> list[Any]:
        """Return the fields of the program's packet_in or packet_out header."""
        for one in self._access.p4info.controller_packet_metadata:
            if one.preamble.name == name:
                return list(one.metadata)
        return []
