"""``SwitchControl`` as the engine implements it: everything a controller has set on one switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine import layout as at
from weft.switch.engine import meters
from weft.switch.engine.attachments import Meter
from weft.switch.engine.build import Pipeline
from weft.switch.engine.contents import Contents, contents_of
from weft.switch.engine.control import (
    ActionCall,
    CloneSession,
    ControlError,
    CounterCell,
    DigestEvent,
    Event,
    GroupTarget,
    IdleTimeout,
    InvalidValue,
    Key,
    MemberTarget,
    MeterConfig,
    MeterCounts,
    MulticastGroup,
    NoProgram,
    NotFound,
    NotPermitted,
    PacketIn,
    ProfileGroup,
    ProfileMember,
    TableEntry,
)
from weft.switch.engine.encoding import encode
from weft.switch.engine.profiles import ProfileState
from weft.switch.engine.program import Cells, Program
from weft.switch.engine.surroundings import Surroundings
from weft.switch.engine.tables import (
    TableState,
    check_call,
    check_entry,
    check_priority,
    check_target,
    normal_keys,
)
from weft.switch.engine.tracer import Tracer, Version
from weft.switch.engine.value_sets import ValueSetState
from weft.switch.engine.words import join_words, signed, split_words

Parameters = ParamSpec("Parameters")
Item = TypeVar("Item")
Array = TypeVar("Array", Cells, Meter)

Snapshot = tuple[Contents, bool]
"""What was set, and whether packets are yet to see some of it."""


def _changes(
    method: Callable[Concatenate[EngineControl, Parameters], None],
) -> Callable[Concatenate[EngineControl, Parameters], None]:
    """Mark a method that sets what packets are yet to see, unless it raises."""

    @wraps(method)
    def changing(
        self: EngineControl, /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> None:
        method(self, *args, **kwargs)
        self._changed = True

    return changing


class EngineControl:
    """Implements ``weft.switch.engine.control.SwitchControl``; its docstrings apply."""

    def __init__(self, host: Surroundings, switch: int, name: str, ports: tuple[int, ...]) -> None:
        self.host = host
        self.switch = switch
        self.name = name
        self.ports = ports
        self.drop_port = host.drop_port
        self.tracer: Tracer | None = None
        self._live = host.state(switch)
        self._saved: Pipeline | None = None
        self._pipeline: Pipeline | None = None
        self._contents = Contents()
        self._changed = False
        """Whether packets are yet to see some of the contents."""
        self._running = False
        """Whether the arrays of the present program are in place."""

    # -- life of a program

    def load_program(self, bmv2_json: str, *, load: Literal["verify", "save"]) -> None:
        pipeline = self.host.build(bmv2_json)
        if load == "save":
            self._saved = pipeline

    def commit_program(self, *, reconcile: bool = False) -> None:
        if self._saved is None:
            raise NoProgram(f"switch {self.name!r} has no saved program to commit")
        old = self._contents
        self._pipeline, self._saved = self._saved, None
        self._contents = contents_of(self._pipeline.program)
        self._contents.ports_down = old.ports_down
        self._running = False
        if reconcile:
            self._contents.replication = old.replication
            self._reconcile(old)
        self._install(fresh=True)
        self._running = True
        for state in self._contents.tables.values():
            for entry in state.entries.values():
                self._start_entry(state, entry)

    def _reconcile(self, old: Contents) -> None:
        """Keep of the old program's contents what still fits."""

        def keep(function: Callable[..., None], items: Sequence[tuple[object, ...]]) -> None:
            for item in items:
                try:
                    function(*item)
                except ControlError:
                    continue

        for profile in old.profiles.values():
            keep(self.insert_member, [(member,) for member in profile.members.values()])
            keep(self.insert_group, [(group,) for group in profile.groups.values()])
        for name, state in old.tables.items():
            if state.free and name in self._contents.tables:
                self._contents.tables[name].clear()
            if state.free or not state.table.immutable:
                keep(self.insert_entry, [(entry,) for entry in state.own_entries()])
            if state.default is not None and not state.table.default_const:
                keep(self.set_default, [(name, state.default)])

    @property
    def program_loaded(self) -> bool:
        return self._pipeline is not None

    @property
    def program_saved(self) -> bool:
        return self._saved is not None

    @property
    def pipelines(self) -> list[Pipeline]:
        """The program that runs and the one that is saved, where there are such."""
        return [one for one in (self._pipeline, self._saved) if one is not None]

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

    def snapshot(self) -> Snapshot:
        return self._contents.copy(), self._changed

    def restore(self, snapshot: Snapshot) -> None:
        self._contents, self._changed = snapshot
        self._resume()

    def _install(self, *, fresh: bool) -> None:
        assert self._pipeline is not None
        self.host.install(self.switch, self._pipeline, self._image(), fresh=fresh)
        self._changed = False

    def _image(self) -> NDArray[np.int64]:
        image = encode(self._contents, self._program().groups.uses)
        if self.tracer is not None:
            self.tracer.remember(image)
        return image

    def version(self) -> Version:
        """What a trace needs to tell what packets meet: all entries, groups and sessions."""
        tables = dict(self._contents.tables)
        entries: dict[str, dict[int, TableEntry]] = {}
        for name, state in tables.items():
            cells = dict(state.cells)  # of a whole: another thread may be changing the table
            known = dict(state.entries).items()
            entries[name] = {cells[one]: entry for one, entry in known if one in cells}
        return Version(
            entries,
            {name: state.default_target or state.default for name, state in tables.items()},
            dict(self._contents.replication.groups),
            dict(self._contents.replication.sessions),
        )

    def set_port_up(self, port: int, up: bool) -> None:
        down = self._contents.ports_down
        if (port in down) == up:
            (down.discard if up else down.add)(port)
            self._changed = self._pipeline is not None

    # -- what a name means

    def _program(self) -> Program:
        if self._pipeline is None:
            raise NoProgram(f"switch {self.name!r} has no program: load one first")
        return self._pipeline.program

    def _named(self, kind: str, items: Mapping[str, Item], name: str) -> Item:
        self._program()
        if name not in items:
            known = ", ".join(items) or "none"
            raise NotFound(f"the program has no {kind} {name!r}; it has: {known}")
        return items[name]

    def _table(self, name: str) -> TableState:
        return self._named("table", self._contents.tables, name)

    def _profile(self, name: str) -> ProfileState:
        return self._named("action profile", self._contents.profiles, name)

    def _value_set(self, name: str) -> ValueSetState:
        return self._named("value set", self._contents.value_sets, name)

    def _array(self, kind: str, arrays: Mapping[str, Array], name: str, index: int) -> Array:
        array = self._named(kind, arrays, name)
        if not 0 <= index < array.size:
            raise InvalidValue(f"{kind} {name!r} has cells 0 to {array.size - 1}, not {index}")
        return array

    def _entry_cell(
        self, state: TableState, what: str, base: int | None, keys: tuple[Key, ...] | None,
        priority: int,
    ) -> int:  # fmt: skip
        """The cell of an entry, or (``keys`` None) of the default one, among a table's own."""
        if base is None:
            raise NotFound(f"table {state.table.name!r} {what}")
        if keys is None:
            return base
        state.need(keys, priority)
        return base + state.cells[keys, priority]

    # -- tables

    def _check_references(self, state: TableState, target: object) -> None:
        if isinstance(target, (MemberTarget, GroupTarget)):
            assert state.table.profile is not None
            profile = self._profile(state.table.profile.name)
            if isinstance(target, MemberTarget):
                profile.member(target.member_id)
            else:
                profile.group(target.group_id)

    def _checked(self, state: TableState, entry: TableEntry, *, new: bool) -> TableEntry:
        """An entry that fits its table, and whose member or group is there."""
        state.check_mutable()
        entry = check_entry(state.table, entry)
        if not new:
            state.check_mutable(entry.keys, entry.priority)
        check_target(state.table, entry.target)
        self._check_references(state, entry.target)
        return entry

    @_changes
    def insert_entry(self, entry: TableEntry) -> None:
        state = self._table(entry.table)
        entry = self._checked(state, entry, new=True)
        state.add(entry)
        self._start_entry(state, entry)

    @_changes
    def modify_entry(self, entry: TableEntry) -> None:
        state = self._table(entry.table)
        entry = self._checked(state, entry, new=False)
        old = state.replace(entry)
        if old.idle_timeout_ns != entry.idle_timeout_ns:
            self._start_timeout(state, entry)

    @_changes
    def delete_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> None:
        state = self._table(table)
        state.check_mutable()
        keys = normal_keys(state.table, keys)
        check_priority(state.table, priority)
        state.check_mutable(keys, priority)
        self._end_entry(state, state.remove(keys, priority))

    def free_entries(self, table: str) -> None:
        self._table(table).free = True

    def is_const(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> bool:
        return self._table(table).is_const(keys, priority)

    def entries(self, table: str) -> list[TableEntry]:
        return list(self._table(table).entries.values())

    def find_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> TableEntry:
        return self._table(table).need(keys, priority)

    @_changes
    def set_default(self, table: str, target: ActionCall | MemberTarget | GroupTarget) -> None:
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
            check_target(state.table, target)
            self._check_references(state, target)
            state.default_target = target

    @_changes
    def reset_default(self, table: str) -> None:
        self._table(table).reset_default()

    def default(self, table: str) -> ActionCall | None:
        state = self._table(table)
        if isinstance(state.default_target, MemberTarget):
            assert state.table.profile is not None
            profile = self._profile(state.table.profile.name)
            return profile.member(state.default_target.member_id).call
        return state.default if state.default_target is None else None

    # -- action profiles

    def _used(self, profile: str, target: MemberTarget | GroupTarget) -> bool:
        """Whether an entry, or a default, leads to a member or group."""
        return any(
            target in (user.default_target, *(entry.target for entry in user.entries.values()))
            for user in self._contents.tables.values()
            if user.table.profile is not None and user.table.profile.name == profile
        )

    @_changes
    def insert_member(self, member: ProfileMember) -> None:
        self._profile(member.profile).insert_member(member)

    @_changes
    def modify_member(self, member: ProfileMember) -> None:
        self._profile(member.profile).modify_member(member)

    @_changes
    def delete_member(self, profile: str, member_id: int) -> None:
        state = self._profile(profile)
        state.delete_member(member_id, self._used(profile, MemberTarget(member_id)))

    def members(self, profile: str) -> list[ProfileMember]:
        return list(self._profile(profile).members.values())

    @_changes
    def insert_group(self, group: ProfileGroup) -> None:
        self._profile(group.profile).insert_group(group)

    @_changes
    def modify_group(self, group: ProfileGroup) -> None:
        self._profile(group.profile).modify_group(group)

    @_changes
    def delete_group(self, profile: str, group_id: int) -> None:
        state = self._profile(profile)
        state.delete_group(group_id, self._used(profile, GroupTarget(group_id)))

    def groups(self, profile: str) -> list[ProfileGroup]:
        return list(self._profile(profile).groups.values())

    # -- replication

    @_changes
    def insert_multicast_group(self, group: MulticastGroup) -> None:
        self._program()
        self._contents.replication.insert(group)

    @_changes
    def modify_multicast_group(self, group: MulticastGroup) -> None:
        self._contents.replication.modify(group)

    @_changes
    def delete_multicast_group(self, group_id: int) -> None:
        self._contents.replication.delete_group(group_id)

    def multicast_groups(self) -> list[MulticastGroup]:
        return list(self._contents.replication.groups.values())

    @_changes
    def insert_clone_session(self, session: CloneSession) -> None:
        self._program()
        self._contents.replication.insert(session)

    @_changes
    def modify_clone_session(self, session: CloneSession) -> None:
        self._contents.replication.modify(session)

    @_changes
    def delete_clone_session(self, session_id: int) -> None:
        self._contents.replication.delete_session(session_id)

    def clone_sessions(self) -> list[CloneSession]:
        return list(self._contents.replication.sessions.values())

    # -- counters

    def _counters(self, name: str, index: int) -> NDArray[np.int64]:
        """The cells of a counter, live."""
        cells = self._array("counter", self._program().counters, name, index)
        return self._live.counters[cells.base : cells.base + cells.size]

    def read_counter(self, counter: str, index: int) -> CounterCell:
        return CounterCell(*self._counters(counter, index)[index].tolist())

    def read_counters(self, counter: str) -> list[CounterCell]:
        return [CounterCell(*cell) for cell in self._counters(counter, 0).tolist()]

    def write_counter(self, counter: str, index: int, cell: CounterCell) -> None:
        self._counters(counter, index)[index] = cell.packets, cell.bytes

    def _direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int
    ) -> NDArray[np.int64]:
        """An entry's counter, live; ``keys`` None: the default entry's."""
        state = self._table(table)
        base = state.table.counter_base
        cell = self._entry_cell(state, "has no direct counter", base, keys, priority)
        counter: NDArray[np.int64] = self._live.counters[cell]
        return counter

    def read_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> CounterCell:
        return CounterCell(*self._direct_counter(table, keys, priority).tolist())

    def write_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, cell: CounterCell
    ) -> None:
        self._direct_counter(table, keys, priority)[:] = cell.packets, cell.bytes

    # -- registers

    def _register(self, name: str, index: int) -> tuple[Cells, NDArray[np.int64]]:
        """A register, and the words of one of its cells, live."""
        cells = self._array("register", self._program().registers, name, index)
        return cells, self._live.registers[cells.base + index * cells.words :][: cells.words]

    def read_register(self, register: str, index: int) -> int:
        cells, words = self._register(register, index)
        return next(join_words(words.tolist(), [cells.width]))

    def write_register(self, register: str, index: int, value: int) -> None:
        cells, words = self._register(register, index)
        if not 0 <= value < 1 << cells.width:
            raise InvalidValue(f"register {register!r} has cells of {cells.width} bits: {value}")
        if cells.signed and value >> (cells.width - 1):
            value -= 1 << cells.width
        words[:] = [signed(word) for word in split_words(value, cells.width)]

    # -- meters

    def _meter(self, name: str, index: int) -> int:
        """The cell of a meter."""
        return self._array("meter", self._program().meters, name, index).base + index

    def _direct_meter(self, table: str, keys: tuple[Key, ...] | None, priority: int) -> int:
        state = self._table(table)
        base = None if state.table.meter is None else state.table.meter.base
        return self._entry_cell(state, "has no direct meter", base, keys, priority)

    def _meter_cell(self, cell: int) -> at.MeterCell:
        return meters.cell_at(self._live.meters, cell)

    def _set_rates(self, what: str, cell: int, config: MeterConfig | None) -> None:
        if config is not None:
            meters.check_rates(what, config)
            self._contents.rates[cell] = config
        else:
            self._contents.rates.pop(cell, None)
        meter = self._meter_cell(cell)
        now_us = (self.host.clock_ns() - self._live.epoch_ns) // 1000
        self.host.at_once(lambda: meters.set_rates(meter, config, now_us))

    def read_meter(self, meter: str, index: int) -> MeterConfig | None:
        return self._contents.rates.get(self._meter(meter, index))

    def read_meters(self, meter: str) -> list[MeterConfig | None]:
        found = self._array("meter", self._program().meters, meter, 0)
        return [self._contents.rates.get(found.base + index) for index in range(found.size)]

    def write_meter(self, meter: str, index: int, config: MeterConfig | None) -> None:
        self._set_rates(f"meter {meter!r}[{index}]", self._meter(meter, index), config)

    def read_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterConfig | None:
        return self._contents.rates.get(self._direct_meter(table, keys, priority))

    def write_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, config: MeterConfig | None
    ) -> None:
        cell = self._direct_meter(table, keys, priority)
        self._set_rates(f"the direct meter of table {table!r}", cell, config)

    def read_meter_counts(self, meter: str, index: int) -> MeterCounts:
        return meters.counts_of(self._meter_cell(self._meter(meter, index)))

    def write_meter_counts(self, meter: str, index: int, counts: MeterCounts) -> None:
        meters.set_counts(self._meter_cell(self._meter(meter, index)), counts)

    def read_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterCounts:
        return meters.counts_of(self._meter_cell(self._direct_meter(table, keys, priority)))

    def write_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, counts: MeterCounts
    ) -> None:
        meters.set_counts(self._meter_cell(self._direct_meter(table, keys, priority)), counts)

    # -- what entries have of their own: counter, meter, timeout

    def _start_entry(self, state: TableState, entry: TableEntry) -> None:
        """A new entry has counted nothing, has no rates, and was hit now."""
        if not self._running:
            return
        cell = state.cells[entry.keys, entry.priority]
        table = state.table
        if table.counter_base is not None:
            self._live.counters[table.counter_base + cell] = 0
        if table.meter is not None:
            self._contents.rates.pop(table.meter.base + cell, None)
            meter = self._meter_cell(table.meter.base + cell)
            meter.has_rates = 0
            meter.counts[:] = 0
        self._start_timeout(state, entry)

    def _start_timeout(self, state: TableState, entry: TableEntry) -> None:
        """An entry's time without hits begins now."""
        if state.table.hit_base is not None and self._running:
            cell = state.cells[entry.keys, entry.priority]
            self._set_timeout(state.table.hit_base + cell, entry.idle_timeout_ns)

    def _set_timeout(self, cell: int, timeout_ns: int) -> None:
        """What has a cell among the times of hits counts as hit now; 0 = no timeout."""
        now_ns = self.host.clock_ns()
        self._live.ageing.start(cell, timeout_ns, now_ns)
        if timeout_ns:
            self.host.expect(now_ns + timeout_ns)

    def _end_entry(self, state: TableState, cell: int) -> None:
        """An entry is gone, which had ``cell``."""
        if state.table.hit_base is not None:
            self._set_timeout(state.table.hit_base + cell, 0)
        if state.table.meter is not None:
            self._contents.rates.pop(state.table.meter.base + cell, None)

    def _resume(self) -> None:
        """Entries are again what they were: so are their rates and timeouts."""
        if not self._running:
            return
        for state in self._contents.tables.values():
            base = state.table.hit_base
            if base is None:
                continue
            wanted = np.zeros(state.table.most_entries + 1, np.int64)
            for identity, cell in state.cells.items():
                wanted[cell] = state.entries[identity].idle_timeout_ns
            now = self._live.ageing.timeouts[base:][: len(wanted)]
            for cell in np.flatnonzero(now != wanted).tolist():
                self._set_timeout(base + cell, int(wanted[cell]))
        rates = self._live.meters["has_rates"]
        for cell, config in list(self._contents.rates.items()):
            if not rates[cell]:
                self._set_rates("a meter", cell, config)

    # -- value sets

    @_changes
    def set_value_set(self, name: str, members: Sequence[tuple[Key, ...]]) -> None:
        self._value_set(name).replace(members)

    def value_set(self, name: str) -> list[tuple[Key, ...]]:
        return list(self._value_set(name).members)

    # -- events

    def idle_ns(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> int:
        state = self._table(table)
        state.need(keys, priority)
        base = state.table.hit_base
        cell = self._entry_cell(state, "does not support idle timeouts", base, keys, priority)
        return max(self.host.clock_ns() - int(self._live.ageing.hits[cell]), 0)

    def take_events(self) -> list[Event]:
        events: list[Event] = []
        lists = self._pipeline.program.learn_lists if self._pipeline is not None else {}
        for kind, time_ns, subject, words in self._live.take_records():
            if kind == at.PACKET_IN:
                events.append(PacketIn(words.tobytes()[:subject], time_ns))
            elif subject in lists:
                learn_list = lists[subject]
                values = learn_list.values(words.tolist())
                events.append(DigestEvent(learn_list.name, values, time_ns))
        now_ns = self.host.clock_ns()
        idle = set(self._live.ageing.take(now_ns))
        return events + [
            IdleTimeout(state.entries[identity], now_ns)
            for state in (self._contents.tables.values() if idle else ())
            if state.table.hit_base is not None
            for identity, cell in state.cells.items()
            if state.table.hit_base + cell in idle
        ]

    @property
    def events_lost(self) -> int:
        return self._live.events_lost

    def set_listener(self, callback: Callable[[], None] | None) -> None:
        self.host.set_listener(self.switch, callback)

    def packet_out(self, frame: bytes) -> None:
        self._program()
        if self.cpu_port is None:
            raise InvalidValue(
                f"switch {self.name!r} has no CPU port, which a packet from the controller needs"
            )
        if len(frame) > self.host.frame_bytes:
            raise InvalidValue(
                f"a packet of {len(frame)} bytes: this switch takes {self.host.frame_bytes} at most"
            )
        self.host.packet_out(self.switch, frame)

    @property
    def cpu_port(self) -> int | None:
        return self._live.cpu_port
