"""A switch as a script handles it: tables, counters, registers, meters and groups by their names.

What is written goes through the controller's own session, which owns the switch; what the
controller's plans hold stays theirs (`weft.controller.claims`). Names are those of the switch's own
program, whole or only their ends: ``ipv4_route`` for ``FabricIngress.forwarding.ipv4_route``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import listed, shown
from weft.controller.client import LoadableProgram, Session
from weft.controller.controller import Controller
from weft.controller.entities import (
    Action,
    DefaultAction,
    Entity,
    MulticastGroup,
    ProfileMember,
    TableEntry,
    entry,
)
from weft.controller.inspection import entry_text
from weft.controller.plan import Update
from weft.controller.values import Value, read_key, read_value
from weft.switch.engine.control import Exact, GroupTarget, Key, Lpm, MemberTarget, Range, Ternary
from weft.switch.messages import p4info_pb2, p4runtime_pb2

SCRIPT = "the script"
"""The owner of what is written here, as errors name it."""
FIRST_MEMBER = 1 << 30
"""The first id of members that are made for entries of a table with an action profile: plans do not
number so far."""
MAX_GROUP = 65535

Match = Mapping[str, Any]
"""What an entry's key fields match, by their names; see `weft.controller.values.read_key`."""

_KINDS = p4info_pb2.MatchField
_DEFAULT_ONLY = p4info_pb2.ActionRef.DEFAULT_ONLY
_TABLE_ONLY = p4info_pb2.ActionRef.TABLE_ONLY


@dataclass(frozen=True)
class Count:
    """Hold what a counter has counted; one that counts packets alone, or bytes alone, has 0 for the
    other."""

    packets: int
    bytes: int


@dataclass(frozen=True)
class Rates:
    """Hold the rates of a meter's cell, in bytes or packets a second as the meter's unit is, and
    the bursts in the same unit (RFC 2698)."""

    committed: int
    committed_burst: int
    peak: int
    peak_burst: int


@dataclass(frozen=True)
class InstalledEntry:
    """Describe an entry as the switch has it."""

    table: str
    match: Mapping[str, Key]
    """What key fields match, by their full names; those that match anything are left out."""
    priority: int
    action: str
    """The full name of the action; "" where the entry leads to a member, a group or several
    actions of an action profile."""
    params: Mapping[str, int]
    """The action's parameters by name."""
    target: str
    """Where the entry leads, as text."""
    owner: str
    """Who has written it: a plan of the controller, the script, or "" for the program itself or
    another controller."""
    count: Count | None
    """What its direct counter has counted, if the table has one."""
    text: str
    """The whole entry as text."""

    def __str__(self) -> str:
        return self.text


