"""What the control side of a switch takes and gives: entries, groups, rates, events."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Exact:
    """Match a key field that equals ``value``."""

    value: int

    def __str__(self) -> str:
        return f"{self.value:#x}"


@dataclass(frozen=True)
class Lpm:
    """Match a key field whose first ``prefix_length`` bits are those of ``value`` (else 0)."""

    value: int
    prefix_length: int

    def __str__(self) -> str:
        return f"{self.value:#x}/{self.prefix_length}"


@dataclass(frozen=True)
class Ternary:
    """Match a key field that is ``value`` in the bits of ``mask`` (``value & ~mask == 0``).

    Also the form of an *optional* field: a mask of all ones, or ``Ternary(0, 0)`` for any value.
    """

    value: int
    mask: int

    def __str__(self) -> str:
        return f"{self.value:#x} &&& {self.mask:#x}"


@dataclass(frozen=True)
class Range:
    """Match a key field from ``low`` to ``high``, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low:#x}..{self.high:#x}"


Key: TypeAlias = Exact | Lpm | Ternary | Range


@dataclass(frozen=True)
class ActionCall:
    """Name an action as in the JSON, with its parameters in the order of the P4 source."""

    action: str
    params: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemberTarget:
    """Lead an indirect table's entry to one member of its action profile."""

    member_id: int

    def __str__(self) -> str:
        return f"member {self.member_id}"


@dataclass(frozen=True)
class GroupTarget:
    """Lead an indirect table's entry to one group of its action selector."""

    group_id: int

    def __str__(self) -> str:
        return f"group {self.group_id}"


@dataclass(frozen=True)
class OneShot:
    """Lead an indirect table's entry to actions with weights, given in place of a group.

    ``watch_ports``: empty, or the port that each action depends on (None = none).
    """

    actions: tuple[tuple[ActionCall, int], ...]
    watch_ports: tuple[int | None, ...] = ()


Target: TypeAlias = ActionCall | MemberTarget | GroupTarget | OneShot


@dataclass(frozen=True)
class TableEntry:
    """An entry, with one of ``keys`` for each field of the table's key in the P4 source.

    ``priority``: the greatest matching one wins; must be positive for a table with a ternary,
    optional or range field, and 0 for any other. ``idle_timeout_ns``: after so long without a hit
    an ``IdleTimeout`` tells so (0 = never); only for a table that has ``support_timeout``.
    """

    table: str
    keys: tuple[Key, ...]
    target: Target
    priority: int = 0
    idle_timeout_ns: int = 0


@dataclass(frozen=True)
class ProfileMember:
    """A member of an action profile or selector."""

    profile: str
    member_id: int
    call: ActionCall


@dataclass(frozen=True)
class ProfileGroup:
    """(member id, weight) pairs of an action selector's group; ``max_size`` 0 = the profile's.

    ``watch_ports``: empty, or the port that each member depends on (None = none). A member whose
    port is down is not selected.
    """

    profile: str
    group_id: int
    members: tuple[tuple[int, int], ...]
    max_size: int = 0
    watch_ports: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Replica:
    """Name the egress port and instance (rid) of a copy of a multicast group or clone session."""

    port: int
    instance: int = 0


@dataclass(frozen=True)
class MulticastGroup:
    """A multicast group (id from 1 to 65535) and its copies."""

    group_id: int
    replicas: tuple[Replica, ...]


@dataclass(frozen=True)
class CloneSession:
    """A clone session (id from 0 to 32767), its copies, and their bytes kept (0 = all)."""

    session_id: int
    replicas: tuple[Replica, ...]
    packet_length_bytes: int = 0


@dataclass(frozen=True)
class CounterCell:
    """What one counter has counted."""

    packets: int
    bytes: int


@dataclass(frozen=True)
class MeterConfig:
    """The rates of a two-rate three-colour marker (RFC 2698, colour-blind).

    Rates per second and bursts count bytes or packets, whichever the meter does.
    """

    cir_per_s: int
    burst: int
    pir_per_s: int
    peak_burst: int


MeterCounts = tuple[CounterCell, CounterCell, CounterCell]
"""What a meter has marked green, yellow and red."""


@dataclass(frozen=True)
class DigestEvent:
    """A sample of a digest: the values of its fields in their order in the P4 source."""

    digest: str
    values: tuple[int, ...]
    time_ns: int


@dataclass(frozen=True)
class PacketIn:
    """A packet that left at the CPU port, its controller header included."""

    frame: bytes
    time_ns: int


@dataclass(frozen=True)
class IdleTimeout:
    """The news that an entry had no hit for its idle timeout; it comes once until the next."""

    entry: TableEntry
    time_ns: int


Event: TypeAlias = DigestEvent | PacketIn | IdleTimeout
