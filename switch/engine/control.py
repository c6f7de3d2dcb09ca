"""The control side of one switch, by the names of its BMv2 JSON.

A P4Runtime server, or any controller in the same process, holds one ``SwitchControl`` per switch.
It changes a private copy of the tables; ``publish`` hands a finished version to the packet loop,
which picks it up between two batches, so no lock is held while packets move and no packet ever
sees half of a change.

Calls on one ``SwitchControl`` must not overlap: the caller holds one lock per switch. Different
switches may be controlled from different threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from switch.errors import InputError, WeftError


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
class Member:
    """Target of an indirect table's entry: one member of its action profile."""

    member_id: int


@dataclass(frozen=True)
class Group:
    """Target of an indirect table's entry: one group of its action selector."""

    group_id: int


@dataclass(frozen=True)
class OneShot:
    """Target of an indirect table's entry: actions with weights, given in place of a group."""

    actions: tuple[tuple[ActionCall, int], ...]


Target: TypeAlias = ActionCall | Member | Group | OneShot


@dataclass(frozen=True)
class TableEntry:
    """An entry. ``keys`` in the order of the table's key in the P4 source, one per key field.

    ``priority``: the greatest matching one wins; must be positive for a table with a ternary,
    optional or range field, and 0 for any other.
    """

    table: str
    keys: tuple[Key, ...]
    target: Target
    priority: int = 0


@dataclass(frozen=True)
class ProfileMember:
    """A member of an action profile or selector."""

    profile: str
    member_id: int
    call: ActionCall


@dataclass(frozen=True)
class ProfileGroup:
    """A group of an action selector: (member id, weight) pairs; ``max_size`` 0 = the profile's."""

    profile: str
    group_id: int
    members: tuple[tuple[int, int], ...]
    max_size: int = 0


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
    """A clone session (id from 1 to 32767), its copies and the bytes kept of each (0 = all)."""

    session_id: int
    replicas: tuple[Replica, ...]
    packet_length_bytes: int = 0


@dataclass(frozen=True)
class CounterCell:
    """What one counter has counted."""

    packets: int
    bytes: int


class ControlError(WeftError):
    """A request that the switch refuses; the subclass says why. The message names the object."""


class NoProgram(ControlError):
    """No program is loaded (P4Runtime: FAILED_PRECONDITION)."""


class NotFound(ControlError):
    """The named entry, member, group, table, counter or index does not exist (NOT_FOUND)."""


class AlreadyExists(ControlError):
    """An entry, member or group with this identity exists already (ALREADY_EXISTS)."""


class TableFull(ControlError):
    """The table or action profile holds as many entries as its size (RESOURCE_EXHAUSTED)."""


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

    def publish(self) -> None:
        """Hand all changes so far to the packet loop as one version.

        Returns when packets see it (in real time: within a batch, well under a millisecond).
        Call it once after a batch of changes. Without changes it does nothing.
        """

    # -- tables --------------------------------------------------------------------------------

    def insert_entry(self, entry: TableEntry) -> None:
        """Raises AlreadyExists, TableFull, InvalidKey, InvalidAction, NotFound, NotPermitted."""

    def modify_entry(self, entry: TableEntry) -> None:
        """Give the entry with the same keys and priority another target. Raises as insert."""

    def delete_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> None:
        """Raises NotFound, NotPermitted."""

    def entries(self, table: str) -> list[TableEntry]:
        """All entries but the default one, const entries included, in the order of insertion."""

    def find_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> TableEntry:
        """The entry with exactly these keys and priority. Raises NotFound."""

    def set_default(self, table: str, target: ActionCall) -> None:
        """Replace the default action. Raises NotPermitted if it is const, InvalidAction."""

    def reset_default(self, table: str) -> None:
        """Back to the default action of the program (or of none)."""

    def default(self, table: str) -> ActionCall | None:
        """The default action now; None if the program gave none and none was set."""

    # -- action profiles and selectors ---------------------------------------------------------

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
        self, table: str, keys: tuple[Key, ...], priority: int = 0
    ) -> CounterCell:
        """The direct counter of one entry. Raises NotFound (no such entry, no direct counter)."""

    def write_direct_counter(
        self, table: str, keys: tuple[Key, ...], priority: int, cell: CounterCell
    ) -> None:
        """Raises NotFound."""

    def read_default_counter(self, table: str) -> CounterCell:
        """The direct counter of the table's default entry (packets that missed)."""

    def read_register(self, register: str, index: int) -> int:
        """Raises NotFound, InvalidValue."""

    def write_register(self, register: str, index: int, value: int) -> None:
        """Raises NotFound, InvalidValue."""