class SwitchHandle:
    """Handle one switch of a controller.

    All methods of this and of what it gives raise InputError for a name or a value that makes no
    sense, and SwitchError where the switch refuses.
    """

    def __init__(self, controller: Controller, switch: str) -> None:
        self.name = switch
        """The switch's name."""
        self._controller = controller
        self.members: dict[tuple[object, ...], ProfileMember] = {}
        """The members that were made for entries of tables with an action profile, by the entry's
        key."""

    @property
    def session(self) -> Session:
        """The session that owns the switch; see `Session.read` for what has no method here."""
        return self._controller.session(self.name)

    @property
    def program(self) -> LoadableProgram:
        """The program that the switch runs."""
        return self.session.program

    @property
    def p4info(self) -> Any:
        """The program's ``p4.config.v1.P4Info``."""
        return self.program.config.p4info

    @property
    def tables(self) -> list[str]:
        """The full names of the program's tables."""
        return [table.preamble.name for table in self.p4info.tables]

    def table(self, name: str) -> "TableHandle":
        """Return the table of this name."""
        return TableHandle(self, self.find("table", name, self.p4info.tables))

    def counter(self, name: str) -> "CounterHandle":
        """Return the indirect counter of this name; what a direct one has counted is in the entries
        of its table."""
        return CounterHandle(self, self.find("counter", name, self.p4info.counters))

    def register(self, name: str) -> "RegisterHandle":
        """Return the register of this name."""
        return RegisterHandle(self, self.find("register", name, self.p4info.registers))

    def meter(self, name: str) -> "MeterHandle":
        """Return the indirect meter of this name."""
        return MeterHandle(self, self.find("meter", name, self.p4info.meters))

    @property
    def groups(self) -> "GroupsHandle":
        """The multicast groups of the packet replication engine."""
        return GroupsHandle(self)

    def find(self, kind: str, name: str, among: Any) -> Any:
        """Return what has a name, whole or its end, among objects of a P4Info. Raises InputError
        where none has it, or several have."""
        found = [one for one in among if one.preamble.name == name] or [
            one
            for one in among
            if name == one.preamble.alias or one.preamble.name.endswith(f".{name}")
        ]
        names = [one.preamble.name for one in found or among]
        if len(found) > 1:
            raise InputError(f"{self.name}: {kind} {name!r} may be {listed(names, 'or')}")
        near = did_you_mean(name, [end for each in names for end in (each, each.split(".")[-1])])
        refuse(
            not found,
            f"{self.name}: the program has no {kind} {name!r}{near}; it has "
            f"{', '.join(names) or 'none'}",
        )
        return found[0]

    def write(self, *updates: Update) -> None:
        """Send updates in the script's name."""
        self._controller.write(self.name, updates, SCRIPT)

    def drop_member(self, wanted: Entity) -> None:
        """Delete the member that was made for an entry, if there is one: nothing leads to it any
        more."""
        if member := self.members.pop(wanted.key, None):
            self.write(Update("delete", member))

    def written(self, wanted: Entity) -> Entity:
        """Return what the script has written under the key of ``wanted``; that itself, if it is
        nothing."""
        return self._controller.written(self.name, wanted.key) or wanted

    def owner_of(self, key: tuple[object, ...]) -> str:
        """Return who has written an entity of this key."""
        return self._controller.owner_of(self.name, key)

    def call(self, name: str, params: Mapping[str, Any], among: Sequence[int] | None) -> Action:
        """Return an action with its parameters, all of which are needed.

        ``among``: the ids of the actions that are possible, or None for all.
        """
        actions = [one for one in self.p4info.actions if among is None or one.preamble.id in among]
        action = self.find("action", name, actions)
        full = action.preamble.name
        known = {param.name: param for param in action.params}
        for given in params:
            refuse(
                given not in known,
                f"{self.name}: action {full} has no parameter {given!r}"
                f"{did_you_mean(given, known)}; it has {', '.join(known) or 'none'}",
            )
        if missing := [param for param in known if param not in params]:
            raise InputError(
                f"{self.name}: action {full} needs {listed(missing, 'and')}, too: write {name!r}, "
                f"{', '.join(f'{param}=...' for param in known)}"
            )
        return Action(
            full,
            tuple(
                (param, read_value(value, known[param].bitwidth, f"{full}, {param}"))
                for param, value in params.items()
            ),
        )

    def write_with_member(self, update: Update, table: Any, action: Action) -> None:
        """Insert or modify an entry of a table with an action profile that is to lead to an action:
        to a member of its own, which has the action."""
        wanted = update.entity
        assert isinstance(wanted, TableEntry)
        self._controller.check(self.name, [update], SCRIPT)
        profiles = {one.preamble.id: one.preamble.name for one in self.p4info.action_profiles}
        taken = {member.member_id for member in self.members.values()}
        number = next(i for i in range(FIRST_MEMBER, 1 << 31) if i not in taken)
        member = ProfileMember(profiles[table.implementation_id], number, action)
        self.write(Update("insert", member))
        try:
            self.write(Update(update.kind, replace(wanted, target=MemberTarget(number))))
        except BaseException:
            self.write(Update("delete", member))
            raise
        before = self.members.get(wanted.key)
        self.members[wanted.key] = member
        if before is not None:
            self.write(Update("delete", before))

    def read(self, **query: Any) -> list[Any]:
        """Return the entities that a query selects; the keyword names the kind of entity."""
        return self.session.read([p4runtime_pb2.Entity(**query)])


