"""From lark's trees to statements."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lark import Token, Transformer, Tree, v_args
from lark.exceptions import VisitError

from weft.base.errors import refuse
from weft.switch.stf.statements import (
    Add,
    CheckCell,
    Command,
    Expect,
    Match,
    NewGroup,
    NewMember,
    NoPacket,
    Remove,
    RemoveEntry,
    SendPacket,
    SetDefault,
    StfArgument,
    StfCall,
    StfStatement,
    StfValue,
    StfWord,
    TextPlace,
    Wait,
    number_of,
)

MOST_PORT = 511
_BITS = {"HEX": 4, "BINARY": 1, "OCTAL": 3}

Placing = Callable[[Token], TextPlace]


def build(keyword: str, place: TextPlace, tree: Tree[Token], placing: Placing) -> StfStatement:
    """Return the statement of a tree; raises `InputError`."""
    try:
        statement: StfStatement = _StatementBuilder(keyword, place, placing).transform(tree)
    except VisitError as error:
        raise error.orig_exc from None
    return statement


@v_args(inline=True)
class _StatementBuilder(Transformer[Token, Any]):
    """A builder makes a statement of a tree, from its leaves up: each rule of the grammar has a
    method.

    A rule without one is made by the class in `_MADE`, whose fields are the rule's parts.
    """

    def __init__(self, keyword: str, place: TextPlace, placing: Placing) -> None:
        super().__init__()
        self.keyword = keyword
        self.at = place
        self.placing = placing

    def __default__(self, rule: str, parts: list[Any], _meta: object) -> StfStatement:
        return _MADE[rule](self.at, *parts)

    # -- parts

    def _word(self, token: Token) -> StfWord:
        return StfWord(str(token).strip('"'), self.placing(token))

    def name(self, *parts: Token | None) -> StfWord:
        tokens = [token for token in parts if token is not None]
        text = ""
        for token in tokens:
            part = "".join(str(token).split()).strip('"')
            text += part if token.type == "INDEX" or not text else f".{part}"
        if text.endswith(".isValid()"):
            text = text.removesuffix("isValid()") + "$valid$"
        place = self.placing(tokens[0])
        if tokens[-1].line == tokens[0].line:
            place = replace(place, length=(tokens[-1].end_column or 1) - (tokens[0].column or 1))
        return StfWord(text, place)

    def value(self, token: Token) -> StfValue:
        text, place = str(token), self.placing(token)
        match token.type:
            case "NUMBER":
                return StfValue(int(text), -1, None, 0, place)
            case "MAC":
                return StfValue(int(text.replace(":", ""), 16), -1, None, 0, place)
            case "IPV4":
                octets = [int(part) for part in text.split(".")]
                refuse(
                    max(octets) > 255,
                    f"{text} is no IPv4 address: its parts are 0 to 255",
                    place.error,
                )
                return StfValue(int.from_bytes(bytes(octets), "big"), -1, None, 0, place)
        bits = _BITS[token.type]
        digits = text[2:]
        value = int(digits.replace("*", "0"), 1 << bits)
        mask = int("".join("0" if d == "*" else f"{(1 << bits) - 1:x}" for d in digits), 1 << bits)
        return StfValue(value, mask, bits * len(digits), bits * digits.count("*"), place)

    def index(self, part: Token | StfValue) -> StfWord | StfValue:
        return part if isinstance(part, StfValue) else self._word(part)

    def _port(self, token: Token) -> int:
        refuse(
            int(token) > MOST_PORT,
            f"port {token}: ports are 0 to {MOST_PORT}",
            self.placing(token).error,
        )
        return int(token)

    def priority(self, token: Token) -> int:
        return int(token)

    def handle(self, token: Token) -> str:
        return str(token).lstrip("$")

    match = Match

    def match_prefix(self, name: StfWord, value: StfValue, length: Token) -> Match:
        return Match(name, value, prefix_length=int(length))

    def match_mask(self, name: StfWord, value: StfValue, mask: StfValue) -> Match:
        return Match(name, value, mask=mask)

    def match_range(self, name: StfWord, value: StfValue, _sign: Token, high: StfValue) -> Match:
        return Match(name, value, high=high)

    def call(self, name: StfWord, *arguments: StfArgument | None) -> StfCall:
        return StfCall(name, tuple(argument for argument in arguments if argument is not None))

    def named(self, name: Token, value: StfValue) -> StfArgument:
        return StfArgument(self._word(name), value)

    def unnamed(self, value: StfValue) -> StfArgument:
        return StfArgument(None, value)

    def handle_of(self, word: Token) -> StfArgument:
        return StfArgument(None, self._word(word))

    # -- statements

    def add(self, table: StfWord, priority: int | None, *rest: Any) -> StfStatement:
        *matches, call, handle = rest
        return Add(self.at, table, priority, tuple(matches), call, handle)

    def remove_handle(self, word: Token) -> StfStatement:
        return Remove(self.at, None if word.lower() == "all" else self._word(word))

    def remove_entry(self, table: StfWord, priority: int | None, *matches: Match) -> StfStatement:
        return RemoveEntry(self.at, table, priority, matches)

    def packet(self, port: Token, *data: Token) -> StfStatement:
        digits = "".join(data)
        refuse(
            len(digits) % 2,
            f"packet: {len(digits)} hex digits are no whole number of bytes: one is missing, "
            "or one too many",
            self.at.error,
        )
        return SendPacket(self.at, self._port(port), bytes.fromhex(digits))

    def expect(self, port: Token, *data: Token | None) -> StfStatement:
        digits = "".join(str(token) for token in data[:-1])
        exact = data[-1] is not None
        return Expect(self.at, self._port(port), digits if digits or exact else None, exact)

    def wait(self, seconds: Token | None) -> StfStatement:
        return Wait(self.at, 1 if seconds is None else int(seconds))

    def check_counter(self, array: StfWord, index: Any, *check: Any) -> StfStatement:
        counted, comparison, value = check
        return CheckCell(
            self.at,
            "counter",
            array,
            index,
            "packets" if counted is None else counted.lower(),
            None if comparison is None else str(comparison),
            0 if value is None else number_of(value),
        )

    def check_register(
        self, array: StfWord, index: Any, comparison: Token, value: StfValue
    ) -> StfStatement:
        return CheckCell(self.at, "register", array, index, "", str(comparison), number_of(value))

    def numbers(self, *numbers: StfValue) -> StfStatement:
        return Command(self.at, self.keyword, None, numbers)

    def array(self, target: StfWord, *numbers: StfWord | StfValue) -> StfStatement:
        return Command(self.at, self.keyword, target, numbers)

    number = two_numbers = numbers
    grouping = cell = cell_value = cell_two_values = array

    def cell_rates(self, target: StfWord, index: StfWord | StfValue, *rates: Token) -> StfStatement:
        return Command(self.at, self.keyword, target, (index,), _rates(rates))

    def array_rates(self, target: StfWord, *rates: Token) -> StfStatement:
        return Command(self.at, self.keyword, target, (), _rates(rates))


_MADE: dict[str, Callable[..., StfStatement]] = {
    "setdefault": SetDefault,
    "nothing": NoPacket,
    "member": NewMember,
    "group": NewGroup,
}
"""The statements whose fields are just the parts of a rule."""


def _rates(tokens: tuple[Token, ...]) -> tuple[tuple[float, int], ...]:
    return tuple(
        (float(rate), int(burst)) for rate, burst in [str(token).split(":") for token in tokens]
    )
