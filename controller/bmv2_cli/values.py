"""Values and match keys as BMv2's command line writes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.base.errors import InputError
from weft.base.units import shown
from weft.controller.bmv2_cli.program import KeyField
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.handles.values import read_value
from weft.controller.messages import fill_match
from weft.switch.engine.control.entities import Exact, Key, Lpm, Range, Ternary
from weft.switch.messages import p4info_pb2
from weft.switch.p4runtime.bytestrings import encode

_SIGNS = {"lpm": "/", "ternary": "&&&", "range": "->"}
_PARTS = {
    "lpm": "a value and the length of its prefix, like 10.0.1.0/24",
    "ternary": "a value and a mask, like 0x800&&&0xffff",
    "range": "the least and the greatest value, like 1->9",
}
_TOLD = {"lpm": "LPM"}
_OPTIONAL = p4info_pb2.MatchField.OPTIONAL


MOST_NUMBER = (1 << 32) - 1
"""The greatest handle, group, session or port."""


def whole_number(text: str, what: str, most: int = MOST_NUMBER) -> int:
    """Return a word as a whole number from 0 on."""
    try:
        number = read_value(text, 0, what)
    except InputError:
        number = None
    if number is None or number > most:
        raise CommandError(
            f"Error: Bad format for {what}, expected integer: {shown(text)} is no whole number "
            f"from 0 to {most}"
        )
    return number


def value_bytes(number: int, width: int) -> bytes:
    """Return a value of ``width`` bits as BMv2 keeps it, in whole bytes."""
    return number.to_bytes(max((width + 7) // 8, (number.bit_length() + 7) // 8, 1), "big")


def colons(value: bytes) -> str:
    """Return bytes as they are told when something is added: 0a:00:01:00."""
    return value.hex(":")


def read_parameter(text: str, width: int, what: str) -> bytes:
    """Return the value of an action's parameter."""
    try:
        return _read(text, width, what)
    except InputError as error:
        raise CommandError(f"Invalid runtime data: Error while parsing {error}") from None


def _read(text: str, width: int, what: str) -> bytes:
    if not width:  # of a type that is translated: a text
        return text.encode()
    return value_bytes(read_value(text, width, what), width)


@dataclass(frozen=True)
class WrittenKey:
    """What an entry is to match in one field of its key, as a command has it."""

    field: KeyField
    value: bytes
    other: bytes = b""
    """The mask, or the upper end of a range."""
    prefix: int = 0

    def told(self) -> str:
        """Return the key as it is told when an entry is added."""
        parts = {
            "lpm": f"{colons(self.value)}/{self.prefix}",
            "ternary": f"{colons(self.value)} &&& {colons(self.other)}",
            "range": f"{colons(self.value)} -> {colons(self.other)}",
        }
        kind = self.field.kind
        return f"{kind.upper()}-{parts.get(kind, colons(self.value))}"

    def dumped(self) -> str:
        """Return the key as it is told when an entry is shown."""
        parts = {
            "lpm": f"{self.value.hex()}/{self.prefix}",
            "ternary": f"{self.value.hex()} &&& {self.other.hex()}",
            "range": f"{self.value.hex()} -> {self.other.hex()}",
        }
        return parts.get(self.field.kind, self.value.hex())

    def key(self) -> Key | None:
        """Return the key in P4Runtime's form, in which what does not matter is 0; None for
        anything."""
        value, other = int.from_bytes(self.value, "big"), int.from_bytes(self.other, "big")
        ones = (1 << self.field.width) - 1
        match self.field.kind:
            case "lpm":
                mask = ones ^ (ones >> self.prefix)
                return Lpm(value & mask, self.prefix) if self.prefix else None
            case "range":
                return None if (value, other) == (0, ones) else Range(value, other)
            case "ternary" if self.field.info.match_type == _OPTIONAL:
                if other not in (0, ones):
                    raise CommandError(
                        f"Invalid match key: {self.field.label} is optional: its mask is 0 or "
                        f"{ones:#x}, not {other:#x}"
                    )
                return Exact(value) if other else None
            case "ternary":
                return Ternary(value & other, other) if other else None
        return Exact(value)


def read_keys(table: str, fields: Sequence[KeyField], words: Sequence[str]) -> list[WrittenKey]:
    """Return the keys that a command has, a word for each field."""
    if len(words) != len(fields):
        kinds = ", ".join(f"{field.label} ({field.kind})" for field in fields)
        raise CommandError(
            f"Error: Table {table} needs {len(fields)} key fields, not {len(words)}: "
            f"{kinds or 'none'}"
        )
    return [_read_key(field, word) for field, word in zip(fields, words, strict=True)]


