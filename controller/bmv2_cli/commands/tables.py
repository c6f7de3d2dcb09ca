"""Commands about tables and their entries."""

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from weft.controller.bmv2_cli.command import Command, exactly
from weft.controller.bmv2_cli.commands.profiles import profile_lines
from weft.controller.bmv2_cli.entries import (
    MOST_PRIORITY,
    Target,
    check_ages,
    check_direct,
    direct_action,
    shown_priority,
)
from weft.controller.bmv2_cli.profiles import check_selector
from weft.controller.bmv2_cli.program import ProgramView, TableView
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.bmv2_cli.values import (
    WrittenKey,
    colons,
    keys_of,
    parameters_of,
    whole_number,
)

LINE = "=========="
STARS = "**********"
MOST_TIMEOUT_MS = (1 << 63) // 1_000_000 - 1


def table_line(table: TableView) -> str:
    """Return a table's line: its name, its profile and its key."""
    key = ",\t".join(f"{field.label}({field.kind}, {field.width})" for field in table.key)
    profile = table.profile
    name = "None" if profile is None else profile.preamble.name
    return f"{table.name:30} [implementation={name}, mk={key}]"


def action_line(action: Any) -> str:
    """Return an action's line: its name and its parameters."""
    params = ",\t".join(f"{param.name}({param.bitwidth})" for param in action.params)
    return f"{action.preamble.name:30} [{params}]"


def target_line(program: ProgramView, target: Any) -> str:
    """Return the line of a ``TableAction``."""
    match target.WhichOneof("type"):
        case "action":
            action = program.with_id("action", target.action.action_id)
            values = ", ".join(value.hex() for value in parameters_of(action, target.action))
            return f"Action entry: {action.preamble.name} - {values}"
        case "action_profile_member_id":
            return f"Index: member({target.action_profile_member_id - 1})"
        case "action_profile_group_id":
            return f"Index: group({target.action_profile_group_id - 1})"
        case "action_profile_action_set":
            count = len(target.action_profile_action_set.action_profile_actions)
            return f"Index: {count} actions of the entry's own"
    return "EMPTY"


def entry_lines(table: TableView, handle: int, entry: Any) -> Iterator[str]:
    """Return the lines of an entry."""
    width = max([20, *(len(field.label) for field in table.key)])
    yield f"Dumping entry {handle:#x}"
    yield "Match key:"
    for key in keys_of(table.key, entry):
        yield f"* {key.field.label:{width}}: {key.field.kind.upper():10}{key.dumped()}"
    priority = shown_priority(table, entry)
    if priority is not None:
        yield f"Priority: {priority}"
    yield target_line(table.program, entry.action)
    if table.ages:
        idle, timeout = entry.time_since_last_hit.elapsed_ns, entry.idle_timeout_ns
        yield (f"Life: {idle // 1_000_000}ms since hit, timeout is {timeout // 1_000_000}ms")


def _told(first: str, keys: Sequence[WrittenKey], action: str, values: Sequence[bytes]) -> str:
    lines = [first] if first else []
    if keys:
        lines.append(f"{'match key:':20} " + "\t".join(key.told() for key in keys))
    lines.append(f"{'action:':20} {action}")
    lines.append(f"{'runtime data:':20} " + "\t".join(map(colons, values)))
    return "\n".join(lines)


def _priority(table: TableView, words: list[str]) -> int | None:
    """Take the priority off the end of the words, if the table's entries have priorities."""
    if not table.ranked:
        return None
    try:
        return whole_number(words.pop() if words else "", "priority", MOST_PRIORITY - 1)
    except CommandError:
        raise CommandError(
            f"Error: Table is {table.kind}, but could not extract a valid priority from args: the "
            f"last word is one, 0 to {MOST_PRIORITY - 1}, and the least wins"
        ) from None


