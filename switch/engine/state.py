"""``SwitchControl`` as the engine implements it: everything a controller has set on one switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine import versions
from weft.switch.engine.amounts import MOST_REPLICAS, MOST_REPLICAS_IN_ALL
from weft.switch.engine.build import Pipeline
from weft.switch.engine.control import (
    ActionCall,
    AlreadyExists,
    CloneSession,
    ControlError,
    CounterCell,
    Group,
    InvalidValue,
    Key,
    Member,
    MeterConfig,
    MulticastGroup,
    NoProgram,
    NotFound,
    NotPermitted,
    ProfileGroup,
    ProfileMember,
    Replica,
    StillInUse,
    TableEntry,
    TableFull,
)
from weft.switch.engine.headers import words_of
from weft.switch.engine.host import Host
from weft.switch.engine.image import ImageBuilder, Row, key_flags, key_pairs, signed
from weft.switch.engine.layout import FIRST_TABLE
from weft.switch.engine.objects import Objects
from weft.switch.engine.program import Action, Cells, Profile
from weft.switch.engine.tables import (
    TableState,
    check_call,
    check_entry,
    check_priority,
    check_target,
    encode_key,
    normal_keys,
    rank,
)
from weft.switch.engine.tracer import Tracer, Version
from weft.switch.engine.value_sets import ValueSetState, encode_all, value_set_states

Item = TypeVar("Item")


class ProfileState:
    """The members and groups of one action profile."""

    def __init__(self, profile: Profile, actions: tuple[Action, ...]) -> None:
        self.profile = profile
        self.actions = actions
        self.members: dict[int, ProfileMember] = {}
        self.groups: dict[int, ProfileGroup] = {}


class EngineControl(Objects):
    """Implements ``weft.switch.engine.control.SwitchControl``; its docstrings apply."""

    def __init__(self, host: Host, switch: int, name: str, ports: tuple[int, ...]) -> None:
        self.host = host
        self.switch = switch
        self._name = name
        self._ports = ports
        self._saved: Pipeline | None = None
        self._pipeline: Pipeline | None = None
        self._changed = False
        self._tables: dict[str, TableState] = {}
        self._profiles: dict[str, ProfileState] = {}
        self._multicast: dict[int, MulticastGroup] = {}
        self._clones: dict[int, CloneSession] = {}
        self._replicas = 0
        self._ports_down: set[int] = set()
        self._rates: dict[int, MeterConfig] = {}
        self._value_sets: dict[str, ValueSetState] = {}
        self._running = False
        self.tracer: Tracer | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def ports(self) -> tuple[int, ...]:
        return self._ports

    # -- life of a program

    def load_program(self, bmv2_json: str, *, load: Literal["verify", "save"]) -> None:
        pipeline = self.host.build(bmv2_json)
        if load == "save":
            self._saved = pipeline

    def commit_program(self, *, reconcile: bool = False) -> None:
        if self._saved is None:
            raise NoProgram(f"switch {self._name!r} has no saved program to commit")
        old_tables, old_profiles = self._tables, self._profiles
        self._pipeline, self._saved = self._saved, None
        program = self._pipeline.program
        self._rates = {}
        self._value_sets = value_set_states(program.groups)
        self._running = False
        self._tables = {table.name: TableState(table) for table in program.tables.values()}
        self._profiles = {}
        for profile in program.profiles.values():
            actions: list[Action] = []
            for table in program.tables.values():
                if table.profile is profile:
                    actions += [action for action in table.actions if action not in actions]
            self._profiles[profile.name] = ProfileState(profile, tuple(actions))
        if reconcile:
            self._reconcile(old_tables, old_profiles)
        else:
            self._multicast, self._clones, self._replicas = {}, {}, 0
        self._install(fresh=True)
        self._start_all()

    def _reconcile(self, tables: dict[str, TableState], profiles: dict[str, ProfileState]) -> None:
        """Keep of the old program's contents what still fits."""

        def keep(function: Callable[[Item], None], items: list[Item]) -> None:
            for item in items:
                try:
                    function(item)
                except ControlError:
                    continue

        for profile in profiles.values():
            keep(self.insert_member, list(profile.members.values()))
            keep(self.insert_group, list(profile.groups.values()))
        for state in tables.values():
            if state.free and state.table.name in self._tables:
                self._tables[state.table.name].clear()
            if state.free or not state.table.immutable:
                keep(self.insert_entry, state.own_entries())
            if state.default is not None and not state.table.default_const:
                default = state.default

                def set_default(name: str, target: ActionCall = default) -> None:
                    self.set_default(name, target)

                keep(set_default, [state.table.name])

    @property
    def program_loaded(self) -> bool:
        return self._pipeline is not None

    @property
    def program_saved(self) -> bool:
        return self._saved is not None

    def publish(self, live: Callable[[], None] | None = None) -> None:
        if live is not None:
            image = self._image() if self._changed else None
            self.host.at_once(lambda: self._publish_with(image, live))
        elif self._changed:
            self._install(fresh=False)

    def _publish_with(self, image: NDArray[np.int64] | None, live: Callable[[], None]) -> None:
        if image is not None:
            assert self._pipeline is not None
            self.host.install(self.switch, self._pipeline, image, fresh=False)
            self._changed = False
        live()

    def snapshot(self) -> Any:
        return versions.take(self)

    def restore(self, snapshot: Any) -> None:
        versions.put_back(snapshot)
        self._resume()

    def _install(self, *, fresh: bool) -> None:
        assert self._pipeline is not None
        self.host.install(self.switch, self._pipeline, self._image(), fresh=fresh)
        self._changed = False

    # -- the image

    def _image(self) -> NDArray[np.int64]:
        uses = self._pipeline.program.groups.uses if self._pipeline else []
        builder = ImageBuilder(len(self._tables), len(uses))
        builder.value_sets(uses, *encode_all(self._value_sets))
        builder.replication(
            {
                group.group_id: (0, [(copy.port, copy.instance) for copy in group.replicas])
                for group in self._multicast.values()
            },
            clones=False,
        )
        builder.replication(
            {
                session.session_id: (
                    session.packet_length_bytes,
                    [(copy.port, copy.instance) for copy in session.replicas],
                )
                for session in self._clones.values()
            },
            clones=True,
        )
        members: dict[tuple[str, int], int] = {}
        groups: dict[tuple[str, int], int] = {}
        for name, profile in self._profiles.items():
            for member in profile.members.values():
                members[name, member.member_id] = self._record(
                    builder, profile.actions, member.call
                )
            for group in profile.groups.values():
                slots = [
                    members[name, identifier]
                    for identifier, weight in sorted(self._live(group.members, group.watch_ports))
                    for _ in range(weight)
                ]
                groups[name, group.group_id] = builder.group(slots)
        for state in self._tables.values():
            self._encode_table(builder, state, members, groups)
        image = builder.finish()
        if self.tracer is not None:
            self.tracer.remember(image)
        return image

    def version(self) -> Version:
        """What a trace needs to tell what packets meet: all entries, groups and sessions."""
        tables = dict(self._tables)
        entries: dict[str, dict[int, TableEntry]] = {}
        for name, state in tables.items():
            cells = dict(state.cells)  # of a whole: another thread may be changing the table
            known = dict(state.entries).items()
            entries[name] = {cells[one]: entry for one, entry in known if one in cells}
        return Version(
            entries,
            {name: state.default_target or state.default for name, state in tables.items()},
            dict(self._multicast),
            dict(self._clones),
        )

    @property
    def pipelines(self) -> list[Pipeline]:
        """The program that runs and the one that is saved, where there are such."""
        return [one for one in (self._pipeline, self._saved) if one is not None]

    def _live(
        self, members: tuple[Item, ...], watch_ports: tuple[int | None, ...]
    ) -> tuple[Item, ...]:
        """Of a group's members those whose watch port is not down."""
        if not watch_ports or not self._ports_down:
            return members
        return tuple(
            member
            for member, port in zip(members, watch_ports, strict=True)
            if port not in self._ports_down
        )

    def set_port_up(self, port: int, up: bool) -> None:
        if (port in self._ports_down) == up:
            (self._ports_down.discard if up else self._ports_down.add)(port)
            self._changed = self._pipeline is not None

    def _record(self, builder: ImageBuilder, actions: tuple[Action, ...], call: ActionCall) -> int:
        action = check_call("", actions, call)
        words = [action.code]
        for value, width in zip(call.params, action.widths, strict=True):
            words += (value >> shift for shift in range(64 * (words_of(width) - 1), -1, -64))
        return builder.record(words)

    def _encode_table(
        self,
        builder: ImageBuilder,
        state: TableState,
        members: dict[tuple[str, int], int],
        groups: dict[tuple[str, int], int],
    ) -> None:
        table = state.table
        profile = table.profile.name if table.profile else ""
        widths = [key.width for key in table.keys]
        rows = []
        for identity, entry in state.entries.items():
            target = entry.target
            if isinstance(target, ActionCall):
                record = self._record(builder, table.actions, target)
            elif isinstance(target, Member):
                record = members[profile, target.member_id]
            elif isinstance(target, Group):
                record = groups[profile, target.group_id]
            else:
                records = [
                    (self._record(builder, table.actions, call), weight)
                    for call, weight in self._live(target.actions, target.watch_ports)
                ]
                record = builder.group([at for at, weight in records for _ in range(weight)])
            keys = [encode_key(key, width) for key, width in zip(entry.keys, widths, strict=True)]
            pairs = key_pairs(keys, widths)
            rows.append(Row(pairs, rank(table, entry), record, state.cells[identity]))
        default = 0
        if state.default is not None:
            default = self._record(builder, table.actions, state.default)
        if isinstance(state.default_target, Member):
            default = members[profile, state.default_target.member_id]
        elif state.default_target is not None:
            default = groups[profile, state.default_target.group_id]
        flags = key_flags([key.kind == "range" for key in table.keys], widths)
        builder.table(FIRST_TABLE + table.index, len(flags), flags, rows, default)

    # -- tables

    def _table(self, name: str) -> TableState:
        if self._pipeline is None:
            raise NoProgram(f"switch {self._name!r} has no program: load one first")
        if name not in self._tables:
            names = ", ".join(self._tables)
            raise NotFound(f"the program has no table {name!r}; it has: {names}")
        return self._tables[name]

    def _check_references(self, state: TableState, entry: TableEntry) -> None:
        check_target(state.table, entry.target)
        if isinstance(entry.target, Member):
            assert state.table.profile is not None
            self._member(state.table.profile.name, entry.target.member_id)
        elif isinstance(entry.target, Group):
            assert state.table.profile is not None
            self._group(state.table.profile.name, entry.target.group_id)

    def insert_entry(self, entry: TableEntry) -> None:
        state = self._table(entry.table)
        state.check_mutable()
        entry = check_entry(state.table, entry)
        self._check_references(state, entry)
        state.add(entry)
        self._changed = True
        self._start_entry(state, entry)

    def modify_entry(self, entry: TableEntry) -> None:
        state = self._table(entry.table)
        state.check_mutable()
        entry = check_entry(state.table, entry)
        state.check_mutable(entry.keys, entry.priority)
        self._check_references(state, entry)
        old = state.replace(entry)
        self._changed = True
        if old.idle_timeout_ns != entry.idle_timeout_ns:
            self._start_timeout(state, entry)

    def delete_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> None:
        state = self._table(table)
        state.check_mutable()
        keys = normal_keys(state.table, keys)
        check_priority(state.table, priority)
        state.check_mutable(keys, priority)
        self._end_entry(state, state.remove(keys, priority))
        self._changed = True

    def free_entries(self, table: str) -> None:
        self._table(table).free = True

    def is_const(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> bool:
        return self._table(table).is_const(keys, priority)

    def entries(self, table: str) -> list[TableEntry]:
        return list(self._table(table).entries.values())

    def find_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> TableEntry:
        return self._table(table).need(keys, priority)

    def set_default(self, table: str, target: ActionCall | Member | Group) -> None:
        state = self._table(table)
        usual = state.table.default_action
        if state.table.default_entry_const:
            raise NotPermitted(f"the default action of table {table!r} is const")
        if isinstance(target, ActionCall):
            if state.table.profile is not None:
                raise NotPermitted(f"table {table!r} is indirect: it has no default action")
            if state.table.default_const and usual is not None and target.action != usual.name:
                raise NotPermitted(
                    f"the default action of table {table!r} is always {usual.name!r}: only its "
                    "parameters can change"
                )
            check_call(f"table {table!r}", state.table.actions, target)
            state.default = target
        else:
            self._check_references(state, TableEntry(table, (), target))
            state.default_target = target
        self._changed = True

    def reset_default(self, table: str) -> None:
        state = self._table(table)
        state.reset_default()
        self._changed = True

    def default(self, table: str) -> ActionCall | None:
        state = self._table(table)
        if isinstance(state.default_target, Member):
            assert state.table.profile is not None
            return self._member(state.table.profile.name, state.default_target.member_id).call
        return state.default if state.default_target is None else None

    # -- action profiles

    def _profile(self, name: str) -> ProfileState:
        if self._pipeline is None:
            raise NoProgram(f"switch {self._name!r} has no program: load one first")
        if name not in self._profiles:
            names = ", ".join(self._profiles) or "none"
            raise NotFound(f"the program has no action profile {name!r}; it has: {names}")
        return self._profiles[name]

    def _member(self, profile: str, member_id: int) -> ProfileMember:
        state = self._profile(profile)
        if member_id not in state.members:
            raise NotFound(f"action profile {profile!r} has no member {member_id}")
        return state.members[member_id]

    def _group(self, profile: str, group_id: int) -> ProfileGroup:
        state = self._profile(profile)
        if group_id not in state.groups:
            raise NotFound(f"action profile {profile!r} has no group {group_id}")
        return state.groups[group_id]

    def _users(self, profile: str, target: Member | Group) -> bool:
        return any(
            target in (user.default_target, *(entry.target for entry in user.entries.values()))
            for user in self._tables.values()
            if user.table.profile is not None and user.table.profile.name == profile
        )

    def insert_member(self, member: ProfileMember) -> None:
        state = self._profile(member.profile)
        if member.member_id in state.members:
            raise AlreadyExists(
                f"action profile {member.profile!r} has a member {member.member_id} already"
            )
        if len(state.members) >= state.profile.size:
            raise TableFull(
                f"action profile {member.profile!r} is full: {state.profile.size} members"
            )
        check_call(f"action profile {member.profile!r}", state.actions, member.call)
        state.members[member.member_id] = member
        self._changed = True

    def modify_member(self, member: ProfileMember) -> None:
        self._member(member.profile, member.member_id)
        state = self._profile(member.profile)
        check_call(f"action profile {member.profile!r}", state.actions, member.call)
        state.members[member.member_id] = member
        self._changed = True

    def delete_member(self, profile: str, member_id: int) -> None:
        self._member(profile, member_id)
        state = self._profile(profile)
        used = any(
            member_id == identifier
            for group in state.groups.values()
            for identifier, _ in group.members
        )
        if used or self._users(profile, Member(member_id)):
            raise StillInUse(f"member {member_id} of action profile {profile!r} is still in use")
        del state.members[member_id]
        self._changed = True

    def members(self, profile: str) -> list[ProfileMember]:
        return list(self._profile(profile).members.values())

    def _check_group(self, group: ProfileGroup) -> None:
        state = self._profile(group.profile)
        where = f"group {group.group_id} of action profile {group.profile!r}"
        if state.profile.algorithm is None:
            raise InvalidValue(f"action profile {group.profile!r} has no selector: no groups")
        for member_id, weight in group.members:
            self._member(group.profile, member_id)
            if weight < 1:
                raise InvalidValue(f"{where}: the weight {weight} is not positive")
        if len({member_id for member_id, _ in group.members}) != len(group.members):
            raise InvalidValue(f"{where} names a member twice")
        limit = group.max_size or state.profile.size
        if sum(weight for _, weight in group.members) > max(limit, 1):
            raise InvalidValue(f"{where}: the sum of its weights exceeds {limit}")

    def insert_group(self, group: ProfileGroup) -> None:
        state = self._profile(group.profile)
        if group.group_id in state.groups:
            raise AlreadyExists(
                f"action profile {group.profile!r} has a group {group.group_id} already"
            )
        self._check_group(group)
        state.groups[group.group_id] = group
        self._changed = True

    def modify_group(self, group: ProfileGroup) -> None:
        self._group(group.profile, group.group_id)
        self._check_group(group)
        self._profile(group.profile).groups[group.group_id] = group
        self._changed = True

    def delete_group(self, profile: str, group_id: int) -> None:
        self._group(profile, group_id)
        if self._users(profile, Group(group_id)):
            raise StillInUse(f"group {group_id} of action profile {profile!r} is still in use")
        del self._profile(profile).groups[group_id]
        self._changed = True

    def groups(self, profile: str) -> list[ProfileGroup]:
        return list(self._profile(profile).groups.values())

    # -- replication

    def _check_replicas(
        self, what: str, new: tuple[Replica, ...], old: tuple[Replica, ...] = ()
    ) -> None:
        """Whether a switch takes these replicas in place of others, which counts them."""
        if self._pipeline is None:
            raise NoProgram(f"switch {self._name!r} has no program: load one first")
        if len(new) > MOST_REPLICAS:
            raise TableFull(f"{what} has {len(new)} replicas: at most {MOST_REPLICAS}")
        in_all = self._replicas + len(new) - len(old)
        if in_all > max(MOST_REPLICAS_IN_ALL, self._replicas):
            raise TableFull(
                f"{what} with its {len(new)} replicas would make {in_all} in all groups and "
                f"sessions: at most {MOST_REPLICAS_IN_ALL}"
            )
        for replica in new:
            if not 0 <= replica.port < 512 or not 0 <= replica.instance < 1 << 16:
                raise InvalidValue(f"{what}: {replica} is out of range (port 511, instance 65535)")
        self._replicas = in_all

    def insert_multicast_group(self, group: MulticastGroup) -> None:
        if group.group_id in self._multicast:
            raise AlreadyExists(f"multicast group {group.group_id} exists already")
        if not 0 < group.group_id < 1 << 16:
            raise InvalidValue(f"multicast group {group.group_id}: ids go from 1 to 65535")
        self._check_replicas(f"multicast group {group.group_id}", group.replicas)
        self._multicast[group.group_id] = group
        self._changed = True

    def modify_multicast_group(self, group: MulticastGroup) -> None:
        if group.group_id not in self._multicast:
            raise NotFound(f"there is no multicast group {group.group_id}")
        old = self._multicast[group.group_id].replicas
        self._check_replicas(f"multicast group {group.group_id}", group.replicas, old)
        self._multicast[group.group_id] = group
        self._changed = True

    def delete_multicast_group(self, group_id: int) -> None:
        if group_id not in self._multicast:
            raise NotFound(f"there is no multicast group {group_id}")
        self._replicas -= len(self._multicast.pop(group_id).replicas)
        self._changed = True

    def multicast_groups(self) -> list[MulticastGroup]:
        return list(self._multicast.values())

    def insert_clone_session(self, session: CloneSession) -> None:
        if session.session_id in self._clones:
            raise AlreadyExists(f"clone session {session.session_id} exists already")
        if not 0 <= session.session_id < 1 << 15:
            raise InvalidValue(f"clone session {session.session_id}: ids go from 0 to 32767")
        self._check_replicas(f"clone session {session.session_id}", session.replicas)
        self._clones[session.session_id] = session
        self._changed = True

    def modify_clone_session(self, session: CloneSession) -> None:
        if session.session_id not in self._clones:
            raise NotFound(f"there is no clone session {session.session_id}")
        old = self._clones[session.session_id].replicas
        self._check_replicas(f"clone session {session.session_id}", session.replicas, old)
        self._clones[session.session_id] = session
        self._changed = True

    def delete_clone_session(self, session_id: int) -> None:
        if session_id not in self._clones:
            raise NotFound(f"there is no clone session {session_id}")
        self._replicas -= len(self._clones.pop(session_id).replicas)
        self._changed = True

    def clone_sessions(self) -> list[CloneSession]:
        return list(self._clones.values())

    # -- counters and registers

    def _cells(self, kind: str, name: str, index: int) -> Cells:
        if self._pipeline is None:
            raise NoProgram(f"switch {self._name!r} has no program: load one first")
        program = self._pipeline.program
        table = program.counters if kind == "counter" else program.registers
        if name not in table:
            raise NotFound(f"the program has no {kind} {name!r}; it has: {', '.join(table)}")
        cells = table[name]
        if not 0 <= index < cells.size:
            raise InvalidValue(f"{kind} {name!r} has cells 0 to {cells.size - 1}, not {index}")
        return cells

    def _cell(self, at: int) -> CounterCell:
        packets, size = self.host.counters(self.switch)[at]
        return CounterCell(int(packets), int(size))

    def read_counter(self, counter: str, index: int) -> CounterCell:
        return self._cell(self._cells("counter", counter, index).base + index)

    def read_counters(self, counter: str) -> list[CounterCell]:
        cells = self._cells("counter", counter, 0)
        array = self.host.counters(self.switch)[cells.base : cells.base + cells.size].tolist()
        return [CounterCell(packets, size) for packets, size in array]

    def write_counter(self, counter: str, index: int, cell: CounterCell) -> None:
        at = self._cells("counter", counter, index).base + index
        self.host.counters(self.switch)[at] = (cell.packets, cell.bytes)

    def _direct(self, table: str, keys: tuple[Key, ...], priority: int) -> int:
        state = self._table(table)
        if state.table.counter_base is None:
            raise NotFound(f"table {table!r} has no direct counter")
        state.need(keys, priority)
        return state.table.counter_base + state.cells[keys, priority]

    def read_direct_counter(
        self, table: str, keys: tuple[Key, ...], priority: int = 0
    ) -> CounterCell:
        return self._cell(self._direct(table, keys, priority))

    def write_direct_counter(
        self, table: str, keys: tuple[Key, ...], priority: int, cell: CounterCell
    ) -> None:
        at = self._direct(table, keys, priority)
        self.host.counters(self.switch)[at] = (cell.packets, cell.bytes)

    def read_default_counter(self, table: str) -> CounterCell:
        state = self._table(table)
        if state.table.counter_base is None:
            raise NotFound(f"table {table!r} has no direct counter")
        return self._cell(state.table.counter_base)

    def read_register(self, register: str, index: int) -> int:
        cells = self._cells("register", register, index)
        start = cells.base + index * cells.words
        value = 0
        for word in self.host.registers(self.switch)[start : start + cells.words].tolist():
            value = value << 64 | word & ((1 << 64) - 1)
        return value & ((1 << cells.width) - 1)

    def write_register(self, register: str, index: int, value: int) -> None:
        cells = self._cells("register", register, index)
        if not 0 <= value < 1 << cells.width:
            raise InvalidValue(f"register {register!r} has cells of {cells.width} bits: {value}")
        if cells.signed and value >> (cells.width - 1):
            value -= 1 << cells.width
        start = cells.base + index * cells.words
        shifts = range(64 * (cells.words - 1), -1, -64)
        words = [signed(value >> shift) for shift in shifts]
        self.host.registers(self.switch)[start : start + cells.words] = words
