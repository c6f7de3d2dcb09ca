"""Names and values of a test, resolved against a program.

Tables, actions and arrays are named in full or by how their names end; the end of one alone must
match. Fields of keys are found as p4c's BMv2 runner finds them.
"""

import difflib
import re
from collections.abc import Iterable, Sequence

from weft.base.errors import refuse
from weft.switch.engine.control.entities import ActionCall, Exact, Key, Lpm, Range, Ternary
from weft.switch.engine.program.program import KeyField, Program, ProgramAction, Table
from weft.switch.stf.statements import Match, StfArgument, StfCall, StfValue, StfWord

_ELEMENT = re.compile(r"^(.*)\$([0-9]+)(.*)$")


def resolve(word: StfWord, kind: str, names: Iterable[str], where: str = "the program") -> str:
    """Return the one name that a word stands for; raises `InputError`."""
    known = list(names)
    if word.text in known:
        return word.text
    found = [name for name in known if name.endswith(word.text)]
    if len(found) > 1:
        found = [name for name in found if name.endswith("." + word.text)] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise word.place.error(
            f"{kind} {word.text!r} may be {' or '.join(map(repr, found))}: write more of its name"
        )
    ends = {name[-len(word.text) - at :]: name for name in known for at in (-1, 0, 1)}
    close = difflib.get_close_matches(word.text, [*known, *ends], 1, 0.6)
    hint = f" (did you mean {ends.get(close[0], close[0])!r}?)" if close else ""
    listed = ", ".join(known) or "none"
    raise word.place.error(f"{where} has no {kind} {word.text!r}{hint}; it has: {listed}")


def find_table(program: Program, word: StfWord) -> Table:
    """Return the table that a name means; raises `InputError`."""
    by_name = {table.name: table for table in program.tables.values()}
    return by_name[resolve(word, "table", by_name)]


def action_call(actions: Sequence[ProgramAction], call: StfCall, where: str) -> ActionCall:
    """Return an action with its parameters in order; raises `InputError`."""
    by_name = {action.name: action for action in actions}
    action = by_name[resolve(call.name, "action", by_name, where)]
    given: dict[str, StfValue] = {}
    for place, argument in enumerate(call.arguments):
        name = _parameter(action, argument, place)
        refuse(
            name in given,
            f"parameter {name!r} of action {action.name!r} is given twice",
            argument.value.place.error,
        )
        if isinstance(argument.value, StfWord):
            raise argument.value.place.error(
                f"parameter {name!r} of action {action.name!r} is a number, not a name"
            )
        given[name] = argument.value
    missing = [name for name in action.parameters if name not in given]
    if missing:
        raise call.name.place.error(
            f"action {action.name!r} is not given {', '.join(map(repr, missing))}; its parameters "
            f"are {_parameters(action)}"
        )
    values = tuple(
        _fitting(given[name], width, f"parameter {name!r} of action {action.name!r}")
        for name, width in zip(action.parameters, action.widths, strict=True)
    )
    return ActionCall(action.name, values)


def _parameters(action: ProgramAction) -> str:
    pairs = zip(action.parameters, action.widths, strict=True)
    return ", ".join(f"{name} ({width} bits)" for name, width in pairs) or "none"


def _parameter(action: ProgramAction, argument: StfArgument, place: int) -> str:
    if argument.name is None:
        if place < len(action.parameters):
            return action.parameters[place]
        raise argument.value.place.error(
            f"action {action.name!r} has {len(action.parameters)} parameters: {_parameters(action)}"
        )
    if argument.name.text in action.parameters:
        return argument.name.text
    raise argument.name.place.error(
        f"action {action.name!r} has no parameter {argument.name.text!r}; it has: "
        f"{_parameters(action)}"
    )


def _fitting(value: StfValue, width: int, what: str) -> int:
    refuse(value.wildcard_bits, f"{what} takes no '*'", value.place.error)
    refuse(
        value.value >> width,
        f"{what} has {width} bits: {value.value:#x} does not fit, the greatest is "
        f"{(1 << width) - 1:#x}",
        value.place.error,
    )
    return value.value