def _read_key(field: KeyField, word: str) -> WrittenKey:
    what, kind = field.label, field.kind
    try:
        if kind == "exact":
            flags = {"true": "1", "True": "1", "false": "0", "False": "0"}
            text = flags.get(word, word) if field.width == 1 else word
            return WrittenKey(field, _read(text, field.width, what))
        first, sign, second = word.partition(_SIGNS[kind])
        if not sign:
            raise CommandError(
                f"Invalid match key: Invalid {_TOLD.get(kind, kind)} value {word}, use "
                f"{_SIGNS[kind]!r}: "
                f"{what} takes {_PARTS[kind]}"
            )
        value = _read(first, field.width, what)
        if kind == "lpm":
            return WrittenKey(field, value, prefix=_prefix(second, field))
        key = WrittenKey(field, value, _read(second, field.width, what))
    except CommandError:
        raise
    except InputError as error:
        raise CommandError(f"Invalid match key: Error while parsing {word} - {error}") from None
    if kind == "range" and key.value > key.other:
        raise CommandError(
            f"Invalid match key: {what}: {word} is empty: its ends are the wrong way round"
        )
    return key


def _prefix(text: str, field: KeyField) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and int(text) <= field.width):
        raise CommandError(
            f"Invalid match key: {field.label}: {text!r} is no length of a prefix of "
            f"{field.width} bits, 0 to {field.width}"
        )
    return int(text)


def fill_keys(keys: Sequence[WrittenKey], message: Any) -> None:
    """Fill the match of an empty ``TableEntry``."""
    for written in keys:
        field, key = written.field, written.key()
        if not field.width:
            match = message.match.add(field_id=field.info.id)
            getattr(
                match, "optional" if field.info.match_type == _OPTIONAL else "exact"
            ).value = written.value
        elif key is not None:
            fill_match(field.label, key, field.info, message.match.add())


def keys_of(fields: Sequence[KeyField], message: Any) -> list[WrittenKey]:
    """Return what a ``TableEntry`` matches, by fields."""
    given = {match.field_id: match for match in message.match}
    return [_key_of(field, given.get(field.info.id)) for field in fields]


def _key_of(field: KeyField, match: Any | None) -> WrittenKey:
    width = field.width

    def padded(value: bytes) -> bytes:
        return value_bytes(int.from_bytes(value, "big"), width) if width else value

    zero, ones = padded(b""), value_bytes((1 << width) - 1, width)
    if match is None:
        return WrittenKey(field, zero, ones if field.kind == "range" else zero)
    match match.WhichOneof("field_match_type"):
        case "lpm":
            return WrittenKey(field, padded(match.lpm.value), prefix=match.lpm.prefix_len)
        case "ternary":
            return WrittenKey(field, padded(match.ternary.value), padded(match.ternary.mask))
        case "range":
            return WrittenKey(field, padded(match.range.low), padded(match.range.high))
        case kind:
            return WrittenKey(field, padded(getattr(match, kind).value), ones)


def parameters_of(action: Any, message: Any) -> list[bytes]:
    """Return the values of an action's parameters in a ``p4.v1.Action``, without zeros in front, as
    BMv2 keeps them."""
    given = {param.param_id: param.value for param in message.params}
    return [given.get(param.id, b"").lstrip(b"\0") or b"\0" for param in action.params]


def read_parameters(action: Any, words: Sequence[str]) -> list[bytes]:
    """Return the values of an action's parameters that a command has."""
    if len(words) != len(action.params):
        widths = ", ".join(f"{param.name} ({param.bitwidth} bits)" for param in action.params)
        raise CommandError(
            f"Error: Action {action.preamble.name} needs {len(action.params)} parameters, not "
            f"{len(words)}: {widths or 'none'}"
        )
    return [
        read_parameter(word, param.bitwidth, param.name)
        for word, param in zip(words, action.params, strict=True)
    ]


def fill_action(action: Any, values: Sequence[bytes], message: Any) -> None:
    """Fill an empty ``p4.v1.Action``."""
    message.action_id = action.preamble.id
    for param, value in zip(action.params, values, strict=True):
        shortest = encode(int.from_bytes(value, "big")) if param.bitwidth else value
        message.params.add(param_id=param.id, value=shortest)