def _halves(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before and behind the arrow."""
    first = list(takewhile(lambda word: word != "=>", words))
    return first, list(words[len(first) + 1 :])


def show_tables(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    for name in switch.program.names("table"):
        yield table_line(switch.program.table(name))


def show_actions(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    for name in switch.program.names("action"):
        yield action_line(switch.program.find("action", name))


def table_show_actions(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield from map(action_line, switch.program.table(words[0]).actions)


def table_info(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    yield table_line(table)
    yield "*" * 80
    yield from map(action_line, table.actions)


def table_num_entries(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield str(len(switch.entries.all(switch.program.table(words[0]))))


def table_clear(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    switch.entries.clear(switch.program.table(words[0]))
    yield from ()


def table_add(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    check_direct(table)
    rest = words[2:]
    priority = _priority(table, rest)
    match, params = _halves(rest)
    values, fill = direct_action(table, words[1], params)
    keys, entry = switch.entries.read_entry(table, match, priority)
    yield _told(f"Adding entry to {table.kind} match table {words[0]}", keys, words[1], values)
    yield f"Entry has been added with handle {switch.entries.add(table, entry, fill)}"


def table_set_default(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    check_direct(table)
    values, fill = direct_action(table, words[1], _tolerant(words[2:]))
    yield _told(f"Setting default action of {words[0]}", (), words[1], values)
    switch.entries.set_default(table, fill)


def table_reset_default(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    switch.entries.set_default(switch.program.table(words[0]), None)
    yield from ()


def table_set_timeout(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    handle = whole_number(words[1], "entry handle")
    timeout_ms = whole_number(words[2], "timeout", MOST_TIMEOUT_MS)
    check_ages(table)
    yield f"Setting a {timeout_ms} ms timeout for entry {handle}"
    switch.entries.set_timeout(table, handle, timeout_ms)


def table_modify(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    check_direct(table)
    handle = whole_number(words[2], "entry handle")
    _, fill = direct_action(table, words[1], _tolerant(words[3:]))
    yield f"Modifying entry {handle} for {table.kind} match table {words[0]}"
    switch.entries.modify(table, handle, fill)


def table_delete(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    handle = whole_number(words[1], "entry handle")
    yield f"Deleting entry {handle} from {words[0]}"
    switch.entries.delete(switch.program.table(words[0]), handle)


def table_dump_entry(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    handle = whole_number(words[1], "entry handle")
    yield from entry_lines(table, handle, switch.entries.entry(table, handle))


def table_dump_entry_from_key(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    rest = words[1:]
    handle = switch.entries.find(table, rest, _priority(table, rest))
    yield from entry_lines(table, handle, switch.entries.entry(table, handle))


def table_dump(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    table = switch.program.table(words[0])
    yield LINE
    yield "TABLE ENTRIES"
    for handle, entry in sorted(switch.entries.all(table).items()):
        yield STARS
        yield from entry_lines(table, handle, entry)
    if table.profile is not None:
        yield from profile_lines(switch, table.profile)
    yield LINE
    yield "Dumping default entry"
    yield target_line(table.program, switch.entries.default(table).action)
    yield LINE


def _tolerant(words: list[str]) -> list[str]:
    """Return parameters without an arrow before them."""
    return words[1:] if words[:1] == ["=>"] else words


def _indirect(switch: CommandSwitch, name: str, *, group: bool = False) -> TableView:
    table = switch.program.table(name)
    if table.profile is None:
        raise CommandError(
            f"Error: Cannot run this command on non-indirect table: {table.name} has no action "
            "profile"
        )
    if group:
        check_selector(table.profile)
    return table


def _leads_to(switch: CommandSwitch, table: TableView, handle: int, *, group: bool) -> Target:
    """Return what fills in that an entry leads to a member or a group."""
    (switch.profiles.group if group else switch.profiles.member)(table.profile, handle)
    name = f"action_profile_{'group' if group else 'member'}_id"
    return lambda message: setattr(message, name, handle + 1)


def _indirect_add(group: bool) -> Callable[[CommandSwitch, list[str]], Iterator[str]]:
    def add(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
        table = _indirect(switch, words[0], group=group)
        rest = words[1:]
        priority = _priority(table, rest)
        match, handles = _halves(rest)
        if len(handles) != 1:
            raise CommandError(
                "Error: Invalid arguments, could not find handle: one follows '=>', not "
                f"{len(handles)} words"
            )
        _, entry = switch.entries.read_entry(table, match, priority)
        handle = whole_number(handles[0], "handle")
        yield f"Adding entry to indirect match table {table.name}"
        fill = _leads_to(switch, table, handle, group=group)
        yield f"Entry has been added with handle {switch.entries.add(table, entry, fill)}"

    return add


def _indirect_set_default(group: bool) -> Callable[[CommandSwitch, list[str]], Iterator[str]]:
    def set_default(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
        table = _indirect(switch, words[0], group=group)
        fill = _leads_to(switch, table, whole_number(words[1], "handle"), group=group)
        switch.entries.set_default(table, fill)
        yield from ()

    return set_default


def table_indirect_delete(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    _indirect(switch, words[0])
    yield from table_delete(switch, words)


def table_indirect_reset_default(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    _indirect(switch, words[0])
    yield from table_reset_default(switch, words)


COMMANDS = (
    exactly("show_tables", "", "The tables of the program.", show_tables),
    exactly("show_actions", "", "The actions of the program.", show_actions),
    exactly("table_show_actions", "<table>", "The actions of a table.", table_show_actions,
            "table"),
    exactly("table_info", "<table>", "A table, and its actions.", table_info, "table"),
    exactly("table_num_entries", "<table>", "How many entries a table has.", table_num_entries,
            "table"),
    exactly("table_clear", "<table>", "Delete all entries but the default one.", table_clear,
            "table"),
    Command("table_add", "<table> <action> <match fields> => <action parameters> [priority]",
            "Add an entry; of several that match, the one of the least priority wins.", table_add,
            2, None, ("table", "action")),
    Command("table_set_default", "<table> <action> <action parameters>",
            "Set what a table does if no entry matches.", table_set_default,
            2, None, ("table", "action")),
    exactly("table_reset_default", "<table>", "Go back to the default action of the program.",
            table_reset_default, "table"),
    exactly("table_set_timeout", "<table> <entry handle> <timeout in ms>",
            "Have an entry told of that was not hit for so long.", table_set_timeout, "table"),
    Command("table_modify", "<table> <action> <entry handle> [action parameters]",
            "Give an entry another action.", table_modify, 3, None, ("table", "action")),
    exactly("table_delete", "<table> <entry handle>", "Delete an entry.", table_delete, "table"),
    exactly("table_dump", "<table>", "All entries of a table.", table_dump, "table"),
    exactly("table_dump_entry", "<table> <entry handle>", "An entry.", table_dump_entry, "table"),
    Command("table_dump_entry_from_key", "<table> <match fields> [priority]",
            "The entry that has this key.", table_dump_entry_from_key, 1, None, ("table",)),
    Command("table_indirect_add", "<table> <match fields> => <member handle> [priority]",
            "Add an entry that leads to a member.", _indirect_add(False), 2, None, ("table",)),
    Command("table_indirect_add_with_group", "<table> <match fields> => <group handle> [priority]",
            "Add an entry that leads to a group.", _indirect_add(True), 2, None, ("table",)),
    exactly("table_indirect_delete", "<table> <entry handle>", "Delete an entry.",
            table_indirect_delete, "table"),
    exactly("table_indirect_set_default", "<table> <member handle>",
            "Let a member be what is done if no entry matches.", _indirect_set_default(False),
            "table"),
    exactly("table_indirect_set_default_with_group", "<table> <group handle>",
            "Let a group be what is chosen from if no entry matches.", _indirect_set_default(True),
            "table"),
    exactly("table_indirect_reset_default", "<table>",
            "Go back to the default action of the program.", table_indirect_reset_default, "table"),
)  # fmt: skip
