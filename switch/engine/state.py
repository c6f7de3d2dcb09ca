"""The control side of one switch, by the names of its BMv2 JSON: all that a controller has set.

A P4Runtime server, or any controller in the same process, holds one `SwitchControl` per switch. It
changes a private copy of the tables; `publish` hands a finished version to the packet loop, which
picks it up between two batches, so no lock is held while packets move and no packet ever sees half
of a change.

Calls on one `SwitchControl` must not overlap: the caller holds one lock per switch. Different
switches may be controlled from different threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.base.errors import refuse
from weft.switch.engine import layout as at
from weft.switch.engine import meters
from weft.switch.engine.attachments import Meter
from weft.switch.engine.build import Pipeline
from weft.switch.engine.contents import Contents, ProfileState, ValueSetState, contents_of
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
from weft.switch.engine.words import join_words, signed, split_words

Parameters = ParamSpec("Parameters")
Item = TypeVar("Item")
Array = TypeVar("Array", Cells, Meter)

Snapshot = tuple[Contents, bool]
"""What was set, and whether packets are yet to see some of it."""


def _changes(
    method: Callable[Concatenate[SwitchControl, Parameters], None],
) -> Callable[Concatenate[SwitchControl, Parameters], None]:
    """Mark a method that sets what packets are yet to see, unless it raises."""

    @wraps(method)
    def changing(
        self: SwitchControl, /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> None:
        method(self, *args, **kwargs)
        self._changed = True

    return changing


class SwitchControl:
    """What a switch offers to its controller.

    Table, action, profile, counter and register names are those in the BMv2 JSON, which are also
    P4Info's ``preamble.name`` (``MyIngress.ipv4_route``). All methods raise ``NoProgram`` when no
    program is loaded, and ``NotFound`` for an unknown name. Reads show the version under
    construction, that is, every change made so far, published or not. Nothing reaches packets
    before ``publish``.
    """

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
        """Translate and compile a program (seconds, or milliseconds when cached).

        ``verify`` only checks it. ``save`` keeps it aside for ``commit_program``; the program that
        runs goes on. Raises ``ProgramError``. P4Runtime: VERIFY = verify; VERIFY_AND_SAVE = save;
        VERIFY_AND_COMMIT = save, then ``commit_program``; COMMIT = ``commit_program``.
        """
        pipeline = self.host.build(bmv2_json)
        if load == "save":
            self._saved = pipeline

    def commit_program(self, *, reconcile: bool = False) -> None:
        """Make the saved program the one that runs, with empty tables (and its const entries).

        With ``reconcile`` (RECONCILE_AND_COMMIT) entries, members, groups and defaults that still
        fit the new program are kept. Multicast groups and clone sessions are kept only then too.
        Takes effect at once, no ``publish`` needed. Raises ``NoProgram`` if nothing was saved.
        """
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
                with suppress(ControlError):
                    function(*item)

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
        """Whether a program runs."""
        return self._pipeline is not None

    @property
    def program_saved(self) -> bool:
        """Whether a program waits for ``commit_program``."""
        return self._saved is not None

    @property
    def pipelines(self) -> list[Pipeline]:
        """The program that runs and the one that is saved, where there are such."""
        return [one for one in (self._pipeline, self._saved) if one is not None]

    def publish(self, live: Callable[[], None] | None = None) -> None:
        """Hand all changes so far to the packet loop as one version.

        Returns when packets see it (in real time: within a batch, well under a millisecond).
        Call it once after a batch of changes. Without changes it does nothing. ``live``: writes to
        counters, meters and registers that packets are to see at the same moment.
        """
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
        """Return all that ``publish`` would hand over, to go back to by ``restore``."""
        return self._contents.copy(), self._changed

    def restore(self, snapshot: Snapshot) -> None:
        """Undo all changes since a ``snapshot`` of the same program; none may be published yet."""
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
        """Return what a trace needs to tell what packets meet: all entries, groups and sessions."""
        tables = dict(self._contents.tables)
        entries: dict[str, dict[int, TableEntry]] = {}
        for name, state in tables.items():
            cells = dict(state.cells)  # of a whole: another thread may be changing the table
            entries[name] = {
                cells[one]: entry for one, entry in dict(state.entries).items() if one in cells
            }
        return Version(
            entries,
            {name: state.default_target or state.default for name, state in tables.items()},
            dict(self._contents.replication.groups),
            dict(self._contents.replication.sessions),
        )

    def set_port_up(self, port: int, up: bool) -> None:
        """Say whether a port is up; members that watch one that is down are not selected.

        All ports are up at first. Needs ``publish``.
        """
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
            raise NotFound(
                f"the program has no {kind} {name!r}; it has: {', '.join(items) or 'none'}"
            )
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
        """Return the cell of an entry, or (``keys`` None) of the default one, among a table's
        own."""
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
        """Return an entry that fits its table, and whose member or group is there."""
        state.check_mutable()
        entry = check_entry(state.table, entry)
        if not new:
            state.check_mutable(entry.keys, entry.priority)
        check_target(state.table, entry.target)
        self._check_references(state, entry.target)
        return entry

    @_changes
    def insert_entry(self, entry: TableEntry) -> None:
        """Insert an entry. Raises AlreadyExists, TableFull, InvalidKey, InvalidAction, NotFound,
        NotPermitted."""
        state = self._table(entry.table)
        entry = self._checked(state, entry, new=True)
        state.add(entry)
        self._start_entry(state, entry)

    @_changes
    def modify_entry(self, entry: TableEntry) -> None:
        """Give the entry with the same keys and priority another target. Raises as insert."""
        state = self._table(entry.table)
        entry = self._checked(state, entry, new=False)
        old = state.replace(entry)
        if old.idle_timeout_ns != entry.idle_timeout_ns:
            self._start_timeout(state, entry)

    @_changes
    def delete_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> None:
        """Delete an entry. Raises NotFound, NotPermitted."""
        state = self._table(table)
        state.check_mutable()
        keys = normal_keys(state.table, keys)
        check_priority(state.table, priority)
        state.check_mutable(keys, priority)
        self._end_entry(state, state.remove(keys, priority))

    def free_entries(self, table: str) -> None:
        """Let the entries that the program gives to a table be changed; none can at first.

        BMv2's JSON does not say which tables' initial entries are const. Single entries that it
        calls ``is_const``, as Weft's compiler does, stay as they are. Raises NotFound.
        """
        self._table(table).free = True

    def is_const(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> bool:
        """Return whether an entry is the program's and cannot be changed. Raises NotFound
        (table)."""
        return self._table(table).is_const(keys, priority)

    def entries(self, table: str) -> list[TableEntry]:
        """Return all entries but the default one, const entries included, in the order of
        insertion."""
        return list(self._table(table).entries.values())

    def find_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> TableEntry:
        """Return the entry with exactly these keys and priority. Raises NotFound."""
        return self._table(table).need(keys, priority)

    @_changes
    def set_default(self, table: str, target: ActionCall | MemberTarget | GroupTarget) -> None:
        """Replace the default action; that of an indirect table is a member or a group.

        Raises NotPermitted if it is const, InvalidAction, NotFound.
        """
        state = self._table(table)
        usual = state.table.default_action
        refuse(
            state.table.default_entry_const,
            f"the default action of table {table!r} is const",
            NotPermitted,
        )
        if isinstance(target, ActionCall):
            refuse(
                state.table.profile is not None,
                f"table {table!r} is indirect: it has no default action",
                NotPermitted,
            )
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
        """Set the default action that the program gives, or none."""
        self._table(table).reset_default()

    def default(self, table: str) -> ActionCall | None:
        """Return the default action now; None if the program gave none and none was set, or a group
        is the default."""
        state = self._table(table)
        if isinstance(state.default_target, MemberTarget):
            assert state.table.profile is not None
            return (
                self._profile(state.table.profile.name).member(state.default_target.member_id).call
            )
        return state.default if state.default_target is None else None

    # -- action profiles

    def _used(self, profile: str, target: MemberTarget | GroupTarget) -> bool:
        """Return whether an entry, or a default, leads to a member or group."""
        return any(
            target in (user.default_target, *(entry.target for entry in user.entries.values()))
            for user in self._contents.tables.values()
            if user.table.profile is not None and user.table.profile.name == profile
        )

    @_changes
    def insert_member(self, member: ProfileMember) -> None:
        """Insert a member. Raises AlreadyExists, TableFull, InvalidAction, NotFound."""
        self._profile(member.profile).set_member(member, new=True)

    @_changes
    def modify_member(self, member: ProfileMember) -> None:
        """Give a member another action; all entries and groups that use it follow. Raises NotFound,
        InvalidAction."""
        self._profile(member.profile).set_member(member, new=False)

    @_changes
    def delete_member(self, profile: str, member_id: int) -> None:
        """Delete a member. Raises NotFound, StillInUse."""
        self._profile(profile).delete_member(
            member_id, self._used(profile, MemberTarget(member_id))
        )

    def members(self, profile: str) -> list[ProfileMember]:
        """Return all members, in the order of insertion."""
        return list(self._profile(profile).members.values())

    @_changes
    def insert_group(self, group: ProfileGroup) -> None:
        """Insert a group. Raises AlreadyExists, NotFound (a member), InvalidValue (a weight, too
        many members)."""
        self._profile(group.profile).set_group(group, new=True)

    @_changes
    def modify_group(self, group: ProfileGroup) -> None:
        """Replace a group's members. Raises NotFound, InvalidValue."""
        self._profile(group.profile).set_group(group, new=False)

    @_changes
    def delete_group(self, profile: str, group_id: int) -> None:
        """Delete a group. Raises NotFound, StillInUse."""
        self._profile(profile).delete_group(group_id, self._used(profile, GroupTarget(group_id)))

    def groups(self, profile: str) -> list[ProfileGroup]:
        """Return all groups, in the order of insertion."""
        return list(self._profile(profile).groups.values())

    # -- replication

    @_changes
    def insert_multicast_group(self, group: MulticastGroup) -> None:
        """Insert a group. Raises AlreadyExists, InvalidValue (id or port out of range, a replica
        twice)."""
        self._program()
        self._contents.replication.insert(group)

    @_changes
    def modify_multicast_group(self, group: MulticastGroup) -> None:
        """Change a group's copies. Raises NotFound, InvalidValue."""
        self._contents.replication.modify(group)

    @_changes
    def delete_multicast_group(self, group_id: int) -> None:
        """Delete a group. Raises NotFound."""
        self._contents.replication.delete_group(group_id)

    def multicast_groups(self) -> list[MulticastGroup]:
        """Return all groups, in the order of insertion."""
        return list(self._contents.replication.groups.values())

    @_changes
    def insert_clone_session(self, session: CloneSession) -> None:
        """Insert a session. Raises AlreadyExists, InvalidValue."""
        self._program()
        self._contents.replication.insert(session)

    @_changes
    def modify_clone_session(self, session: CloneSession) -> None:
        """Change a session's copies. Raises NotFound, InvalidValue."""
        self._contents.replication.modify(session)

    @_changes
    def delete_clone_session(self, session_id: int) -> None:
        """Delete a session. Raises NotFound."""
        self._contents.replication.delete_session(session_id)

    def clone_sessions(self) -> list[CloneSession]:
        """Return all sessions, in the order of insertion."""
        return list(self._contents.replication.sessions.values())

    # -- counters

    def _counters(self, name: str, index: int) -> NDArray[np.int64]:
        """Return the cells of a counter, live."""
        cells = self._array("counter", self._program().counters, name, index)
        return self._live.counters[cells.base : cells.base + cells.size]

    def read_counter(self, counter: str, index: int) -> CounterCell:
        """Return one cell of an indirect counter. Raises NotFound, InvalidValue."""
        return CounterCell(*self._counters(counter, index)[index].tolist())

    def read_counters(self, counter: str) -> list[CounterCell]:
        """Return all cells of an indirect counter."""
        return [CounterCell(*cell) for cell in self._counters(counter, 0).tolist()]

    def write_counter(self, counter: str, index: int, cell: CounterCell) -> None:
        """Set one cell of an indirect counter. Raises NotFound, InvalidValue."""
        self._counters(counter, index)[index] = cell.packets, cell.bytes

    def _direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> NDArray[np.int64]:
        """Return an entry's counter, live; ``keys`` None: the default entry's."""
        state = self._table(table)
        cell = self._entry_cell(
            state, "has no direct counter", state.table.counter_base, keys, priority
        )
        counter: NDArray[np.int64] = self._live.counters[cell]
        return counter

    def read_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> CounterCell:
        """Return the direct counter of one entry; with no ``keys`` that of the default entry, which
        counts the packets that missed. Raises NotFound (no such entry, no direct counter)."""
        return CounterCell(*self._direct_counter(table, keys, priority).tolist())

    def write_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, cell: CounterCell
    ) -> None:
        """Set what `read_direct_counter` returns. Raises NotFound."""
        self._direct_counter(table, keys, priority)[:] = cell.packets, cell.bytes

    # -- registers

    def _register(self, name: str, index: int) -> tuple[Cells, NDArray[np.int64]]:
        """Return a register, and the words of one of its cells, live."""
        cells = self._array("register", self._program().registers, name, index)
        return cells, self._live.registers[cells.base + index * cells.words :][: cells.words]

    def read_register(self, register: str, index: int) -> int:
        """Return one cell of a register, without sign. Raises NotFound, InvalidValue."""
        cells, words = self._register(register, index)
        return next(join_words(words.tolist(), [cells.width]))

    def write_register(self, register: str, index: int, value: int) -> None:
        """Set one cell of a register. Raises NotFound, InvalidValue."""
        cells, words = self._register(register, index)
        if not 0 <= value < 1 << cells.width:
            raise InvalidValue(f"register {register!r} has cells of {cells.width} bits: {value}")
        if cells.signed and value >> (cells.width - 1):
            value -= 1 << cells.width
        words[:] = [signed(word) for word in split_words(value, cells.width)]

    # -- meters

    def _meter(self, name: str, index: int) -> int:
        """Return the cell of a meter."""
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
        now_us = (self.host.clock_ns() - int(self._live.words.epoch_ns)) // 1000
        self.host.at_once(lambda: meters.set_rates(meter, config, now_us))

    def read_meter(self, meter: str, index: int) -> MeterConfig | None:
        """Return the rates of one cell; None if none are set: every packet is green. Raises
        NotFound, InvalidValue."""
        return self._contents.rates.get(self._meter(meter, index))

    def read_meters(self, meter: str) -> list[MeterConfig | None]:
        """Return the rates of all cells of an indirect meter."""
        found = self._array("meter", self._program().meters, meter, 0)
        return [self._contents.rates.get(found.base + index) for index in range(found.size)]

    def write_meter(self, meter: str, index: int, config: MeterConfig | None) -> None:
        """Set or take away the rates of one cell; its buckets are full afterwards.

        Raises NotFound, InvalidValue (negative, or the peak rate below the committed one).
        """
        self._set_rates(f"meter {meter!r}[{index}]", self._meter(meter, index), config)

    def read_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterConfig | None:
        """Return the rates of an entry's direct meter; ``keys`` None: of the default entry.

        Raises NotFound (no such entry, no direct meter).
        """
        return self._contents.rates.get(self._direct_meter(table, keys, priority))

    def write_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, config: MeterConfig | None
    ) -> None:
        """Do as `write_meter` for an entry. The default entry keeps its rates, but a miss runs no
        meter."""
        cell = self._direct_meter(table, keys, priority)
        self._set_rates(f"the direct meter of table {table!r}", cell, config)

    def read_meter_counts(self, meter: str, index: int) -> MeterCounts:
        """Return what one cell has marked, with or without rates. Raises NotFound, InvalidValue."""
        return meters.counts_of(self._meter_cell(self._meter(meter, index)))

    def write_meter_counts(self, meter: str, index: int, counts: MeterCounts) -> None:
        """Set what one cell has marked. Raises NotFound, InvalidValue."""
        meters.set_counts(self._meter_cell(self._meter(meter, index)), counts)

    def read_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterCounts:
        """Return what an entry's direct meter has marked. Raises NotFound."""
        return meters.counts_of(self._meter_cell(self._direct_meter(table, keys, priority)))

    def write_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, counts: MeterCounts
    ) -> None:
        """Set what an entry's direct meter has marked. Raises NotFound."""
        meters.set_counts(self._meter_cell(self._direct_meter(table, keys, priority)), counts)

    # -- what entries have of their own: counter, meter, timeout

    def _start_entry(self, state: TableState, entry: TableEntry) -> None:
        """Begin with a new entry: it has counted nothing, has no rates, and was hit now."""
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
        """Let an entry's time without hits begin now."""
        if state.table.hit_base is not None and self._running:
            cell = state.cells[entry.keys, entry.priority]
            self._set_timeout(state.table.hit_base + cell, entry.idle_timeout_ns)

    def _set_timeout(self, cell: int, timeout_ns: int) -> None:
        """Count what has a cell among the times of hits as hit now; 0 means that it has no
        timeout."""
        now_ns = self.host.clock_ns()
        self._live.ageing.start(cell, timeout_ns, now_ns)
        if timeout_ns:
            self.host.expect(now_ns + timeout_ns)

    def _end_entry(self, state: TableState, cell: int) -> None:
        """Forget what an entry that is gone had in ``cell``."""
        if state.table.hit_base is not None:
            self._set_timeout(state.table.hit_base + cell, 0)
        if state.table.meter is not None:
            self._contents.rates.pop(state.table.meter.base + cell, None)

    def _resume(self) -> None:
        """Give entries, which are again what they were, their rates and timeouts."""
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
        """Replace the members of a parser's value set; each has a key for every field.

        Raises NotFound, InvalidKey, TableFull, AlreadyExists (a member twice). Needs ``publish``.
        """
        self._value_set(name).replace(members)

    def value_set(self, name: str) -> list[tuple[Key, ...]]:
        """Return the members of a value set, in the order in which they were given."""
        return list(self._value_set(name).members)

    # -- events

    def idle_ns(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> int:
        """Return the time since an entry's last hit, or since it was inserted. Raises NotFound."""
        state = self._table(table)
        state.need(keys, priority)
        cell = self._entry_cell(
            state, "does not support idle timeouts", state.table.hit_base, keys, priority
        )
        return max(self.host.clock_ns() - int(self._live.ageing.hits[cell]), 0)

    def take_events(self) -> list[Event]:
        """Return what packets and timers have left for the controller since the last call, in
        order.

        The rings that hold events are bounded; ``events_lost`` counts what found no room.
        """
        events: list[Event] = []
        lists = self._pipeline.program.learn_lists if self._pipeline is not None else {}
        for kind, time_ns, subject, words in self._live.take_records():
            if kind == at.PACKET_IN:
                events.append(PacketIn(words.tobytes()[:subject], time_ns))
            elif subject in lists:
                learn_list = lists[subject]
                events.append(
                    DigestEvent(learn_list.name, learn_list.values(words.tolist()), time_ns)
                )
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
        """Digests and packets to the controller that were dropped because the rings were full."""
        return int(self._live.words.events_lost)

    def set_listener(self, callback: Callable[[], None] | None) -> None:
        """Have ``callback`` called, in the packet loop's thread, when events wait.

        It must return at once, and is called again only after ``take_events``.
        """
        self.host.set_listener(self.switch, callback)

    def packet_out(self, frame: bytes) -> None:
        """Let a packet from the controller enter ingress, with the CPU port as its ingress port.

        Raises InvalidValue (no CPU port is configured, the frame is too long), NoProgram.
        """
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
        """The port that leads to the controller, or None if there is none."""
        return self._live.cpu_port
