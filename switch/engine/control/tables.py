"""The entries of one switch as its controller sees them: checks, look-up by key, encoding."""

from dataclasses import dataclass, field, replace
from typing import Any

from weft.switch.engine.control.entities import (
    ActionCall,
    Exact,
    GroupTarget,
    Key,
    Lpm,
    MemberTarget,
    OneShot,
    Range,
    TableEntry,
    Target,
    Ternary,
)
from weft.switch.engine.control.errors import (
    AlreadyExists,
    ControlError,
    InvalidAction,
    InvalidKey,
    InvalidValue,
    NotFound,
    NotPermitted,
    TableFull,
)
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.program import (
    ConstEntry,
    KeyField,
    Profile,
    Program,
    ProgramAction,
    Table,
    number,
)

Identity = tuple[tuple[Key, ...], int]

MOST_PRIORITY = (1 << 31) - 1
"""P4Runtime's priorities have 32 bits with sign."""


@dataclass
class TableState:
    """A table's entries, their cells in direct counters, and its default action."""

    table: Table
    entries: dict[Identity, TableEntry] = field(default_factory=dict)
    cells: dict[Identity, int] = field(default_factory=dict)
    free_cells: list[int] = field(default_factory=list)
    default: ActionCall | None = None
    default_target: MemberTarget | GroupTarget | None = None
    """What an indirect table's default is, if it was set."""
    free: bool = False
    """Whether the program's own entries may be changed, but for the ``fixed`` ones."""
    fixed: set[Identity] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reset_default()
        last = max((entry.priority for entry in self.table.entries), default=0)
        for given in self.table.entries:
            entry = const_entry(self.table, given, last)
            self.add(entry)
            if given.const:
                self.fixed.add((entry.keys, entry.priority))

    def clear(self) -> None:
        """Let the program's own entries be changed, and take those away that can be."""
        self.free = True
        for identity in [one for one in self.entries if one not in self.fixed]:
            self.remove(*identity)

    def own_entries(self) -> list[TableEntry]:
        """Return the entries that are not const."""
        return [entry for identity, entry in self.entries.items() if identity not in self.fixed]

    def reset_default(self) -> None:
        """Set the program's own default action."""
        action = self.table.default_action
        self.default_target = None
        self.default = ActionCall(action.name, self.table.default_params) if action else None

    def add(self, entry: TableEntry) -> None:
        """Insert a checked entry."""
        identity = (entry.keys, entry.priority)
        if identity in self.entries:
            raise AlreadyExists(f"table {self.table.name!r} has {describe(entry)} already")
        if len(self.entries) >= self.table.most_entries:
            raise TableFull(f"table {self.table.name!r} is full: {self.table.size} entries")
        self.entries[identity] = entry
        self.cells[identity] = self.free_cells.pop() if self.free_cells else len(self.entries)

    def replace(self, entry: TableEntry) -> TableEntry:
        """Give an existing entry another target; return the entry as it was."""
        old = self.need(entry.keys, entry.priority)
        self.entries[entry.keys, entry.priority] = entry
        return old

    def remove(self, keys: tuple[Key, ...], priority: int) -> int:
        """Delete an entry; return its cell in direct counters."""
        self.need(keys, priority)
        del self.entries[keys, priority]
        cell = self.cells.pop((keys, priority))
        self.free_cells.append(cell)
        return cell

    def need(self, keys: tuple[Key, ...], priority: int) -> TableEntry:
        """Return the entry with this identity. Raises NotFound."""
        if (keys, priority) not in self.entries:
            raise NotFound(
                f"table {self.table.name!r} has no entry with key ({', '.join(map(str, keys))}), "
                f"priority {priority}"
            )
        return self.entries[keys, priority]

    def is_const(self, keys: tuple[Key, ...], priority: int) -> bool:
        """Return whether the program gives an entry, and it cannot be changed."""
        return (self.table.immutable and not self.free) or (keys, priority) in self.fixed

    def check_mutable(self, keys: tuple[Key, ...] | None = None, priority: int = 0) -> None:
        """Raise NotPermitted if the program gives the entry, or all entries."""
        if self.table.immutable and not self.free:
            raise NotPermitted(f"table {self.table.name!r} has const entries: they cannot change")
        if keys is not None and (keys, priority) in self.fixed:
            raise NotPermitted(
                f"table {self.table.name!r}: the entry with key ({', '.join(map(str, keys))}) is "
                "const: it cannot change"
            )


