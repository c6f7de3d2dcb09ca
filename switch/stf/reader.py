"""From the text of an STF test to its statements.

A statement begins where a line's first word is the name of one, in any case of letters; lines that
begin otherwise go on with the statement before. ``#`` starts a comment.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from lark import Lark, Token, UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from weft.base.errors import InputError
from weft.base.files import read_text, told_as_input
from weft.switch.stf.build import build
from weft.switch.stf.statements import StfStatement, Test, TextPlace

RULES = {
    "add": "add",
    "setdefault": "setdefault",
    "remove": "remove",
    "del": "remove",
    "delete": "remove",
    "packet": "packet",
    "expect": "expect",
    "no_packet": "nothing",
    "wait": "wait",
    "check_counter": "check_counter",
    "check_register": "check_register",
    "mirroring_add": "two_numbers",
    "mirroring_add_mc": "two_numbers",
    "mirroring_delete": "number",
    "mirroring_get": "number",
    "mc_mgrp_create": "number",
    "mc_mgrp_destroy": "number",
    "mc_node_create": "numbers",
    "mc_node_update": "numbers",
    "mc_node_associate": "two_numbers",
    "mc_node_dissociate": "two_numbers",
    "mc_node_destroy": "number",
    "counter_read": "cell",
    "counter_write": "cell_two_values",
    "counter_reset": "array",
    "register_read": "cell",
    "register_write": "cell_value",
    "register_reset": "array",
    "meter_get_rates": "cell",
    "meter_set_rates": "cell_rates",
    "meter_array_set_rates": "array_rates",
    "act_prof_create_member": "member",
    "act_prof_create_group": "group",
    "act_prof_add_member_to_group": "grouping",
    "act_prof_remove_member_from_group": "grouping",
}
"""For each statement, the grammar's rule for what follows its name."""

_TERMINALS = {
    "WORD": "a name",
    "QUOTED": 'a name in "quotes"',
    "IS_VALID": "isValid()",
    "INDEX": "an [index]",
    "NUMBER": "a number",
    "HEX": "a number like 0x1f or 0x1*",
    "BINARY": "",
    "OCTAL": "",
    "IPV4": "an address",
    "MAC": "",
    "RATE": "RATE:BURST",
    "RANGE": "'..'",
    "COUNTED": "packets or bytes",
    "COMPARISON": "==, !=, <, <=, > or >=",
    "PACKET_DATA": "hex digits",
    "EXPECT_DATA": "hex digits or *",
    "END": "$",
    "LPAR": "'('",
    "RPAR": "')'",
    "COLON": "':'",
    "COMMA": "','",
    "DOT": "'.'",
    "EQUAL": "'='",
    "SLASH": "'/'",
    "__ANON_0": "'&&&'",
    "$END": "the end of the statement",
}