def find_key(table: Table, word: StfWord) -> int:
    """Return the place of the field of a table's key that a name means; raises `InputError`."""
    names = [key.name for key in table.keys]
    spellings = _spellings(_ELEMENT.sub(r"\1[\2]\3", word.text))
    whole = [names.index(spelling) for spelling in spellings if spelling in names]
    ends = tuple("." + spelling for spelling in spellings)
    found = [place for place, name in enumerate(names) if name.endswith(ends)]
    if whole or found:
        return whole[0] if whole else found[-1]
    listed = ", ".join(f"{key.name} ({key.kind}, {key.width} bits)" for key in table.keys)
    raise word.place.error(
        f"table {table.name!r} has no key field {word.text!r}; it has: {listed or 'none'}"
    )


def _spellings(text: str) -> list[str]:
    return [text, text + "$", text + ".$valid$", re.sub(r"(^|\.)valid$", r"\1$valid$", text)]


def keys_of(table: Table, matches: Sequence[Match]) -> tuple[Key, ...]:
    """Return a whole key. A field that is not given matches anything, or is 0 if it is exact."""
    keys = [_any_value(field) for field in table.keys]
    for match in matches:
        place = find_key(table, match.name)
        keys[place] = _key(table, table.keys[place], match)
    return tuple(keys)


def _any_value(field: KeyField) -> Key:
    known: dict[str, Key] = {
        "exact": Exact(0),
        "lpm": Lpm(0, 0),
        "range": Range(0, (1 << field.width) - 1),
    }
    return known.get(field.kind, Ternary(0, 0))


def _key(table: Table, field: KeyField, match: Match) -> Key:
    what = f"key field {field.name!r} of table {table.name!r}"
    value, most = match.value, (1 << field.width) - 1
    given = {"/": match.prefix_length, "&&&": match.mask, "..": match.high}
    for sign, kinds in (("/", ("lpm", "ternary")), ("&&&", ("ternary",)), ("..", ("range",))):
        if given[sign] is not None and field.kind not in kinds:
            raise value.place.error(
                f"{what} is {field.kind}: {sign!r} is for {' and '.join(kinds)}"
            )
    width = field.width
    match field.kind:
        case "exact":
            return Exact(_fitting(value, width, what))
        case "optional" if value.wildcard_bits and not value.mask:
            return Ternary(0, 0)
        case "optional":
            return Ternary(_fitting(value, width, what), most)
        case "range":
            low = _fitting(value, width, what)
            high = low if match.high is None else _fitting(match.high, width, what)
            refuse(high < low, f"{what}: the range {low}..{high} is empty", value.place.error)
            return Range(low, high)
    if value.value >> field.width:
        _fitting(value, field.width, what)
    if match.mask is not None:
        mask = _fitting(match.mask, field.width, what)
        return Ternary(value.value & mask, mask)
    if field.kind == "ternary" and match.prefix_length is None:
        mask = value.mask & most
        return Ternary(value.value & mask, mask)
    length = _prefix_length(field, match, what)
    mask = most >> (field.width - length) << (field.width - length)
    refuse(
        match.prefix_length is not None and value.value & ~mask,
        f"{what}: {value.value:#x}/{length} has bits beyond its prefix of {length} of "
        f"{field.width} bits",
        value.place.error,
    )
    if field.kind == "ternary":
        return Ternary(value.value & mask, mask)
    return Lpm(value.value & mask, length)


def _prefix_length(field: KeyField, match: Match, what: str) -> int:
    """Return the prefix length that is given, or the length of the digits before the wildcards."""
    if match.prefix_length is not None:
        if match.prefix_length > field.width:
            raise match.value.place.error(
                f"{what} has {field.width} bits: a prefix of {match.prefix_length} is too long"
            )
        return match.prefix_length
    if match.value.digits_bits is None:
        return field.width
    return min(match.value.digits_bits - match.value.wildcard_bits, field.width)
