"""``P4Data``: values of registers and digests by their ``P4DataTypeSpec``.

P4Runtime specification, section "Representation of Arbitrary P4 Types". The engine knows plain
words only; a struct, tuple or header is its fields one after the other.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from weft.base.errors import refuse
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.p4info_objects import MOST_BITS
from weft.switch.p4runtime.refusals import invalid, unimplemented

MOST_DEPTH = 16
"""The most levels of types within types; a P4Info may have types that contain themselves."""


def encode_data(spec: Any, types: Any, words: Iterator[int], message: Any, depth: int = 0) -> None:
    """Fill a ``P4Data`` with the next of ``words``, unsigned numbers as the data plane has them.

    ``types`` is P4Info's ``type_info``. Raises Refusal (UNIMPLEMENTED) for types that the data
    plane has no words for.
    """
    _check_depth(depth)
    kind = spec.WhichOneof("type_spec")
    match kind:
        case "bitstring":
            message.bitstring = _encode_bits(spec.bitstring, next(words))
        case "bool":
            message.bool = bool(next(words))
        case "tuple" | "struct":
            filled = getattr(message, kind)
            filled.SetInParent()
            for member in _members(spec, types):
                encode_data(member, types, words, filled.members.add(), depth + 1)
        case "header":
            message.header.is_valid = True
            for member in _named(types.headers, spec.header.name).members:
                message.header.bitstrings.append(_encode_bits(member.type_spec, next(words)))
        case "serializable_enum":
            message.enum_value = bytestrings.encode(next(words))
        case "new_type":
            original = _original(types, spec.new_type.name)
            if original is None:
                message.bitstring = bytestrings.encode(next(words))
            else:
                encode_data(original, types, words, message, depth + 1)
        case "enum" | "error":
            setattr(message, kind, _member(spec, kind, types, next(words)))
        case _:
            raise unimplemented(f"data of type {kind or 'none'} is not supported")


def decode_data(spec: Any, types: Any, message: Any, what: str, depth: int = 0) -> int:
    """Return the number that a ``P4Data`` is, unsigned as in the data plane: of a struct or tuple
    its members' bits, the first one highest.

    Raises Refusal: INVALID_ARGUMENT if it is of another type, OUT_OF_RANGE, UNIMPLEMENTED.
    """
    _check_depth(depth)
    kind = spec.WhichOneof("type_spec")
    if kind == "new_type":
        original = _original(types, spec.new_type.name)
        if original is None:
            return _decode_translated(spec.new_type.name, types, message, what)
        return decode_data(original, types, message, what, depth + 1)
    given = message.WhichOneof("data")
    wanted = "enum_value" if kind == "serializable_enum" else kind
    if kind not in ("bitstring", "bool", "serializable_enum", "struct", "tuple"):
        raise unimplemented(f"{what}: data of type {kind or 'none'} is not supported")
    if given != wanted:
        raise invalid(f"{what}: takes a {wanted}, not {given or 'nothing'}")
    if kind == "bool":
        return int(message.bool)
    if kind in ("struct", "tuple"):
        members, values = _members(spec, types), getattr(message, kind).members
        refuse(
            len(values) != len(members),
            f"{what}: takes a {kind} of {len(members)} members, not {len(values)}",
            invalid,
        )
        result = 0
        for member, value in zip(members, values, strict=True):
            result <<= sum(widths(member, types, depth + 1))
            result |= decode_data(member, types, value, what, depth + 1)
        return result
    if kind == "serializable_enum":
        enum = _named(types.serializable_enums, spec.serializable_enum.name)
        return bytestrings.decode(message.enum_value, _width(enum.underlying_type), what)
    bits = spec.bitstring
    if bits.WhichOneof("type_spec") == "int":
        return bytestrings.decode_signed(message.bitstring, _width(bits.int), what)
    return bytestrings.decode(message.bitstring, _width(bits.bit), what)


def _decode_translated(name: str, types: Any, message: Any, what: str) -> int:
    """Return the number in the bitstring of a translated type; the data plane has the same one."""
    width = types.new_types[name].translated_type.sdn_bitwidth
    if not 0 < width <= MOST_BITS:
        raise unimplemented(f"{what}: type {name} is translated, but not to a bit<W>")
    if message.WhichOneof("data") != "bitstring":
        raise invalid(f"{what}: takes a bitstring, not {message.WhichOneof('data') or 'nothing'}")
    return bytestrings.decode(message.bitstring, width, what)


def _width(spec: Any) -> int:
    """Return the bits of a ``bit<W>`` or ``int<W>`` in a P4Info."""
    if not 0 < spec.bitwidth <= MOST_BITS:
        raise invalid(f"P4Info: bit width {spec.bitwidth}; it is 1 to {MOST_BITS}")
    return int(spec.bitwidth)


def widths(spec: Any, types: Any, depth: int = 0) -> list[int]:
    """Return the bits of each number that a type consists of, as a register's cell holds them.

    Raises Refusal: UNIMPLEMENTED for types that no cell can hold, INVALID_ARGUMENT for wrong ones.
    """
    found = list(islice(_widths(spec, types, depth), MOST_BITS + 1))
    refuse(sum(found) > MOST_BITS or len(found) > MOST_BITS, "P4Info: a type is too wide", invalid)
    return list(filter(None, found))


def _widths(spec: Any, types: Any, depth: int) -> Iterator[int]:
    _check_depth(depth)
    kind = spec.WhichOneof("type_spec")
    bits = spec.bitstring.WhichOneof("type_spec")
    if kind == "new_type" and (original := _original(types, spec.new_type.name)) is not None:
        yield from _widths(original, types, depth + 1)
    elif kind == "new_type":
        yield types.new_types[spec.new_type.name].translated_type.sdn_bitwidth
    elif bits in ("bit", "int"):
        yield _width(getattr(spec.bitstring, bits))
    elif kind in ("struct", "tuple"):
        yield 0  # so that those of nothing count
        for member in _members(spec, types):
            yield from _widths(member, types, depth + 1)
    elif kind == "serializable_enum":
        enum = _named(types.serializable_enums, spec.serializable_enum.name)
        yield _width(enum.underlying_type)
    elif kind == "bool":
        yield 1
    else:
        raise unimplemented(f"cells of type {kind or 'none'} are not supported")


def words_of(number: int, spec: Any, types: Any) -> Iterator[int]:
    """Return the words that a cell consists of."""
    words: list[int] = []
    for width in reversed(widths(spec, types)):
        words.append(number & ((1 << width) - 1))
        number >>= width
    return reversed(words)


def _members(spec: Any, types: Any) -> list[Any]:
    """Return the types of the members of a tuple or struct."""
    if spec.WhichOneof("type_spec") == "tuple":
        return list(spec.tuple.members)
    return [member.type_spec for member in _named(types.structs, spec.struct.name).members]


def _check_depth(depth: int) -> None:
    refuse(depth > MOST_DEPTH, f"P4Info: a type within more than {MOST_DEPTH} others", invalid)


def _encode_bits(spec: Any, word: int) -> bytes:
    if spec.WhichOneof("type_spec") == "int":
        return bytestrings.encode_signed(word, _width(spec.int))
    return bytestrings.encode(word)


def _named(known: Any, name: str) -> Any:
    if name not in known:
        raise invalid(f"P4Info: type_info has no type {name!r}")
    return known[name]


def _original(types: Any, name: str) -> Any | None:
    """Return what a new type is made of; None if it is translated, and so reads as its number."""
    spec = _named(types.new_types, name)
    return spec.original_type if spec.WhichOneof("representation") == "original_type" else None


def _member(spec: Any, kind: str, types: Any, word: int) -> str:
    """Return the name of a member of an enum or error, which the data plane numbers from 0."""
    members = (
        list(types.error.members)
        if kind == "error"
        else [member.name for member in _named(types.enums, spec.enum.name).members]
    )
    return str(members[word]) if word < len(members) else str(word)