def describe(entry: TableEntry) -> str:
    """Return an entry's identity, for messages."""
    keys = ", ".join(map(str, entry.keys))
    return f"the entry ({keys})" + (f", priority {entry.priority}" if entry.priority else "")


def normal_keys(table: Table, keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return keys that fit a table. Raises InvalidKey."""
    if len(keys) != len(table.keys):
        raise InvalidKey(
            f"table {table.name!r} has {len(table.keys)} key fields, the entry has {len(keys)}"
        )
    what = f"table {table.name!r}"
    return tuple(normal_key(what, key, kf) for key, kf in zip(keys, table.keys, strict=True))


def normal_key(what: str, key: Key, key_field: KeyField) -> Key:
    """Return one field of a key if it fits the key field, which ``what`` has. Raises InvalidKey."""
    where = f"{what}, key field {key_field.name!r}"
    most = (1 << key_field.width) - 1
    kinds = {
        "exact": Exact,
        "lpm": Lpm,
        "ternary": Ternary,
        "optional": Ternary,
        "range": Range,
    }
    if not isinstance(key, kinds[key_field.kind]):
        raise InvalidKey(f"{where} is {key_field.kind}, the entry gives {key}")
    values = (key.low, key.high) if isinstance(key, Range) else (key.value,)
    if not all(0 <= value <= most for value in values):
        raise InvalidKey(f"{where} has {key_field.width} bits, the entry gives {key}")
    if isinstance(key, Range) and key.low > key.high:
        raise InvalidKey(f"{where}: the range {key.low}..{key.high} is empty")
    if isinstance(key, Lpm):
        if not 0 <= key.prefix_length <= key_field.width:
            raise InvalidKey(f"{where}: prefix length {key.prefix_length} of {key_field.width}")
        if key.value & ~prefix_mask(key.prefix_length, key_field.width):
            raise InvalidKey(f"{where}: {key.value:#x} has bits beyond its prefix")
    if isinstance(key, Ternary):
        if not 0 <= key.mask <= most:
            raise InvalidKey(f"{where} has {key_field.width} bits, the mask is {key.mask:#x}")
        if key.value & ~key.mask:
            raise InvalidKey(f"{where}: {key.value:#x} has bits that its mask {key.mask:#x} hides")
        if key_field.kind == "optional" and key.mask not in (0, most):
            raise InvalidKey(f"{where} is optional: its mask is all ones or 0, not {key.mask:#x}")
    return key


def check_entry(table: Table, entry: TableEntry) -> TableEntry:
    """Return an entry whose keys and priority fit. Raises InvalidKey, InvalidValue."""
    keys = normal_keys(table, entry.keys)
    if not keys:
        raise InvalidKey(f"table {table.name!r} has no key: only its default action can be set")
    check_priority(table, entry.priority)
    if entry.idle_timeout_ns and table.hit_base is None:
        raise InvalidValue(f"table {table.name!r} does not support idle timeouts")
    if not 0 <= entry.idle_timeout_ns < 1 << 62:
        raise InvalidValue(f"an idle timeout of {entry.idle_timeout_ns} ns is out of range")
    return replace(entry, keys=keys)


def check_priority(table: Table, priority: int) -> None:
    """Raise InvalidKey if a priority is missing, or given where there is none."""
    if table.needs_priority and not 0 < priority < 1 << 31:
        raise InvalidKey(
            f"table {table.name!r} has ternary, optional or range fields: "
            f"an entry needs a positive priority, not {priority}"
        )
    if not table.needs_priority and priority != 0:
        raise InvalidKey(f"table {table.name!r} has no priorities: 0 is valid, not {priority}")


def check_call(where: str, actions: tuple[ProgramAction, ...], call: ActionCall) -> ProgramAction:
    """Return the action that a call names. Raises InvalidAction."""
    action = next((action for action in actions if action.name == call.action), None)
    if action is None:
        names = ", ".join(action.name for action in actions)
        raise InvalidAction(f"{where} has no action {call.action!r}; it has: {names}")
    if len(call.params) != len(action.widths):
        raise InvalidAction(
            f"action {call.action!r} has {len(action.widths)} parameters, not {len(call.params)}"
        )
    for name, width, value in zip(action.parameters, action.widths, call.params, strict=True):
        if not 0 <= value < 1 << width:
            raise InvalidAction(
                f"parameter {name!r} of {call.action!r} has {width} bits, the value is {value:#x}"
            )
    return action


def check_target(table: Table, target: Target) -> None:
    """Raise InvalidAction if a target is not of the table's kind (profiles are checked later)."""
    where = f"table {table.name!r}"
    if table.profile is None:
        if not isinstance(target, ActionCall):
            raise InvalidAction(f"{where} is direct: an entry names an action, not {target}")
        check_call(where, table.actions, target)
    elif isinstance(target, ActionCall):
        raise InvalidAction(f"{where} is indirect: an entry names a member or a group")
    elif not isinstance(target, MemberTarget) and table.profile.algorithm is None:
        raise InvalidAction(f"{where} has no selector: an entry names a member, not {target}")
    elif isinstance(target, OneShot):
        check_one_shot(where, table.actions, target, table.profile)


def check_one_shot(
    where: str, actions: tuple[ProgramAction, ...], target: OneShot, profile: Profile
) -> None:
    """Raise InvalidAction for a wrong action or weight in a one-shot."""
    for call, weight in target.actions:
        check_call(where, actions, call)
        if weight < 1:
            raise InvalidAction(f"{where}: the weight {weight} of a one-shot is not positive")
    if sum(weight for _, weight in target.actions) > max(profile.size, 1):
        raise InvalidAction(f"{where}: the weights of the one-shot exceed {profile.size}")


def prefix_mask(length: int, width: int) -> int:
    """Return the mask of a prefix."""
    return ((1 << length) - 1) << (width - length)


def encode_key(key: Key, width: int) -> tuple[int, int]:
    """Return a key field as (value, mask), or (low, high) of a range."""
    most = (1 << width) - 1
    match key:
        case Exact():
            return key.value, most
        case Lpm():
            return key.value, prefix_mask(key.prefix_length, width)
        case Ternary():
            return key.value, key.mask
    return key.low, key.high


def rank(table: Table, entry: TableEntry) -> int:
    """Return what decides between entries that match: priority, or prefix length."""
    if table.needs_priority:
        return entry.priority
    return max((key.prefix_length for key in entry.keys if isinstance(key, Lpm)), default=0)


def check_given_entries(program: Program) -> None:
    """Raise ProgramError unless tables can begin with the entries that the program gives."""
    for table in program.tables.values():
        try:
            for entry in TableState(table).entries.values():
                check_entry(table, entry)
                check_target(table, entry.target)
        except ControlError as error:
            raise ProgramError(f"the program's own entries: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ProgramError(
                f"the program's own entries of table {table.name!r} are not BMv2 JSON: {error!r}"
            ) from error


def const_entry(table: Table, entry: ConstEntry, last: int) -> TableEntry:
    """Return an entry of the program. BMv2's priorities: the least number wins; here the greatest,
    and that of the entry with the number ``last`` is 1, as P4Runtime has it, unless it is told."""
    keys = tuple(_const_key(node, kf) for node, kf in zip(entry.keys, table.keys, strict=True))
    priority = 0
    if table.needs_priority:
        given = entry.runtime_priority
        priority = min(last + 1 - entry.priority, MOST_PRIORITY) if given is None else given
    return TableEntry(table.name, keys, ActionCall(entry.action.name, entry.params), priority)


def _const_key(node: Any, key_field: KeyField) -> Key:
    kind = node["match_type"]
    match kind:
        case "valid":
            return Exact(int(bool(node["key"])))
        case "exact":
            return Exact(number(node["key"]))
        case "lpm":
            length = int(node["prefix_length"])
            return Lpm(number(node["key"]) & prefix_mask(length, key_field.width), length)
        case "range":
            return Range(number(node["start"]), number(node["end"]))
    mask = number(node["mask"]) if node.get("mask") else (1 << key_field.width) - 1
    if kind == "optional" and node.get("key") is None:
        return Ternary(0, 0)
    return Ternary(number(node["key"]) & mask, mask)
