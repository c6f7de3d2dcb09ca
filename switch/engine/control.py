"""The control side of one switch, by the names of its BMv2 JSON.

A P4Runtime server, or any controller in the same process, holds one ``SwitchControl`` per switch.
It changes a private copy of the tables; ``publish`` hands a finished version to the packet loop,
which picks it up between two batches, so no lock is held while packets move and no packet ever
sees half of a change.

Calls on one ``SwitchControl`` must not overlap: the caller holds one lock per switch. Different
switches may be controlled from different threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from weft.base.errors import InputError, WeftError


@dataclass(frozen=True)
class Exact:
    """A key field that equals ``value``."""

    value: int


@dataclass(frozen=True)
class Lpm:
    """A key field whose first ``prefix_length`` bits equal those of ``value`` (the rest is 0)."""

    value: int
    prefix_length: int


@dataclass(frozen=True)
class Ternary:
    """A key field that equals ``value`` in the bits of ``mask`` (``value & ~mask == 0``).

    Also the form of an *optional* field: a mask of all ones, or ``Ternary(0, 0)`` for any value.
    """

    value: int
    mask: int


@dataclass(frozen=True)
class Range:
    """A key field from ``low`` to ``high``, both included."""

    low: int
    high: int


Key: TypeAlias = Exact | Lpm | Ternary | Range


@dataclass(frozen=True)
class ActionCall:
    """An action by its JSON name, with its parameters in the order of the P4 source."""

    action: str
    params: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemberTarget:
    """Target of an indirect table's entry: one member of its action profile."""

    member_id: int


@dataclass(frozen=True)
class GroupTarget:
    """Target of an indirect table's entry: one group of its action selector."""

    group_id: int


@dataclass(frozen=True)
class OneShot:
    """Target of an indirect table's entry: actions with weights, given in place of a group.

    ``watch_ports``: empty, or the port that each action depends on (None = none).
    """

    actions: tuple[tuple[ActionCall, int], ...]
    watch_ports: tuple[int | None, ...] = ()


Target: TypeAlias = ActionCall | MemberTarget | GroupTarget | OneShot


@dataclass(frozen=True)
class TableEntry:
    """An entry. ``keys`` in the order of the table's key in the P4 source, one per key field.

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
    """A group of an action selector: (member id, weight) pairs; ``max_size`` 0 = the profile's.

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
    """One copy that a multicast group or a clone session makes: egress port and instance (rid)."""

    port: int
    instance: int = 0


@dataclass(frozen=True)
class MulticastGroup:
    """A multicast group (id from 1 to 65535) and its copies."""

    group_id: int
    replicas: tuple[Replica, ...]


@dataclass(frozen=True)
class CloneSession:
    """A clone session (id from 0 to 32767), its copies and the bytes kept of each (0 = all)."""

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
    """Rates of a two-rate three-colour marker (RFC 2698, colour-blind): committed and peak.

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
    """One sample of a digest: the values of its fields in their order in the P4 source."""

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
    """An entry that had no hit for its idle timeout; once until the next hit."""

    entry: TableEntry
    time_ns: int


Event: TypeAlias = DigestEvent | PacketIn | IdleTimeout


class ControlError(WeftError):
    """A request that the switch refuses; the subclass says why. The message names the object."""


class NoProgram(ControlError):
    """No program is loaded (P4Runtime: FAILED_PRECONDITION)."""


class NotFound(ControlError):
    """The named entry, member, group, table, counter or index does not exist (NOT_FOUND)."""


class AlreadyExists(ControlError):
    """An entry, member or group with this identity exists already (ALREADY_EXISTS)."""


class TableFull(ControlError):
    """The table or action profile holds as many entries as its size, or there are as many
    replicas as a switch takes (RESOURCE_EXHAUSTED)."""


class InvalidKey(ControlError):
    """The match key does not fit the table: kinds, widths, priority (INVALID_ARGUMENT)."""


class InvalidAction(ControlError):
    """The action or its parameters do not fit the table or profile (INVALID_ARGUMENT)."""


class InvalidValue(ControlError):
    """A number out of range: a port, an id, a counter's index (INVALID_ARGUMENT, OUT_OF_RANGE)."""


class StillInUse(ControlError):
    """A member or group that something refers to cannot be deleted (FAILED_PRECONDITION)."""


class NotPermitted(ControlError):
    """The program forbids it: const entries, a const default action (PERMISSION_DENIED)."""


class ProgramError(InputError):
    """BMv2 JSON that is malformed or uses what the engine does not support (INVALID_ARGUMENT)."""


