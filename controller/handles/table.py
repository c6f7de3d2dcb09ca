"""A table as a script handles it: entries by the names of key fields, actions and parameters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.base.arguments import whole
from weft.base.errors import InputError, did_you_mean
from weft.base.units import listed, shown
from weft.controller.entities import DefaultAction, entry
from weft.controller.handles.access import Count, SwitchAccess
from weft.controller.handles.cells import Rates, config_of, rates_of
from weft.controller.handles.values import Value, read_key
from weft.controller.inspection import entry_text
from weft.controller.plan import Update
from weft.switch.engine.control.entities import (
    Exact,
    GroupTarget,
    Key,
    Lpm,
    MemberTarget,
    Range,
    Ternary,
)
from weft.switch.messages import p4info_pb2, p4runtime_pb2

Match = Mapping[str, Any]
"""What an entry's key fields match, by their names; see `read_key`."""

MOST_IDLE_S = 1e9

_KINDS = p4info_pb2.MatchField
_DEFAULT_ONLY = p4info_pb2.ActionRef.DEFAULT_ONLY
_TABLE_ONLY = p4info_pb2.ActionRef.TABLE_ONLY


@dataclass(frozen=True)
class InstalledEntry:
    """An entry as the switch has it."""

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
    meter: Rates | None
    """The rates of its direct meter; None if the table has none, or every packet is green."""
    idle_timeout_s: float
    """After so long without a hit the switch tells the controller; 0: it never does."""
    idle_s: float | None
    """How long ago the last hit was, or, without one, the entry was written; None of a table whose
    entries do not age."""
    text: str
    """The whole entry as text."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Wanted:
    """What an entry is to be, as `TableHandle.insert` is told."""

    action: str
    params: Mapping[str, Value] | None
    named: Mapping[str, Value]
    priority: int
    member: int | None
    group: int | None
    idle_timeout: float


class TableHandle:
    """A handle on one table."""

    def __init__(self, switch: SwitchAccess, info: Any) -> None:
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
        params: Mapping[str, Value] | None = None,
        /,
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
        idle_timeout: float = 0.0,
        **named: Value,
    ) -> None:
        """Insert an entry.

        Args:
            match: what the key fields match, by their names (or their ends); a field that is left
                out matches anything. See `weft.controller.handles.values.read_key`.
            action: the action; in a table with an action profile or selector, it becomes a member
                of the entry's own. (A one-shot would not do: plans give selectors members, and
                a selector takes either.)
            priority: for a table with a ternary, range or optional field, above 0: the greatest
                wins.
            member, group: in place of an action, what an entry of a table with an action profile
                leads to; with an action, its parameters of these names.
            idle_timeout: after so many seconds without a hit the switch tells
                (`weft.controller.handles.switch.SwitchHandle.idle_entries`); for a table that the
                program declares with ``support_timeout = true``. 0: it never does.
            params: the action's parameters by name, ``{"port": 2}``. Those that have no name of
                the arguments above may be keywords as well.
            named: the action's parameters as keywords, ``port=2``.
        """
        wanted = _Wanted(action, params, named, priority, member, group, idle_timeout)
        self._put("insert", match, wanted)

    def modify(
        self,
        match: Match,
        action: str = "",
        params: Mapping[str, Value] | None = None,
        /,
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
        idle_timeout: float = 0.0,
        **named: Value,
    ) -> None:
        """Let an entry that the script has inserted lead elsewhere; the arguments are as for
        `insert`."""
        wanted = _Wanted(action, params, named, priority, member, group, idle_timeout)
        self._put("modify", match, wanted)

    def delete(self, match: Match, *, priority: int = 0) -> None:
        """Delete an entry that the script has inserted."""
        self._check_match(match)
        keys = self._keys(match)
        gone = entry(self.name, keys, MemberTarget(0), self._priority(priority, match))
        self._switch.write(Update("delete", self._switch.written(gone)))
        self._switch.drop_member(gone)

    def set_default(
        self, action: str, params: Mapping[str, Value] | None = None, /, **named: Value
    ) -> None:
        """Set the action for packets that no entry matches; its parameters are as for `insert`."""
        among = [ref.id for ref in self._info.action_refs if ref.scope != _TABLE_ONLY]
        given = self._switch.arguments(action, among, params, named)
        call = self._switch.call(action, given, among)
        self._switch.write(Update("modify", DefaultAction(self.name, call)))

    def reset_default(self) -> None:
        """Put back the default action that the program has."""
        self._switch.write(Update("modify", DefaultAction(self.name, None)))

    def entries(self) -> list[InstalledEntry]:
        """Return all entries of the table, whoever has written them."""
        return [self._installed(one) for one in self._read(is_default=False)]

    def set_meter(self, match: Match, rates: Rates | None, *, priority: int = 0) -> None:
        """Give the direct meter of an entry its rates; None lets every packet be green."""
        values = {} if rates is None else {"config": config_of(rates)}
        self._set_direct("meter", match, priority, values, there=self._metered)

    def set_count(self, match: Match, count: Count, *, priority: int = 0) -> None:
        """Set the direct counter of an entry."""
        data = {"packet_count": count.packets, "byte_count": count.bytes}
        self._set_direct("counter", match, priority, {"data": data}, there=self._counted)

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
        if self._metered and not is_default:
            query["meter_config"] = {}
        if self._ages and not is_default:
            query["time_since_last_hit"] = {}
        return [one.table_entry for one in self._switch.read(table_entry=query)]

    @property
    def _counted(self) -> bool:
        return self._has(self._switch.p4info.direct_counters)

    @property
    def _metered(self) -> bool:
        return self._has(self._switch.p4info.direct_meters)

    def _has(self, resources: Any) -> bool:
        direct = {one.preamble.id for one in resources}
        return not direct.isdisjoint(self._info.direct_resource_ids)

    def _set_direct(
        self, kind: str, match: Match, priority: int, values: Mapping[str, Any], *, there: bool
    ) -> None:
        """Set what belongs to an entry, whoever has written that: its direct counter or meter."""
        self._check_match(match)
        keys = self._keys(match)
        if not there:
            raise InputError(
                f"{self._where(match)}: the table has no direct {kind}: the program declares one, "
                f"and names it in the table's {kind}s"
            )
        message = p4runtime_pb2.Entity()
        wanted = entry(self.name, keys, MemberTarget(0), self._priority(priority, match))
        self._switch.program.messages.fill(message, wanted)
        message.table_entry.ClearField("action")
        direct = {"table_entry": message.table_entry, **values}
        entity = p4runtime_pb2.Entity(**{f"direct_{kind}_entry": direct})
        what = f"set the {kind} of the entry {wanted.match_text} of {self.name}"
        self._switch.session.send("modify", [entity], what)

    def _put(self, kind: Any, match: Match, wanted: "_Wanted") -> None:
        self._check_match(match)
        keys = self._keys(match)
        among = [ref.id for ref in self._info.action_refs if ref.scope != _DEFAULT_ONLY]
        action = wanted.action
        params: dict[str, Any] = dict(wanted.named)
        targets = {"member": wanted.member, "group": wanted.group}
        if action:
            # An action's own parameters may have these names: an entry leads to one thing alone.
            known = self._switch.parameters(action, among)
            for name in [each for each in targets if each in known and targets[each] is not None]:
                params[name] = targets.pop(name)
            own = {"priority": wanted.priority, "idle_timeout": wanted.idle_timeout}
            params = self._switch.arguments(action, among, wanted.params, params, own)
        idle_ns = self._idle_ns(wanted.idle_timeout, match)
        priority = self._priority(wanted.priority, match)
        led = [name for name, given in {"action": action or None, **targets}.items()
               if given is not None]  # fmt: skip
        if len(led) != 1:
            raise InputError(
                f"{self._where(match)}: {' and '.join(led) or 'nothing'} is where the entry is "
                f"to lead: name one action of {', '.join(self.actions)}, behind what is matched"
                + (", or a member or a group" if self._info.implementation_id else "")
            )
        if not action:
            if not self._info.implementation_id:
                raise InputError(
                    f"{self._where(match)}: the table has no action profile, so its "
                    "entries lead to actions, not to members or groups"
                )
            if params or wanted.params:
                raise InputError(f"{self._where(match)}: parameters go with an action, by its name")
            member, group = wanted.member, wanted.group
            target = MemberTarget(member) if member is not None else GroupTarget(group or 0)
            written = entry(self.name, keys, target, priority, idle_timeout_ns=idle_ns)
            self._switch.write(Update(kind, written))
            self._switch.drop_member(written)
            return
        call = self._switch.call(action, params, among)
        update = Update(kind, entry(self.name, keys, call, priority, idle_timeout_ns=idle_ns))
        if not self._info.implementation_id:
            self._switch.write(update)
        else:
            self._switch.write_with_member(update, self._info, call)

    @property
    def _ages(self) -> bool:
        return bool(self._info.idle_timeout_behavior == p4info_pb2.Table.NOTIFY_CONTROL)

    def _idle_ns(self, seconds: Any, match: Match) -> int:
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, (int, float))
            or not 0 <= seconds <= MOST_IDLE_S
        ):
            raise InputError(
                f"{self._where(match)}: idle_timeout {shown(seconds)}: a number of seconds from 0 "
                f"to {MOST_IDLE_S:g}"
            )
        if seconds and not self._ages:
            raise InputError(
                f"{self._where(match)}: idle_timeout {seconds:g} s: entries of this table do not "
                "age; declare it with support_timeout = true in the program, or leave idle_timeout "
                "out"
            )
        idle_ns: int = round(seconds * 1e9)
        return idle_ns

    def _check_match(self, match: Any) -> None:
        if not isinstance(match, Mapping):
            raise InputError(
                f"{self._switch.name}, table {self.name}: {shown(match)} does not say what key "
                "fields match: give their values by name, like "
                f"{{{next(iter(self.keys), 'FIELD')!r}: 1}}"
            )

    def _where(self, match: Match) -> str:
        return f"{self._switch.name}, entry {shown(dict(match))} of {self.name}"

    def _keys(self, match: Match) -> dict[str, Key]:
        fields = {field.name: field for field in self._info.match_fields}
        given = {}
        for name, value in match.items():
            found = [each for each in fields if each == name] or [
                each for each in fields if each.endswith(f".{name}")
            ]
            if len(found) != 1:
                raise InputError(
                    f"{self._switch.name}: table {self.name} has "
                    f"{'several key fields' if found else 'no key field'} {name!r}"
                    f"{did_you_mean(name, fields)}; it has {', '.join(fields) or 'none'}"
                )
            if found[0] in given:
                raise InputError(f"{self._where(match)}: {found[0]} is there twice")
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
        priority = whole(f"{self._where(match)}: priority", priority, "1")
        ranked = any(
            field.match_type in (_KINDS.TERNARY, _KINDS.RANGE, _KINDS.OPTIONAL)
            for field in self._info.match_fields
        )
        if ranked and priority < 1:
            raise InputError(
                f"{self._where(match)}: several entries of this table may match a packet, and the "
                "greatest priority wins: name one, priority=1 or more"
            )
        if not ranked and priority:
            raise InputError(
                f"{self._where(match)}: priority {priority}: no two entries of this table can "
                "match a packet alike, so it takes none; leave it out"
            )
        return priority

    def _action_name(self, number: int) -> str:
        names = {one.preamble.id: one.preamble.name for one in self._switch.p4info.actions}
        return str(names[number])

    def _text(self, message: Any) -> str:
        return entry_text(self._switch.p4info, self._info, message)

    def _installed(self, message: Any) -> InstalledEntry:
        match = match_of(self._info.match_fields, message)
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
            rates_of(message, "meter_config"),
            message.idle_timeout_ns / 1e9,
            message.time_since_last_hit.elapsed_ns / 1e9 if self._ages else None,
            text,
        )


def match_of(match_fields: Any, message: Any) -> dict[str, Key]:
    """Return what a ``TableEntry``, or a member of a value set, matches, by the full names of
    fields; ``match_fields`` are the program's ``p4.config.v1.MatchField`` messages."""
    fields = {field.id: field.name for field in match_fields}
    return {fields[one.field_id]: _key_of(one) for one in message.match}


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
