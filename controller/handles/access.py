"""What the handles of a switch's parts share: its program, its session, and who wrote what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from weft.base.errors import InputError, did_you_mean
from weft.base.units import listed, shown
from weft.controller.client import LoadableProgram, Session
from weft.controller.entities import Action, Entity, PlannedEntry, PlannedMember
from weft.controller.handles.values import read_value
from weft.controller.plan import Update
from weft.switch.engine.control.entities import MemberTarget
from weft.switch.messages import p4runtime_pb2
from weft.topo.switch_kinds import SwitchKind, require

SCRIPT = "the script"
"""The owner of what is written by handles, as errors name it."""
FIRST_MEMBER = 1 << 30
"""The first id of members that are made for entries of a table with an action profile: plans do not
number so far."""


@dataclass(frozen=True)
class Count:
    """What a counter has counted; one that counts packets alone, or bytes alone, has 0 for the
    other."""

    packets: int
    bytes: int


class Owner(Protocol):
    """Who owns a switch, and writes to it for scripts, as
    `weft.controller.controller.Controller` does."""

    def session(self, switch: str) -> Session: ...
    def write(self, switch: str, updates: Sequence[Update], owner: str) -> None: ...
    def check(self, switch: str, updates: Sequence[Update], owner: str) -> None: ...
    def owner_of(self, switch: str, key: tuple[object, ...]) -> str: ...
    def written(self, switch: str, key: tuple[object, ...]) -> Entity | None: ...


class SwitchAccess:
    """Access to one switch in the script's name, to read and to write.

    All methods raise InputError for a name or a value that makes no sense, and SwitchError where
    the switch refuses.
    """

    def __init__(self, controller: Owner, switch: str, kind: SwitchKind) -> None:
        self.name = switch
        """The switch's name."""
        self._kind = kind
        self._controller = controller
        self.members: dict[tuple[object, ...], PlannedMember] = {}
        """The members that were made for entries of tables with an action profile, by the entry's
        key."""

    def require(self, capability: str, where: str) -> None:
        """Raise InputError, which names what is handled, if switches of this kind lack a
        `weft.topo.switch_kinds.Capability`."""
        require(self._kind, [capability], f"{self.name}, {where}")

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
        if not found:
            raise InputError(
                f"{self.name}: the program has no {kind} {name!r}{near}; it has "
                f"{', '.join(names) or 'none'}"
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

    def call(self, name: str, params: Mapping[str, Any], among: Sequence[int]) -> Action:
        """Return an action with its parameters, all of which are needed.

        ``among``: the ids of the actions that are possible.
        """
        action = self._action(name, among)
        full = action.preamble.name
        known = {param.name: param for param in action.params}
        for given in params:
            if given not in known:
                raise InputError(
                    f"{self.name}: action {full} has no parameter {given!r}"
                    f"{did_you_mean(given, known)}; it has {', '.join(known) or 'none'}"
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

    def arguments(
        self,
        action: str,
        among: Sequence[int],
        given: Mapping[str, Any] | None,
        named: Mapping[str, Any],
        own: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the parameters of an action, from a mapping and from keyword arguments.

        Args:
            action: its name; ``among`` are the ids of those that are possible.
            given: the mapping, if there is one.
            named: the keyword arguments.
            own: what was passed by the method's own keywords, which parameters may be called, too.
        """
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                f"{self.name}: action {action}: {shown(given)} does not say what its parameters "
                "are: give their values by name, like {'port': 2}"
            )
        given = given or {}
        if twice := [name for name in given if name in named]:
            raise InputError(
                f"{self.name}: action {action}: {listed(twice, 'and')} is given twice, in the "
                "mapping and by keyword"
            )
        known = self.parameters(action, among)
        if unclear := [name for name in own or {} if name in known and name not in given]:
            full = self._action(action, among).preamble.name
            example = ", ".join(f"{name!r}: ..." for name in known)
            raise InputError(
                f"{self.name}: action {full} has a parameter {unclear[0]!r}, which is also a "
                "keyword of this method's own: give the action's parameters as a mapping behind "
                f"its name, {action!r}, {{{example}}}"
            )
        return {**given, **named}

    def parameters(self, name: str, among: Sequence[int]) -> list[str]:
        """Return the names of an action's parameters; ``among`` as for `call`."""
        return [param.name for param in self._action(name, among).params]

    def _action(self, name: str, among: Sequence[int]) -> Any:
        actions = [one for one in self.p4info.actions if one.preamble.id in among]
        return self.find("action", name, actions)

    def write_with_member(self, update: Update, table: Any, action: Action) -> None:
        """Insert or modify an entry of a table with an action profile that is to lead to an action:
        to a member of its own, which has the action."""
        wanted = update.entity
        assert isinstance(wanted, PlannedEntry)
        self._controller.check(self.name, [update], SCRIPT)
        profiles = {one.preamble.id: one.preamble.name for one in self.p4info.action_profiles}
        profile = profiles[table.implementation_id]
        taken = {member.member_id for member in self.members.values()}
        member = next(
            one
            for one in (PlannedMember(profile, i, action) for i in range(FIRST_MEMBER, 1 << 31))
            if one.member_id not in taken and not self.owner_of(one.key)
        )
        self.write(Update("insert", member))
        try:
            self.write(Update(update.kind, replace(wanted, target=MemberTarget(member.member_id))))
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