_FIRST_WORD = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)(?![A-Za-z_0-9$.\[:(])")
_COMMENT = re.compile(r'"[^"\n]*"|#.*')
MOST_BYTES = 16 << 20
"""The most bytes of a test file."""
MAXIMUM_LISTED = 10
"""How many errors of a test a message lists; it only counts the others."""


@dataclass(frozen=True)
class _Raw:
    """A statement's text from its first word, which is blanked out, to the next statement."""

    keyword: str
    place: TextPlace
    text: str


def read_test(path: Path) -> Test:
    """Read a test file; raises `InputError` with everything that is wrong with its text."""
    with told_as_input(f"cannot read the test {str(path)!r}"):
        text = read_text(path, MOST_BYTES, endings=(".stf",))
    return parse_test(text, str(path))


def parse_test(text: str, file: str) -> Test:
    """Return the statements of a test; raises `InputError` with all that is wrong."""
    lines = text.split("\n")
    statements: list[StfStatement] = []
    wrong: list[str] = []
    for raw in _split(lines, file, wrong):
        try:
            statements.append(_parse(raw, lines, file))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        listed = wrong[:MAXIMUM_LISTED]
        if len(wrong) > MAXIMUM_LISTED:
            listed.append(f"... and {len(wrong) - MAXIMUM_LISTED} more errors in {file}")
        raise InputError("\n".join(listed))
    return Test(file, tuple(statements))


def _split(lines: list[str], file: str, wrong: list[str]) -> Iterator[_Raw]:
    keyword, place, kept = "", TextPlace(file, 1, 1, ""), list[str]()
    for number, line in enumerate(lines, 1):
        code = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else "", line)
        code = re.sub(r"\\\s*$", "", code)
        first = _FIRST_WORD.match(code)
        word = first[1].lower() if first else ""
        if word in RULES and first is not None:
            if keyword:
                yield _Raw(keyword, place, "\n".join(kept))
            keyword = word
            place = TextPlace(file, number, first.start(1) + 1, line, len(word))
            kept = [" " * first.end() + code[first.end() :]]
        elif keyword:
            kept.append(code)
        elif code.strip():
            at = TextPlace(
                file, number, len(code) - len(code.lstrip()) + 1, line, len(code.split()[0])
            )
            wrong.append(at.describe(_not_a_statement(code.split()[0])))
    if keyword:
        yield _Raw(keyword, place, "\n".join(kept))


def _not_a_statement(word: str) -> str:
    common = "add, setdefault, remove, packet, expect, no_packet, wait, check_counter"
    others = "register_write, counter_write, meter_set_rates, mirroring_add, mc_mgrp_create"
    return (
        f"{word!r} is no statement: expected {common}, check_register, or a command of BMv2's "
        f"command line such as {others}"
    )


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        parser="lalr",
        start=sorted(set(RULES.values())),
        propagate_positions=True,
        maybe_placeholders=True,
    )


def _parse(raw: _Raw, lines: list[str], file: str) -> StfStatement:
    def place(token: Token) -> TextPlace:
        line = raw.place.line + (token.line or 1) - 1
        return TextPlace(file, line, token.column or 1, lines[line - 1], max(len(token), 1))

    def fail(line: int, column: int, found: str, expected: set[str]) -> NoReturn:
        at = raw.place.line + line - 1
        if raw.keyword in ("packet", "expect") and found:
            column, found = _whole_word(lines[at - 1], column)
        length = max(len(found), 1)
        first = not lines[at - 1][: column - 1].strip()
        message = raw.keyword + (f": unexpected {found!r}" if found else " is not whole")
        names = (_TERMINALS.get(name, name) for name in sorted(expected))
        wanted = ", ".join(dict.fromkeys(filter(None, names)))
        message += f"; expected {wanted}" if wanted else ""
        if first and line > 1:
            message += f", or a statement: {found!r} is none"
        raise TextPlace(file, at, column, lines[at - 1], length).error(message)

    try:
        tree = _grammar().parse(raw.text, start=RULES[raw.keyword])
    except UnexpectedToken as error:
        token = error.token
        expected = set(error.accepts or error.expected)
        if token.type == "$END":
            return fail(*_end_of(raw.text), "", expected)
        return fail(token.line or 1, token.column or 1, str(token), expected)
    except UnexpectedCharacters as error:
        rest = raw.text[error.pos_in_stream or 0 :]
        found = (rest.split() or [rest[:1]])[0]
        return fail(error.line, error.column, found, set(error.allowed or ()))
    except UnexpectedEOF as error:
        return fail(*_end_of(raw.text), "", set(error.expected))
    return build(raw.keyword, raw.place, tree, place)


def _whole_word(line: str, column: int) -> tuple[int, str]:
    """Return the column and text of the word that a column is in; words end at white space."""
    for word in re.finditer(r"\S+", line):
        if word.start() < column <= word.end():
            return word.start() + 1, word[0]
    return column, line[column - 1 : column]


def _end_of(text: str) -> tuple[int, int]:
    """Return the line and column just after the last thing written."""
    written = text.rstrip().split("\n")
    return len(written), len(written[-1]) + 1