class TableHandle:
    """Handle one table."""

    def __init__(self, switch: SwitchHandle, info: Any) -> None:
        self._switch = switch
        self._info = info
        self.name: str = info.preamble.name
        """The full name."""

    @property
    def size(self) -> int:
        """How many entries the table has room for."""
        return int(self._info.size)

    @property
    def keys(self) -> dict[str, str]:
        """The kind of match of each key field, by its full name: ``{"hdr.ipv4.dst_addr":
        "lpm"}``."""
        return {
            field.name: _KINDS.MatchType.Name(field.match_type).lower()
            for field in self._info.match_fields
        }

    @property
    def actions(self) -> list[str]:
        """The full names of the actions that its entries may have."""
        return [self._action_name(ref.id) for ref in self._info.action_refs]

    def insert(
        self,
        match: Match,
        action: str = "",
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
        **params: Value,
    ) -> None:
        """Insert an entry.

        Args:
            match: what the key fields match, by their names (or their ends); a field that is left
                out matches anything. See `weft.controller.values.read_key`.
            action: the action; in a table with an action profile or selector, it becomes a member
                of the entry's own. (A one-shot would not do: plans give selectors members, and
                a selector takes either.)
            priority: for a table with a ternary, range or optional field, above 0: the greatest
                wins.
            member, group: in place of an action, what an entry of a table with an action profile
                leads to.
            params: the action's parameters, by name.
        """
        self._put("insert", match, action, priority, member, group, params)

    def modify(
        self,
        match: Match,
        action: str = "",
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
        **params: Value,
    ) -> None:
        """Let an entry that the script has inserted lead elsewhere; the arguments are as for
        `insert`."""
        self._put("modify", match, action, priority, member, group, params)

    def delete(self, match: Match, *, priority: int = 0) -> None:
        """Delete an entry that the script has inserted."""
        keys = self._keys(match)
        gone = entry(self.name, keys, MemberTarget(0), self._priority(priority, match))
        self._switch.write(Update("delete", self._switch.written(gone)))
        self._switch.drop_member(gone)

    def set_default(self, action: str, **params: Value) -> None:
        """Set the action for packets that no entry matches."""
        among = [ref.id for ref in self._info.action_refs if ref.scope != _TABLE_ONLY]
        call = self._switch.call(action, params, among)
        self._switch.write(Update("modify", DefaultAction(self.name, call)))

    def reset_default(self) -> None:
        """Put back the default action that the program has."""
        self._switch.write(Update("modify", DefaultAction(self.name, None)))

    def entries(self) -> list[InstalledEntry]:
        """Return all entries of the table, whoever has written them."""
        return [self._installed(one) for one in self._read(is_default=False)]

    @property
    def default(self) -> str:
        """The default action as text."""
        (found,) = self._read(is_default=True) or (None,)
        return "nothing" if found is None else self._text(found).partition(" -> ")[2]

    def __len__(self) -> int:
        """Return how many entries the table has."""
        return len(self._read(is_default=False))

    def __iter__(self) -> Iterator[InstalledEntry]:
        return iter(self.entries())

    def _read(self, *, is_default: bool) -> list[Any]:
        query: dict[str, Any] = {
            "table_id": self._info.preamble.id, "is_default_action": is_default,
        }  # fmt: skip
        if self._counted and not is_default:
            query["counter_data"] = {}
        return [one.table_entry for one in self._switch.read(table_entry=query)]

    @property
    def _counted(self) -> bool:
        direct = {one.preamble.id for one in self._switch.p4info.direct_counters}
        return not direct.isdisjoint(self._info.direct_resource_ids)

    def _put(
        self,
        kind: Any,
        match: Match,
        action: str,
        priority: int,
        member: int | None,
        group: int | None,
        params: Mapping[str, Any],
    ) -> None:
        keys, priority = self._keys(match), self._priority(priority, match)
        targets = [name for name, given in
                   (("action", action or None), ("member", member), ("group", group))
                   if given is not None]  # fmt: skip
        refuse(
            len(targets) != 1,
            f"{self._where(match)}: {' and '.join(targets) or 'nothing'} is where the entry is to "
            f"lead: name one action of {', '.join(self.actions)}"
            + (", or a member or a group" if self._info.implementation_id else ""),
        )
        if not action:
            refuse(
                not self._info.implementation_id,
                f"{self._where(match)}: the table has no action profile, so its "
                "entries lead to actions, not to members or groups",
            )
            refuse(params, f"{self._where(match)}: parameters go with an action, by its name")
            target = MemberTarget(member) if member is not None else GroupTarget(group or 0)
            wanted = entry(self.name, keys, target, priority)
            self._switch.write(Update(kind, wanted))
            self._switch.drop_member(wanted)
            return
        among = [ref.id for ref in self._info.action_refs if ref.scope != _DEFAULT_ONLY]
        call = self._switch.call(action, params, among)
        if not self._info.implementation_id:
            self._switch.write(Update(kind, entry(self.name, keys, call, priority)))
        else:
            update = Update(kind, entry(self.name, keys, call, priority))
            self._switch.write_with_member(update, self._info, call)

    def _where(self, match: Match) -> str:
        return f"{self._switch.name}, entry {shown(dict(match))} of {self.name}"

    def _keys(self, match: Match) -> dict[str, Key]:
        fields = {field.name: field for field in self._info.match_fields}
        given = {}
        for name, value in match.items():
            found = [each for each in fields if each == name] or [
                each for each in fields if each.endswith(f".{name}")
            ]
            refuse(
                len(found) != 1,
                f"{self._switch.name}: table {self.name} has "
                f"{'several key fields' if found else 'no key field'} {name!r}"
                f"{did_you_mean(name, fields)}; it has {', '.join(fields) or 'none'}",
            )
            refuse(found[0] in given, f"{self._where(match)}: {found[0]} is there twice")
            given[found[0]] = value
        exact = [name for name, field in fields.items() if field.match_type == _KINDS.EXACT]
        if missing := [name for name in exact if name not in given]:
            raise InputError(
                f"{self._where(match)} needs a value of {listed(missing, 'and')}, too: exact "
                "fields cannot be left out"
            )
        keys = {
            name: read_key(value, fields[name], f"{self._switch.name}, {self.name}, {name}")
            for name, value in given.items()
        }
        return {name: key for name, key in keys.items() if key is not None}

    def _priority(self, priority: int, match: Match) -> int:
        ranked = any(
            field.match_type in (_KINDS.TERNARY, _KINDS.RANGE, _KINDS.OPTIONAL)
            for field in self._info.match_fields
        )
        refuse(
            ranked and priority < 1,
            f"{self._where(match)}: several entries of this table may match a packet, and the "
            "greatest priority wins: name one, priority=1 or more",
        )
        refuse(
            not ranked and priority,
            f"{self._where(match)}: priority {priority}: no two entries of this table can match a "
            "packet alike, so it takes none; leave it out",
        )
        return priority

    def _action_name(self, number: int) -> str:
        names = {one.preamble.id: one.preamble.name for one in self._switch.p4info.actions}
        return str(names[number])

    def _text(self, message: Any) -> str:
        return entry_text(self._switch.p4info, self._info, message)

    def _installed(self, message: Any) -> InstalledEntry:
        fields = {field.id: field.name for field in self._info.match_fields}
        match = {fields[one.field_id]: _key_of(one) for one in message.match}
        action, params = "", {}
        if message.action.WhichOneof("type") == "action":
            action = self._action_name(message.action.action.action_id)
            info = next(one for one in self._switch.p4info.actions if one.preamble.name == action)
            names = {param.id: param.name for param in info.params}
            params = {
                names[one.param_id]: int.from_bytes(one.value, "big")
                for one in message.action.action.params
            }
        text = self._text(message)
        key = entry(self.name, match, MemberTarget(0), message.priority).key
        if own := self._switch.members.get(key):
            action, params = own.action.name, dict(own.action.params)
            text = f"{text.partition(' -> ')[0]} -> {own.action} by member {own.member_id}"
        count = message.counter_data
        return InstalledEntry(
            self.name,
            match,
            message.priority,
            action,
            params,
            text.partition(" -> ")[2],
            self._switch.owner_of(key),
            Count(count.packet_count, count.byte_count) if self._counted else None,
            text,
        )


