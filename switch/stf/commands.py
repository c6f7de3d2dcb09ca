"""Counters, registers, meters, multicast and mirroring, by the commands of BMv2's command line."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weft.base.errors import refuse
from weft.switch.engine.control.contents import Replicated
from weft.switch.engine.control.entities import (
    CloneSession,
    CounterCell,
    MeterConfig,
    MulticastGroup,
    Replica,
    TableEntry,
)
from weft.switch.engine.control.errors import (
    AlreadyExists,
    NotFound,
    NotPermitted,
    StillInUse,
    TableFull,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.attachments import Meter
from weft.switch.engine.program.program import Cells
from weft.switch.stf.names import resolve
from weft.switch.stf.statements import CheckCell, Command, StfValue, StfWord, number_of
from weft.switch.stf.tables import Tables

Item = TypeVar("Item")


@dataclass
class ReplicationState:
    """The nodes, groups and sessions of a switch; `apply` brings them there.

    Nodes, whose handles begin with 0, are copies to ports; groups are made of nodes; a session
    mirrors to a port or to a group.
    """

    control: SwitchControl
    nodes: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    groups: dict[int, list[int]] = field(default_factory=dict)
    mirrors: dict[int, tuple[str, int]] = field(default_factory=dict)
    """For each session, whether clones leave at a "port" or a "multicast group", and its number."""
    next_node: int = 0

    def create_group(self, group: int) -> None:
        """Make a group without nodes."""
        refuse(group in self.groups, f"multicast group {group} exists already", AlreadyExists)
        self.groups[group] = []

    def destroy_group(self, group: int) -> None:
        """Forget a group."""
        self._group(group)
        del self.groups[group]

    def create_node(self, instance: int, *ports: int) -> str:
        """Make a node, and return what its handle is, in words."""
        handle = self.next_node
        self.next_node += 1
        self.nodes[handle] = (instance, ports)
        return f"node {handle} was created"

    def update_node(self, handle: int, *ports: int) -> None:
        """Give a node other ports."""
        instance, _ = self._node(handle)
        self.nodes[handle] = (instance, ports)

    def destroy_node(self, handle: int) -> None:
        """Forget a node."""
        self._node(handle)
        del self.nodes[handle]
        for handles in self.groups.values():
            if handle in handles:
                handles.remove(handle)

    def associate(self, group: int, handle: int) -> None:
        """Add a node to a group."""
        self._node(handle)
        self._group(group).append(handle)

    def dissociate(self, group: int, handle: int) -> None:
        """Take a node out of a group."""
        self._node(handle)
        refuse(
            handle not in self._group(group),
            f"node {handle} is not of multicast group {group}",
            NotFound,
        )
        self.groups[group].remove(handle)

    def mirror_to_port(self, session: int, port: int) -> None:
        """Let clones of a session leave at a port, and no longer where a group's copies go."""
        self.mirrors[session] = ("port", port)

    def mirror_to_group(self, session: int, group: int) -> None:
        """Let clones of a session go where a group's copies go, and no longer to a port."""
        self.mirrors[session] = ("multicast group", group)

    def remove_mirror(self, session: int) -> None:
        """Forget a session."""
        self._mirror(session)
        del self.mirrors[session]

    def describe_mirror(self, session: int) -> str:
        """Return in words where clones of a session go."""
        kind, number = self._mirror(session)
        return f"{kind} {number}"

    def _mirror(self, session: int) -> tuple[str, int]:
        refuse(session not in self.mirrors, f"there is no mirroring session {session}", NotFound)
        return self.mirrors[session]

    def _node(self, handle: int) -> tuple[int, tuple[int, ...]]:
        return _need("multicast node", "nodes", self.nodes, handle)

    def _group(self, group: int) -> list[int]:
        return _need("multicast group", "groups", self.groups, group)

    def _replicas(self, group: int) -> tuple[Replica, ...]:
        """Return the copies of a group: its nodes in order, and the ports of each node in order."""
        return tuple(
            Replica(port, self.nodes[handle][0])
            for handle in self.groups.get(group, ())
            for port in sorted(set(self.nodes[handle][1]))
        )

    def _mirrored(self, session: int) -> tuple[Replica, ...]:
        """Return the copies of a session."""
        kind, number = self.mirrors[session]
        return (Replica(number),) if kind == "port" else self._replicas(number)

    def apply(self) -> None:
        """Bring what is set up here into the switch."""
        control, groups = self.control, self.groups.keys() - {0}  # to 0 no packet is multicast
        self._agree(
            MulticastGroup,
            {group.group_id for group in control.multicast_groups()},
            {number: MulticastGroup(number, self._replicas(number)) for number in groups},
        )
        self._agree(
            CloneSession,
            {session.session_id for session in control.clone_sessions()},
            {number: CloneSession(number, self._mirrored(number)) for number in self.mirrors},
        )

    def _agree(
        self,
        kind: type[Replicated],
        present: set[int],
        wanted: Mapping[int, Replicated],
    ) -> None:
        """Bring what is wanted into the switch, and remove everything else of its kind."""
        control = self.control
        for number in present - wanted.keys():
            control.delete_replication(kind, number)
        for number, item in wanted.items():
            (control.modify_replication if number in present else control.insert_replication)(item)


