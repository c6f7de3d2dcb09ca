"""From lark's trees to statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Token, Tree

from weft.switch.stf.statements import (
    Add,
    Argument,
    Call,
    CheckCounter,
    CheckRegister,
    Command,
    Expect,
    Match,
    NewGroup,
    NewMember,
    NoPacket,
    Packet,
    Place,
    RemoveAll,
    RemoveEntry,
    RemoveHandle,
    SetDefault,
    Statement,
    Value,
    Wait,
    Word,
)

MOST_PORT = 511
_BITS = {"HEX": 4, "BINARY": 1, "OCTAL": 3}

Placing = Callable[[Token], Place]


def build(keyword: str, place: Place, tree: Any, placing: Placing) -> Statement:
    """The statement of a tree; raises `InputError`."""
    builder = _Builder(keyword, place, placing)
    statement: Statement = getattr(builder, tree.data)(*tree.children)
    return statement


class _Builder:
    """A method for each rule of the grammar."""

    def __init__(self, keyword: str, place: Place, placing: Placing) -> None:
        self.keyword = keyword
        self.at = place
        self.placing = placing

    # -- parts

    def _word(self, token: Token) -> Word:
        return Word(str(token).strip('"'), self.placing(token))

    def _name(self, tree: Tree[Token]) -> Word:
        tokens = [token for token in tree.children if isinstance(token, Token)]
        text = ""
        for token in tokens:
            part = "".join(str(token).split()).strip('"')
            text += part if token.type == "INDEX" or not text else f".{part}"
        if text.endswith(".isValid()"):
            text = text.removesuffix("isValid()") + "$valid$"
        place = self.placing(tokens[0])
        if tokens[-1].line == tokens[0].line:
            length = (tokens[-1].end_column or 1) - (tokens[0].column or 1)
            place = Place(place.file, place.line, place.column, place.source_line, length)
        return Word(text, place)

    def _value(self, tree: Any) -> Value:
        token = tree.children[0]
        text, place = str(token), self.placing(token)
        if token.type == "NUMBER":
            return Value(int(text), -1, None, 0, place)
        if token.type == "MAC":
            return Value(int(text.replace(":", ""), 16), -1, None, 0, place)
        if token.type == "IPV4":
            octets = [int(part) for part in text.split(".")]
            if max(octets) > 255:
                raise place.error(f"{text} is no IPv4 address: its parts are 0 to 255")
            return Value(int.from_bytes(bytes(octets), "big"), -1, None, 0, place)
        bits = _BITS[token.type]
        digits = text[2:]
        value = int(digits.replace("*", "0"), 1 << bits)
        mask = int("".join("0" if d == "*" else f"{(1 << bits) - 1:x}" for d in digits), 1 << bits)
        return Value(value, mask, bits * len(digits), bits * digits.count("*"), place)

    def _number(self, tree: Any) -> int:
        value = self._value(tree)
        if value.wildcard_bits:
            raise value.place.error("a number without wildcards is needed here")
        return value.value

    def _index(self, tree: Any) -> Word | Value:
        child = tree.children[0]
        return self._word(child) if isinstance(child, Token) else self._value(child)

    def _port(self, token: Token) -> int:
        if int(token) > MOST_PORT:
            raise self.placing(token).error(f"port {token}: ports are 0 to {MOST_PORT}")
        return int(token)

    def _match(self, tree: Any) -> Match:
        name, value = self._name(tree.children[0]), self._value(tree.children[1])
        if tree.data == "match_prefix":
            return Match(name, value, prefix_length=int(tree.children[2]))
        if tree.data == "match_mask":
            return Match(name, value, mask=self._value(tree.children[2]))
        if tree.data == "match_range":
            return Match(name, value, high=self._value(tree.children[3]))
        return Match(name, value)

    def _call(self, tree: Any) -> Call:
        arguments = [self._argument(argument) for argument in tree.children[1:] if argument]
        return Call(self._name(tree.children[0]), tuple(arguments))

    def _argument(self, tree: Any) -> Argument:
        if tree.data == "named":
            return Argument(self._word(tree.children[0]), self._value(tree.children[1]))
        if tree.data == "unnamed":
            return Argument(None, self._value(tree.children[0]))
        return Argument(None, self._word(tree.children[0]))

    def _handle(self, token: Token | None) -> str | None:
        return None if token is None else str(token).lstrip("$")

    # -- statements

    def add(self, name: Any, priority: Any, *rest: Any) -> Statement:
        *matches, call, handle = rest
        return Add(
            self.at,
            self._name(name),
            None if priority is None else int(priority),
            tuple(self._match(match) for match in matches),
            self._call(call),
            self._handle(handle),
        )

    def setdefault(self, name: Any, call: Any) -> Statement:
        return SetDefault(self.at, self._name(name), self._call(call))

    def remove_handle(self, word: Token) -> Statement:
        if word.lower() == "all":
            return RemoveAll(self.at)
        return RemoveHandle(self.at, self._word(word))

    def remove_entry(self, name: Any, priority: Any, *matches: Any) -> Statement:
        return RemoveEntry(
            self.at,
            self._name(name),
            None if priority is None else int(priority),
            tuple(self._match(match) for match in matches),
        )

    def packet(self, port: Token, *data: Token) -> Statement:
        digits = "".join(data)
        if len(digits) % 2:
            raise self.at.error(
                f"packet: {len(digits)} hex digits are no whole number of bytes: one is missing, "
                "or one too many"
            )
        return Packet(self.at, self._port(port), bytes.fromhex(digits))

    def expect(self, port: Token, *data: Token | None) -> Statement:
        digits = "".join(str(token) for token in data[:-1])
        exact = data[-1] is not None
        return Expect(self.at, self._port(port), digits if digits or exact else None, exact)

    def nothing(self) -> Statement:
        return NoPacket(self.at)

    def wait(self, seconds: Token | None) -> Statement:
        return Wait(self.at, 1 if seconds is None else int(seconds))

    def check_counter(self, name: Any, index: Any, *check: Any) -> Statement:
        counted, comparison, value = check
        return CheckCounter(
            self.at,
            self._name(name),
            self._index(index),
            "packets" if counted is None else counted.lower(),
            None if comparison is None else str(comparison),
            0 if value is None else self._number(value),
        )

    def check_register(self, name: Any, index: Any, comparison: Token, value: Any) -> Statement:
        return CheckRegister(
            self.at, self._name(name), self._index(index), str(comparison), self._number(value)
        )

    def member(self, name: Any, call: Any, handle: Token | None) -> Statement:
        return NewMember(self.at, self._name(name), self._call(call), self._handle(handle))

    def group(self, name: Any, handle: Token | None) -> Statement:
        return NewGroup(self.at, self._name(name), self._handle(handle))

    def _command(self, name: Any, *numbers: Any) -> Statement:
        return Command(
            self.at,
            self.keyword,
            None if name is None else self._name(name),
            tuple(
                self._index(item) if item.data == "index" else self._value(item) for item in numbers
            ),
        )

    def numbers(self, *numbers: Any) -> Statement:
        return self._command(None, *numbers)

    number = two_numbers = numbers
    grouping = array = cell = cell_value = cell_two_values = _command

    def cell_rates(self, name: Any, index: Any, *rates: Token) -> Statement:
        return Command(
            self.at, self.keyword, self._name(name), (self._index(index),), _rates(rates)
        )

    def array_rates(self, name: Any, *rates: Token) -> Statement:
        return Command(self.at, self.keyword, self._name(name), (), _rates(rates))


def _rates(tokens: tuple[Token, ...]) -> tuple[tuple[float, int], ...]:
    pairs = [str(token).split(":") for token in tokens]
    return tuple((float(rate), int(burst)) for rate, burst in pairs)
