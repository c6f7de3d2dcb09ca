"""Commands about the members and groups of action profiles."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weft.controller.bmv2_cli.command import Command, Function, exactly
from weft.controller.bmv2_cli.program import ProgramView
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.bmv2_cli.values import parameters_of, read_parameters, whole_number

_PROFILE = "action profile"


def _member_lines(program: ProgramView, handle: int, member: Any) -> Iterator[str]:
    yield f"Dumping member {handle}"
    action = program.with_id("action", member.action.action_id)
    values = ", ".join(value.hex() for value in parameters_of(action, member.action))
    yield f"Action entry: {action.preamble.name} - {values}"


def _group_lines(handle: int, group: Any) -> Iterator[str]:
    yield f"Dumping group {handle}"
    members = ", ".join(str(one.member_id - 1) for one in group.members)
    yield f"Members: [{members}]"


def profile_lines(switch: CommandSwitch, profile: Any) -> Iterator[str]:
    """Return the lines of all members and groups of a profile."""
    yield "=========="
    yield "MEMBERS"
    for handle, member in switch.profiles.members(profile).items():
        yield "**********"
        yield from _member_lines(switch.program, handle, member)
    if profile.with_selector:
        yield "=========="
        yield "GROUPS"
        for handle, group in switch.profiles.groups(profile).items():
            yield "**********"
            yield from _group_lines(handle, group)


def _action(switch: CommandSwitch, profile: Any, name: str) -> Any:
    among = switch.program.profile_actions(profile)
    return switch.program.action(name, among, f"Action profile {profile.preamble.name}")


def create_member(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    action = _action(switch, profile, words[1])
    values = read_parameters(action, words[2:])
    handle = switch.profiles.create_member(profile, action, values)
    yield f"Member has been created with handle {handle}"


def modify_member(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    action = _action(switch, profile, words[1])
    handle = whole_number(words[2], "member handle")
    params = words[4:] if words[3:4] == ["=>"] else words[3:]
    switch.profiles.modify_member(profile, handle, action, read_parameters(action, params))
    yield from ()


def delete_member(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    switch.profiles.delete_member(profile, whole_number(words[1], "member handle"))
    yield from ()


def create_group(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    handle = switch.profiles.create_group(switch.program.profile(words[0]))
    yield f"Group has been created with handle {handle}"


def delete_group(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    switch.profiles.delete_group(profile, whole_number(words[1], "group handle"))
    yield from ()


def add_member_to_group(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    member = whole_number(words[1], "member handle")
    switch.profiles.join(profile, member, whole_number(words[2], "group handle"))
    yield from ()


def remove_member_from_group(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    member = whole_number(words[1], "member handle")
    switch.profiles.leave(profile, member, whole_number(words[2], "group handle"))
    yield from ()


def dump_member(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    handle = whole_number(words[1], "member handle")
    yield from _member_lines(switch.program, handle, switch.profiles.member(profile, handle))


def dump_group(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    profile = switch.program.profile(words[0])
    handle = whole_number(words[1], "group handle")
    yield from _group_lines(handle, switch.profiles.group(profile, handle))


def dump(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    yield from profile_lines(switch, switch.program.profile(words[0]))


def _by_table(function: Function) -> Function:
    """Return a command that is given a table in place of its action profile."""

    def by_table(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
        table = switch.program.table(words[0])
        profile = table.profile
        if profile is None:
            raise CommandError(
                f"Error: Cannot run this command on non-indirect table: {table.name} has no "
                "action profile"
            )
        if len(profile.table_ids) > 1:
            raise CommandError(
                "Error: Legacy command does not work with shared action profiles: "
                f"{profile.preamble.name} is one, use the act_prof_ command"
            )
        yield from function(switch, [profile.preamble.name, *words[1:]])

    return by_table


_NAMED = (
    Command("act_prof_create_member", "<action profile> <action> [action parameters]",
            "Make a member.", create_member, 2, None, (_PROFILE, "action")),
    exactly("act_prof_delete_member", "<action profile> <member handle>", "Delete a member.",
            delete_member, _PROFILE),
    Command("act_prof_modify_member",
            "<action profile> <action> <member handle> [action parameters]",
            "Give a member another action.", modify_member, 3, None, (_PROFILE, "action")),
    exactly("act_prof_create_group", "<action profile>", "Make a group without members.",
            create_group, _PROFILE),
    exactly("act_prof_delete_group", "<action profile> <group handle>", "Delete a group.",
            delete_group, _PROFILE),
    exactly("act_prof_add_member_to_group", "<action profile> <member handle> <group handle>",
            "Add a member to a group.", add_member_to_group, _PROFILE),
    exactly("act_prof_remove_member_from_group", "<action profile> <member handle> <group handle>",
            "Take a member out of a group.", remove_member_from_group, _PROFILE),
    exactly("act_prof_dump_member", "<action profile> <member handle>", "A member.", dump_member,
            _PROFILE),
    exactly("act_prof_dump_group", "<action profile> <group handle>", "A group.", dump_group,
            _PROFILE),
)  # fmt: skip
_BY_TABLE = tuple(
    replace(
        each,
        name=each.name.replace("act_prof", "table" if "dump" in each.name else "table_indirect"),
        arguments=each.arguments.replace("<action profile>", "<table>"),
        help=f"{each.help[:-1]} of a table's action profile.",
        function=_by_table(each.function),
        kinds=("table", *each.kinds[1:]),
    )
    for each in _NAMED
)
COMMANDS = (
    *_NAMED,
    exactly("act_prof_dump", "<action profile>", "All members and groups.", dump, _PROFILE),
    *_BY_TABLE,
)