def _need(kind: str, kinds: str, items: dict[int, Item], number: int) -> Item:
    if number not in items:
        raise NotFound(
            f"there is no {kind} {number}; {kinds} are: {', '.join(map(str, items)) or 'none'}"
        )
    return items[number]


REFUSALS = (AlreadyExists, TableFull, NotPermitted, StillInUse)
"""The errors that BMv2 reports too, and after which p4c's runner goes on."""

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _CellArrays:
    """These are a program's counters, registers or meters: arrays of cells, and direct ones.

    A direct counter or meter has a cell for each entry of its table. The *place* of a cell is what
    the switch's control wants to know of it.
    """

    def __init__(self, kind: str, arrays: Mapping[str, Cells | Meter], tables: Tables) -> None:
        self.kind = kind
        self.sizes = {name: array.size for name, array in arrays.items()}
        self.tables = tables
        document: Any = tables.program.document
        self.direct = {
            entry["name"]: str(entry["binding"])
            for entry in document.get(f"{kind}_arrays", ())
            if entry.get("is_direct")
        }

    def find(self, word: StfWord) -> str:
        """Return the array that a name means."""
        return resolve(word, self.kind, dict.fromkeys([*self.sizes, *self.direct]))

    def read(self, name: str, index: StfWord | StfValue) -> Any:
        """Return what a cell has; the cell is named by its number, or by its entry's number or
        name."""
        return self._access("read", name)(*self._place(name, index))

    def write(self, name: str, index: StfWord | StfValue | None, value: Any) -> None:
        """Set a cell, or with ``index`` None all cells of an array."""
        places = self._places(name) if index is None else [self._place(name, index)]
        for place in places:
            self._access("write", name)(*place, value)

    def _access(self, verb: str, name: str) -> Callable[..., Any]:
        kind = f"direct_{self.kind}" if name in self.direct else self.kind
        access: Callable[..., Any] = getattr(self.tables.control.values, f"{verb}_{kind}")
        return access

    def _place(self, name: str, index: StfWord | StfValue) -> tuple[Any, ...]:
        if name not in self.direct:
            return name, number_of(index)
        return _place_of(
            self.tables.numbered_entry(self.tables.program.tables[self.direct[name]], index)
        )

    def _places(self, name: str) -> list[tuple[Any, ...]]:
        if name not in self.direct:
            return [(name, index) for index in range(self.sizes[name])]
        return [_place_of(entry) for entry in self.tables.control.entries(self.direct[name])]


def _place_of(entry: TableEntry) -> tuple[Any, ...]:
    return entry.table, entry.keys, entry.priority