def _key_of(message: Any) -> Key:
    """Return the key that a ``FieldMatch`` has."""

    def number(value: bytes) -> int:
        return int.from_bytes(value, "big")

    match message.WhichOneof("field_match_type"):
        case "lpm":
            return Lpm(number(message.lpm.value), message.lpm.prefix_len)
        case "ternary":
            return Ternary(number(message.ternary.value), number(message.ternary.mask))
        case "range":
            return Range(number(message.range.low), number(message.range.high))
        case kind:
            return Exact(number(getattr(message, kind).value))


class _Cells:
    """The cells of a counter, register or meter, which are read and written by index."""

    _kind = ""
    """The kind of entity, as ``counter_entry``."""

    def __init__(self, switch: SwitchHandle, info: Any) -> None:
        self._switch = switch
        self._id = f"{self._kind.removesuffix('_entry')}_id"
        self._info = info
        self.name: str = info.preamble.name
        """The full name."""

    def __len__(self) -> int:
        """Return how many cells there are."""
        return int(self._info.size)

    def _index(self, index: int) -> int:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self):
            raise IndexError(
                f"{self._switch.name}, {self.name}[{index!r}]: the indices are 0 to {len(self) - 1}"
            )
        return index

    def _read(self, index: int | None = None) -> list[Any]:
        query: dict[str, Any] = {self._id: self._info.preamble.id}
        if index is not None:
            query["index"] = {"index": self._index(index)}
        read = self._switch.read(**{self._kind: query})
        return [getattr(each, self._kind) for each in read]

    def _write(self, index: int, **values: Any) -> None:
        cell = {
            self._id: self._info.preamble.id, "index": {"index": self._index(index)}, **values,
        }  # fmt: skip
        entity = p4runtime_pb2.Entity(**{self._kind: cell})
        self._switch.session.modify([entity], f"write {self.name}[{index}]")


