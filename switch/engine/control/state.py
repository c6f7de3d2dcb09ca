"""The control side of one switch, by the names of its BMv2 JSON: all that a controller has set.

A P4Runtime server, or any controller in the same process, holds one `SwitchControl` per switch. It
changes a private copy of the tables; `publish` hands a finished version to the packet loop, which
picks it up between two batches, so no lock is held while packets move and no packet ever sees half
of a change.

Calls on one `SwitchControl` must not overlap: the caller holds one lock per switch. Different
switches may be controlled from different threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec

import numpy as np
from numpy.typing import NDArray

from weft.base.errors import refuse
from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.engine.control.configuration import Configuration
from weft.switch.engine.control.contents import Contents, Replicated, Version, contents_of
from weft.switch.engine.control.encoding import encode
from weft.switch.engine.control.entities import (
    ActionCall,
    CloneSession,
    Event,
    GroupTarget,
    Key,
    MemberTarget,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    TableEntry,
)
from weft.switch.engine.control.errors import ControlError, InvalidValue, NoProgram, NotPermitted
from weft.switch.engine.control.live_values import LiveValues
from weft.switch.engine.control.memory import SwitchState
from weft.switch.engine.control.surroundings import Surroundings
from weft.switch.engine.control.tables import (
    TableState,
    check_call,
    check_entry,
    check_priority,
    check_target,
    normal_keys,
)

Parameters = ParamSpec("Parameters")

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

    Table, action and profile names are those in the BMv2 JSON, which are also
    P4Info's ``preamble.name`` (``MyIngress.ipv4_route``). All methods raise ``NoProgram`` when no
    program is loaded, and ``NotFound`` for an unknown name. Reads show the version under
    construction, that is, every change made so far, published or not. Nothing reaches packets
    before ``publish``.
    """

    def __init__(
        self,
        host: Surroundings,
        switch: int,
        state: SwitchState,
        name: str,
        ports: tuple[int, ...],
    ) -> None:
        """Take the switch's number, what packets read and write there, and its ports' numbers."""
        self.host = host
        self.switch = switch
        self.name = name
        self.ports = ports
        self.interfaces: dict[int, str] = {}  # of ports that are interfaces
        self.lock: AbstractContextManager[Any] = nullcontext()
        """Held by whoever calls, where several threads may."""
        self.on_image: Callable[[NDArray[np.int64]], None] | None = None
        """Called with each new image before packets see it."""
        self._state = state
        self._saved: Pipeline | None = None
        self._config = Configuration(name)
        self._changed = False
        """Whether packets are yet to see some of the contents."""
        self.values = LiveValues(host, state, self._config)
        """What packets change: counters, registers, meters, times of hits."""

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
        old = self._config.contents
        contents = contents_of(self._saved.program, self.cpu_port)
        contents.ports_down = old.ports_down
        self._config.begin(self._saved, contents)
        self._saved = None
        if reconcile:
            contents.replication = old.replication
            self._reconcile(old)
        self._install(self._image(), fresh=True)
        self._config.running = True
        for state in contents.tables.values():
            for entry in state.entries.values():
                self.values.start_entry(state, entry)

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
            if state.free and name in self._config.contents.tables:
                self._config.contents.tables[name].clear()
            if state.free or not state.table.immutable:
                keep(self.insert_entry, [(entry,) for entry in state.own_entries()])
            settable = state.table.profile is None and not state.table.default_const
            if state.default is not None and settable:
                keep(self.set_default, [(name, state.default)])

    @property
    def program_loaded(self) -> bool:
        """Return whether a program runs."""
        return self._config.pipeline is not None

    @property
    def pipelines(self) -> list[Pipeline]:
        """Return the program that runs and the one that is saved, where there are such."""
        return [one for one in (self._config.pipeline, self._saved) if one is not None]

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
            self._install(self._image(), fresh=False)

    def _publish_with(self, image: NDArray[np.int64] | None, live: Callable[[], None]) -> None:
        if image is not None:
            self._install(image, fresh=False)
        live()

    def snapshot(self) -> Snapshot:
        """Return all that ``publish`` would hand over, to go back to by ``restore``."""
        return self._config.contents.copy(), self._changed

    def restore(self, snapshot: Snapshot) -> None:
        """Undo all changes since a ``snapshot`` of the same program; none may be published yet."""
        self._config.contents, self._changed = snapshot
        self.values.resume()

    def _install(self, image: NDArray[np.int64], *, fresh: bool) -> None:
        assert self._config.pipeline is not None
        self.host.install(self.switch, self._config.pipeline, image, fresh=fresh)
        self._changed = False

    def _image(self) -> NDArray[np.int64]:
        image = encode(self._config.contents, self._config.program().groups.uses)
        if self.on_image is not None:
            self.on_image(image)
        return image

    def version(self) -> Version:
        """Return what a trace needs to tell what packets meet: all entries, groups and sessions."""
        tables = dict(self._config.contents.tables)
        entries: dict[str, dict[int, TableEntry]] = {}
        for name, state in tables.items():
            cells = dict(state.cells)  # of a whole: another thread may be changing the table
            entries[name] = {
                cells[one]: entry for one, entry in dict(state.entries).items() if one in cells
            }
        kept = self._config.contents.replication
        return Version(entries, dict(kept.groups), dict(kept.sessions))

    def contents(self) -> Contents:
        """Return a copy of all that was set so far."""
        return self._config.contents.copy()

    def set_port_up(self, port: int, up: bool) -> None:
        """Say whether a port is up, as all are at first; members that watch one that is down are
        not selected. Needs ``publish``."""
        down = self._config.contents.ports_down
        if (port in down) == up:
            (down.discard if up else down.add)(port)
            self._changed = self._config.pipeline is not None

    def is_port_up(self, port: int) -> bool:
        """Return whether a port is up."""
        return port not in self._config.contents.ports_down

    # -- tables

    def _check_references(self, state: TableState, target: object) -> None:
        if isinstance(target, (MemberTarget, GroupTarget)):
            assert state.table.profile is not None
            profile = self._config.profile(state.table.profile.name)
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
        state = self._config.table(entry.table)
        entry = self._checked(state, entry, new=True)
        state.add(entry)
        self.values.start_entry(state, entry)

    @_changes
    def modify_entry(self, entry: TableEntry) -> None:
        """Give the entry with the same keys and priority another target. Raises as insert."""
        state = self._config.table(entry.table)
        entry = self._checked(state, entry, new=False)
        old = state.replace(entry)
        if old.idle_timeout_ns != entry.idle_timeout_ns:
            self.values.start_timeout(state, entry)

    @_changes
    def delete_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> None:
        """Delete an entry. Raises NotFound, NotPermitted."""
        state = self._config.table(table)
        state.check_mutable()
        keys = normal_keys(state.table, keys)
        check_priority(state.table, priority)
        state.check_mutable(keys, priority)
        self.values.end_entry(state, state.remove(keys, priority))

    def free_entries(self, table: str) -> None:
        """Let the entries that the program gives to a table be changed; none can at first.

        BMv2's JSON does not say which tables' initial entries are const. Single entries that it
        calls ``is_const``, as Weft's compiler does, stay as they are. Raises NotFound.
        """
        self._config.table(table).free = True

    def is_const(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> bool:
        """Return whether an entry is the program's and cannot be changed. Raises NotFound
        (table)."""
        return self._config.table(table).is_const(keys, priority)

    def entries(self, table: str) -> list[TableEntry]:
        """Return all entries but the default one, const entries included, in the order of
        insertion."""
        return list(self._config.table(table).entries.values())

    def find_entry(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> TableEntry:
        """Return the entry with exactly these keys and priority. Raises NotFound."""
        return self._config.table(table).need(keys, priority)

    @_changes
    def set_default(self, table: str, target: ActionCall | MemberTarget | GroupTarget) -> None:
        """Replace the default action; that of an indirect table is a member or a group.

        Raises NotPermitted if it is const, InvalidAction, NotFound.
        """
        state = self._config.table(table)
        usual = state.table.default_action
        refuse(
            state.table.default_entry_const,
            f"the default action of table {table!r} is const",
            NotPermitted,
        )
        if isinstance(target, ActionCall):
            refuse(
                state.table.profile is not None,
                f"table {table!r} has an action profile: its default action is the program's",
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
        self._config.table(table).reset_default()

    def default(self, table: str) -> ActionCall | None:
        """Return the default action now; None if the program gave none and none was set, or a group
        is the default."""
        state = self._config.table(table)
        if isinstance(state.default_target, MemberTarget):
            assert state.table.profile is not None
            return (
                self._config.profile(state.table.profile.name)
                .member(state.default_target.member_id)
                .call
            )
        return state.default if state.default_target is None else None

    # -- action profiles

    def _used(self, profile: str, target: MemberTarget | GroupTarget) -> bool:
        """Return whether an entry, or a default, leads to a member or group."""
        return any(
            target in (user.default_target, *(entry.target for entry in user.entries.values()))
            for user in self._config.contents.tables.values()
            if user.table.profile is not None and user.table.profile.name == profile
        )

    @_changes
    def insert_member(self, member: ProfileMember) -> None:
        """Insert a member. Raises AlreadyExists, TableFull, InvalidAction, NotFound."""
        self._config.profile(member.profile).set_member(member, new=True)

    @_changes
    def modify_member(self, member: ProfileMember) -> None:
        """Give a member another action; all entries and groups that use it follow. Raises NotFound,
        InvalidAction."""
        self._config.profile(member.profile).set_member(member, new=False)

    @_changes
    def delete_member(self, profile: str, member_id: int) -> None:
        """Delete a member. Raises NotFound, StillInUse."""
        self._config.profile(profile).delete_member(
            member_id, self._used(profile, MemberTarget(member_id))
        )

    def members(self, profile: str) -> list[ProfileMember]:
        """Return all members, in the order of insertion."""
        return list(self._config.profile(profile).members.values())

    @_changes
    def insert_group(self, group: ProfileGroup) -> None:
        """Insert a group. Raises AlreadyExists, NotFound (a member), InvalidValue (a weight, too
        many members)."""
        self._config.profile(group.profile).set_group(group, new=True)

    @_changes
    def modify_group(self, group: ProfileGroup) -> None:
        """Replace a group's members. Raises NotFound, InvalidValue."""
        self._config.profile(group.profile).set_group(group, new=False)

    @_changes
    def delete_group(self, profile: str, group_id: int) -> None:
        """Delete a group. Raises NotFound, StillInUse."""
        self._config.profile(profile).delete_group(
            group_id, self._used(profile, GroupTarget(group_id))
        )

    def groups(self, profile: str) -> list[ProfileGroup]:
        """Return all groups, in the order of insertion."""
        return list(self._config.profile(profile).groups.values())

    # -- replication

    @_changes
    def insert_replication(self, entry: Replicated) -> None:
        """Insert a multicast group or clone session. Raises AlreadyExists, InvalidValue (id or port
        out of range), TableFull."""
        self._config.program()
        self._config.contents.replication.insert(entry)

    @_changes
    def modify_replication(self, entry: Replicated) -> None:
        """Change a group's or session's copies. Raises NotFound, InvalidValue, TableFull."""
        self._config.contents.replication.modify(entry)

    @_changes
    def delete_replication(self, kind: type[Replicated], number: int) -> None:
        """Delete a group or session by its id. Raises NotFound."""
        self._config.contents.replication.delete(kind, number)

    def multicast_groups(self) -> list[MulticastGroup]:
        """Return all groups, in the order of insertion."""
        return list(self._config.contents.replication.groups.values())

    def clone_sessions(self) -> list[CloneSession]:
        """Return all sessions, in the order of insertion."""
        return list(self._config.contents.replication.sessions.values())

    # -- value sets

    @_changes
    def set_value_set(self, name: str, members: Sequence[tuple[Key, ...]]) -> None:
        """Replace the members of a parser's value set; each has a key for every field.

        Raises NotFound, InvalidKey, TableFull, AlreadyExists (a member twice). Needs ``publish``.
        """
        self._config.value_set(name).replace(members)

    def value_set(self, name: str) -> list[tuple[Key, ...]]:
        """Return the members of a value set, in the order in which they were given."""
        return list(self._config.value_set(name).members)

    # -- events

    def take_events(self) -> list[Event]:
        """Return what packets and timers have left for the controller since the last call, in
        order.

        The rings that hold events are bounded; ``events_lost`` counts what found no room.
        """
        return self.values.take_events()

    @property
    def events_lost(self) -> int:
        """Return how many digests and packets to the controller found no room in the rings."""
        return int(self._state.words.events_lost)

    def set_listener(self, callback: Callable[[], None] | None) -> None:
        """Have ``callback`` called, in the packet loop's thread, when events wait.

        It must return at once, and is called again only after ``take_events``.
        """
        self.host.set_listener(self.switch, callback)

    def packet_out(self, frame: bytes) -> None:
        """Let a packet from the controller enter ingress, with the CPU port as its ingress port.

        Raises InvalidValue (no CPU port is configured, the frame is too long), NoProgram.
        """
        self._config.program()
        if self.cpu_port is None:
            raise InvalidValue(
                f"switch {self.name!r} has no CPU port, which a packet from the controller needs"
            )
        refuse(
            len(frame) > self.host.frame_bytes,
            f"a packet of {len(frame)} bytes: this switch takes {self.host.frame_bytes} at most",
            InvalidValue,
        )
        self.host.packet_out(self.switch, frame)

    @property
    def cpu_port(self) -> int | None:
        """Return the port that leads to the controller, or None if there is none."""
        return self._state.cpu_port