class Arrays:
    """A program's arrays, and what the switch replicates, as commands reach them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.replication = ReplicationState(tables.control)
        program = tables.program
        self.cells = {
            "counter": _CellArrays("counter", program.counters, tables),
            "register": _CellArrays("register", program.registers, tables),
            "meter": _CellArrays("meter", program.meters, tables),
        }

    def check(self, check: CheckCell) -> tuple[str, int]:
        """Return what a check reads, in words, and the value of it."""
        cells = self.cells[check.kind]
        name = cells.find(check.array)
        got: CounterCell | int = cells.read(name, check.index)
        index = check.index.value if isinstance(check.index, StfValue) else check.index.text
        what = f"{check.kind} {name}({index})"
        if isinstance(got, int):
            return what, got
        count = got.packets if check.counted == "packets" else got.bytes
        return f"{what} in {check.counted}", count

    def carry_out(self, command: Command) -> str:
        """Carry out a command, and return what it reads, in words."""
        numbers = command.numbers
        if command.target is None:
            return self._replicate(command.command, [number_of(item) for item in numbers])
        if command.command.startswith("act_prof_"):
            member, group = numbers
            join = command.command.startswith("act_prof_add")
            self.tables.regroup(command.target, member, group, join)
            return ""
        kind, _, verb = command.command.partition("_")
        cells = self.cells[kind]
        name = cells.find(command.target)
        match verb:
            case "read" | "get_rates":
                return _said(kind, name, numbers[0], cells.read(name, numbers[0]))
            case "reset":
                cells.write(name, None, CounterCell(0, 0) if kind == "counter" else 0)
            case "write":
                values = [number_of(item) for item in numbers[1:]]
                value = CounterCell(*values) if kind == "counter" else values[0]
                cells.write(name, numbers[0], value)
            case "set_rates" | "array_set_rates":
                config = _config(command)
                for index in numbers or (None,):
                    cells.write(name, index, config)
        return ""

    def _replicate(self, command: str, numbers: list[int]) -> str:
        replication = self.replication
        does: dict[str, Callable[..., str | None]] = {
            "mc_node_create": replication.create_node,
            "mc_node_update": replication.update_node,
            "mc_node_associate": replication.associate,
            "mc_node_dissociate": replication.dissociate,
            "mc_node_destroy": replication.destroy_node,
            "mc_mgrp_create": replication.create_group,
            "mc_mgrp_destroy": replication.destroy_group,
            "mirroring_add": replication.mirror_to_port,
            "mirroring_add_mc": replication.mirror_to_group,
            "mirroring_delete": replication.remove_mirror,
            "mirroring_get": lambda session: (
                f"session {session} mirrors to {replication.describe_mirror(session)}"
            ),
        }
        said = does[command](*numbers)
        if said is None:
            replication.apply()
        return said or ""


def _said(kind: str, name: str, index: StfWord | StfValue, got: Any) -> str:
    """Return in words what a cell has."""
    if kind == "counter":
        return f"counter {name} is {got.packets} packets, {got.bytes} bytes"
    if kind == "register":
        return f"register {name}({number_of(index)}) is {got}"
    return f"meter {name} has {_rates_of(got)}"


def _config(command: Command) -> MeterConfig:
    """Return the rates that a command sets; it has them in units of a microsecond, as BMv2's
    command line does."""
    refuse(
        len(command.rates) != 2,
        f"{command.command} takes two pairs of RATE:BURST, committed and peak, not "
        f"{len(command.rates)}; rates are packets or bytes in a microsecond",
        command.place.error,
    )
    (committed, burst), (peak, peak_burst) = command.rates
    return MeterConfig(round(committed * 1e6), burst, round(peak * 1e6), peak_burst)


def _rates_of(config: MeterConfig | None) -> str:
    if config is None:
        return "no rates set"
    committed, peak = config.cir_per_s / 1e6, config.pir_per_s / 1e6
    return f"rates {committed:g}:{config.burst} {peak:g}:{config.peak_burst}"