class CounterHandle(_Cells):
    """Handle an indirect counter: ``leaf.counter("port_egress")[3].packets``."""

    _kind = "counter_entry"

    def __getitem__(self, index: int) -> Count:
        (cell,) = self._read(index)
        return Count(cell.data.packet_count, cell.data.byte_count)

    def __setitem__(self, index: int, count: Count) -> None:
        data = {"packet_count": count.packets, "byte_count": count.bytes}
        self._write(index, data=data)

    def read(self) -> list[Count]:
        """Return all cells in order."""
        cells = sorted(self._read(), key=lambda cell: cell.index.index)
        return [Count(cell.data.packet_count, cell.data.byte_count) for cell in cells]


class RegisterHandle(_Cells):
    """Handle a register of bit<W> values: ``leaf.register("seen")[7] = 1``. BMv2 has no registers
    in P4Runtime."""

    _kind = "register_entry"

    def __getitem__(self, index: int) -> int:
        (cell,) = self._read(index)
        return int.from_bytes(cell.data.bitstring, "big")

    def __setitem__(self, index: int, value: Value) -> None:
        width = self._info.type_spec.bitstring.bit.bitwidth
        number = read_value(value, width, f"{self._switch.name}, {self.name}[{index}]")
        self._write(index, data={"bitstring": number.to_bytes((width + 7) // 8 or 1, "big")})

    def read(self) -> list[int]:
        """Return all cells in order."""
        cells = sorted(self._read(), key=lambda cell: cell.index.index)
        return [int.from_bytes(cell.data.bitstring, "big") for cell in cells]


class MeterHandle(_Cells):
    """Handle an indirect meter: ``leaf.meter("police")[0] = Rates(...)``; None lets every packet be
    green."""

    _kind = "meter_entry"

    def __getitem__(self, index: int) -> Rates | None:
        (cell,) = self._read(index)
        return _rates(cell)

    def __setitem__(self, index: int, rates: Rates | None) -> None:
        if rates is None:
            self._write(index)
            return
        figures = (rates.committed, rates.committed_burst, rates.peak, rates.peak_burst)
        config = dict(zip(("cir", "cburst", "pir", "pburst"), figures, strict=True))
        self._write(index, config=config)

    def read(self) -> list[Rates | None]:
        """Return all cells in order."""
        return [_rates(cell) for cell in sorted(self._read(), key=lambda cell: cell.index.index)]


def _rates(cell: Any) -> Rates | None:
    if not cell.HasField("config"):
        return None
    config = cell.config
    return Rates(config.cir, config.cburst, config.pir, config.pburst)


class GroupsHandle:
    """Handle the multicast groups of the packet replication engine, by their numbers."""

    def __init__(self, switch: SwitchHandle) -> None:
        self._switch = switch

    def insert(self, group: int, ports: Sequence[int]) -> None:
        """Make a group (1 to 65535) that copies a packet to each of some ports."""
        self._switch.write(Update("insert", self._group(group, ports)))

    def modify(self, group: int, ports: Sequence[int]) -> None:
        """Let a group that the script has made copy to other ports."""
        self._switch.write(Update("modify", self._group(group, ports)))

    def delete(self, group: int) -> None:
        """Delete a group that the script has made."""
        self._switch.write(Update("delete", self._group(group, ())))

    def read(self) -> dict[int, tuple[int, ...]]:
        """Return the ports of all groups, whoever has made them, by group."""
        query = {"multicast_group_entry": {"multicast_group_id": 0}}
        found = self._switch.read(packet_replication_engine_entry=query)
        groups = (one.packet_replication_engine_entry.multicast_group_entry for one in found)
        return {
            one.multicast_group_id: tuple(sorted(each.egress_port for each in one.replicas))
            for one in groups
        }

    def _group(self, group: int, ports: Sequence[int]) -> MulticastGroup:
        refuse(
            isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= MAX_GROUP,
            f"{self._switch.name}: group {shown(group)}: the numbers are 1 to {MAX_GROUP}",
        )
        refuse(
            len(set(ports)) != len(ports),
            f"{self._switch.name}: group {group}: ports {shown(list(ports))} has one twice",
        )
        return MulticastGroup(group, tuple(sorted(ports)))