class SwitchControl(Protocol):
    """What a switch offers to its controller.

    Table, action, profile, counter and register names are those in the BMv2 JSON, which are also
    P4Info's ``preamble.name`` (``MyIngress.ipv4_route``). All methods raise ``NoProgram`` when no
    program is loaded, and ``NotFound`` for an unknown name. Reads show the version under
    construction, that is, every change made so far, published or not. Nothing reaches packets
    before ``publish``.
    """

    @property
    def name(self) -> str:
        """The switch's name, for messages."""

    @property
    def ports(self) -> tuple[int, ...]:
        """The numbers of the ports that exist."""

    # -- life of a program ---------------------------------------------------------------------

    def load_program(self, bmv2_json: str, *, load: Literal["verify", "save"]) -> None:
        """Translate and compile a program (seconds, or milliseconds when cached).

        ``verify`` only checks it. ``save`` keeps it aside for ``commit_program``; the program that
        runs goes on. Raises ``ProgramError``. P4Runtime: VERIFY = verify; VERIFY_AND_SAVE = save;
        VERIFY_AND_COMMIT = save, then ``commit_program``; COMMIT = ``commit_program``.
        """

    def commit_program(self, *, reconcile: bool = False) -> None:
        """Make the saved program the one that runs, with empty tables (and its const entries).

        With ``reconcile`` (RECONCILE_AND_COMMIT) entries, members, groups and defaults that still
        fit the new program are kept. Multicast groups and clone sessions are kept only then too.
        Takes effect at once, no ``publish`` needed. Raises ``NoProgram`` if nothing was saved.
        """

    @property
    def program_loaded(self) -> bool:
        """Whether a program runs."""

    @property
    def program_saved(self) -> bool:
        """Whether a program waits for ``commit_program``."""

    def publish(self, live: Callable[[], None] | None = None) -> None:
        """Hand all changes so far to the packet loop as one version.

        Returns when packets see it (in real time: within a batch, well under a millisecond).
        Call it once after a batch of changes. Without changes it does nothing. ``live``: writes to
        counters, meters and registers that packets are to see at the same moment.
        """

    def snapshot(self) -> Any:
        """All that ``publish`` would hand over, to go back to by ``restore``."""

    def restore(self, snapshot: Any) -> None:
        """Undo all changes since a ``snapshot`` of the same program; none may be published yet."""

    # -- tables --------------------------------------------------------------------------------

    def insert_entry(self, entry: TableEntry) -> None:
        """Raises AlreadyExists, TableFull, InvalidKey, InvalidAction, NotFound, NotPermitted."""

    def modify_entry(self, entry: TableEntry) -> None:
        """Give the entry with the same keys and priority another target. Raises as insert."""

    def delete_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> None:
        """Raises NotFound, NotPermitted."""

    def free_entries(self, table: str) -> None:
        """Let the entries that the program gives to a table be changed; none can at first.

        BMv2's JSON does not say which tables' initial entries are const. Single entries that it
        calls ``is_const``, as Weft's compiler does, stay as they are. Raises NotFound.
        """

    def is_const(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> bool:
        """Whether an entry is the program's and cannot be changed. Raises NotFound (table)."""

    def entries(self, table: str) -> list[TableEntry]:
        """All entries but the default one, const entries included, in the order of insertion."""

    def find_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> TableEntry:
        """The entry with exactly these keys and priority. Raises NotFound."""

    def set_default(self, table: str, target: ActionCall | MemberTarget | GroupTarget) -> None:
        """Replace the default action; that of an indirect table is a member or a group.

        Raises NotPermitted if it is const, InvalidAction, NotFound.
        """

    def reset_default(self, table: str) -> None:
        """Back to the default action of the program (or of none)."""

    def default(self, table: str) -> ActionCall | None:
        """The default action now; None if the program gave none and none was set, or a group is
        the default."""

    # -- action profiles and selectors ---------------------------------------------------------

    def set_port_up(self, port: int, up: bool) -> None:
        """Say whether a port is up; members that watch one that is down are not selected.

        All ports are up at first. Needs ``publish``.
        """

    def insert_member(self, member: ProfileMember) -> None:
        """Raises AlreadyExists, TableFull, InvalidAction, NotFound."""

    def modify_member(self, member: ProfileMember) -> None:
        """Raises NotFound, InvalidAction. All entries and groups that use it follow."""

    def delete_member(self, profile: str, member_id: int) -> None:
        """Raises NotFound, StillInUse."""

    def members(self, profile: str) -> list[ProfileMember]:
        """All members, in the order of insertion."""

    def insert_group(self, group: ProfileGroup) -> None:
        """Raises AlreadyExists, NotFound (a member), InvalidValue (a weight, too many members)."""

    def modify_group(self, group: ProfileGroup) -> None:
        """Replace a group's members. Raises NotFound, InvalidValue."""

    def delete_group(self, profile: str, group_id: int) -> None:
        """Raises NotFound, StillInUse."""

    def groups(self, profile: str) -> list[ProfileGroup]:
        """All groups, in the order of insertion."""

    # -- packet replication --------------------------------------------------------------------

    def insert_multicast_group(self, group: MulticastGroup) -> None:
        """Raises AlreadyExists, InvalidValue (id or port out of range, a replica twice)."""

    def modify_multicast_group(self, group: MulticastGroup) -> None:
        """Raises NotFound, InvalidValue."""

    def delete_multicast_group(self, group_id: int) -> None:
        """Raises NotFound."""

    def multicast_groups(self) -> list[MulticastGroup]:
        """All groups, in the order of insertion."""

    def insert_clone_session(self, session: CloneSession) -> None:
        """Raises AlreadyExists, InvalidValue."""

    def modify_clone_session(self, session: CloneSession) -> None:
        """Raises NotFound, InvalidValue."""

    def delete_clone_session(self, session_id: int) -> None:
        """Raises NotFound."""

    def clone_sessions(self) -> list[CloneSession]:
        """All sessions, in the order of insertion."""

    # -- counters and registers: live, no publish ----------------------------------------------

    def read_counter(self, counter: str, index: int) -> CounterCell:
        """One cell of an indirect counter. Raises NotFound, InvalidValue."""

    def read_counters(self, counter: str) -> list[CounterCell]:
        """All cells of an indirect counter."""

    def write_counter(self, counter: str, index: int, cell: CounterCell) -> None:
        """Raises NotFound, InvalidValue."""

    def read_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> CounterCell:
        """Return the direct counter of an entry, or with ``keys`` None of the default entry, which
        counts the packets that missed.

        Raises NotFound (no such entry, no direct counter).
        """

    def write_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, cell: CounterCell
    ) -> None:
        """Set the direct counter of an entry, or with ``keys`` None of the default entry.

        Raises NotFound (no such entry, no direct counter).
        """

    def read_register(self, register: str, index: int) -> int:
        """Raises NotFound, InvalidValue."""

    def write_register(self, register: str, index: int, value: int) -> None:
        """Raises NotFound, InvalidValue."""

    # -- meters: live, no publish --------------------------------------------------------------

    def read_meter(self, meter: str, index: int) -> MeterConfig | None:
        """The rates of one cell; None if none are set: every packet is green. Raises NotFound,
        InvalidValue."""

    def read_meters(self, meter: str) -> list[MeterConfig | None]:
        """The rates of all cells of an indirect meter."""

    def write_meter(self, meter: str, index: int, config: MeterConfig | None) -> None:
        """Set or take away the rates of one cell; its buckets are full afterwards.

        Raises NotFound, InvalidValue (negative, or the peak rate below the committed one).
        """

    def read_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterConfig | None:
        """The rates of an entry's direct meter; ``keys`` None: of the default entry.

        Raises NotFound (no such entry, no direct meter).
        """

    def write_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, config: MeterConfig | None
    ) -> None:
        """As ``write_meter``. The default entry keeps its rates, but a miss runs no meter."""

    def read_meter_counts(self, meter: str, index: int) -> MeterCounts:
        """What one cell has marked, with or without rates. Raises NotFound, InvalidValue."""

    def write_meter_counts(self, meter: str, index: int, counts: MeterCounts) -> None:
        """Set what one cell has marked. Raises NotFound, InvalidValue."""

    def read_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterCounts:
        """What an entry's direct meter has marked. Raises NotFound."""

    def write_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, counts: MeterCounts
    ) -> None:
        """Set what an entry's direct meter has marked. Raises NotFound."""

    # -- value sets ----------------------------------------------------------------------------

    def set_value_set(self, name: str, members: Sequence[tuple[Key, ...]]) -> None:
        """Replace the members of a parser's value set; each has a key for every field.

        Raises NotFound, InvalidKey, TableFull, AlreadyExists (a member twice). Needs ``publish``.
        """

    def value_set(self, name: str) -> list[tuple[Key, ...]]:
        """The members of a value set, in the order in which they were given."""

    # -- events --------------------------------------------------------------------------------

    def idle_ns(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> int:
        """Time since an entry's last hit, or since it was inserted. Raises NotFound."""

    def take_events(self) -> list[Event]:
        """What packets and timers have left for the controller since the last call, in order.

        The rings that hold events are bounded; ``events_lost`` counts what found no room.
        """

    @property
    def events_lost(self) -> int:
        """Digests and packets to the controller that were dropped because the rings were full."""

    def set_listener(self, callback: Callable[[], None] | None) -> None:
        """Have ``callback`` called, in the packet loop's thread, when events wait.

        It must return at once, and is called again only after ``take_events``.
        """

    def packet_out(self, frame: bytes) -> None:
        """A packet from the controller: enters ingress with the CPU port as its ingress port.

        Raises InvalidValue (no CPU port is configured, the frame is too long), NoProgram.
        """

    @property
    def cpu_port(self) -> int | None:
        """The port that leads to the controller, or None."""

    @property
    def drop_port(self) -> int:
        """The egress port that means drop."""
