"""Source for fields of variable length (varbit): extraction, deparsing, assignment.

BMv2 takes lengths of whole bytes only, so what follows a varbit field begins at a bit of a byte
that is known in advance.
"""

from collections.abc import Callable, Sequence

from weft.switch.engine.codegen.source import pack
from weft.switch.engine.codegen.values import Value
from weft.switch.engine.program.headers import Field, Header

Piece = tuple[str, int, bool] | Field
"""What is written to bytes: (source, width, may be negative), or a varbit field."""

NameOf = Callable[[Field], str]


def field_pieces(fields: Sequence[Field], name_of: NameOf) -> list[Piece]:
    """Return fields in the PHV as pieces of at most 64 bits."""
    pieces: list[Piece] = []
    for field in fields:
        if field.varbit:
            pieces.append(field)
        else:
            pieces += [(f"phv[{name_of(part)}]", part.width, part.signed) for part in field.parts]
    return pieces


def width_of(piece: Piece) -> int:
    """Return a piece's bits; of a varbit field the most that it may have."""
    return piece.width if isinstance(piece, Field) else piece[1]


def whole_bytes(pieces: Sequence[Piece]) -> bool:
    """Return whether pieces are whole bytes together."""
    return sum(piece[1] for piece in pieces if not isinstance(piece, Field)) % 8 == 0


def length_name(field: Field, name_of: NameOf) -> str:
    """Return the constant that names the place of a varbit's length."""
    return name_of(field.parts[-1])


def write_pieces(data: str, pieces: Sequence[Piece], name_of: NameOf) -> list[str]:
    """Return statements that write pieces one behind the other at ``data[at]``, and leave ``at``
    behind.

    They are whole bytes together. Up to 8 bytes behind them are overwritten.
    """
    lines: list[str] = []
    run: list[tuple[str, int, bool]] = []
    skip = 0

    def flush() -> None:
        nonlocal skip
        before = [(f"({data}[at] >> {8 - skip})", skip, False)] if skip else []
        for position, word in enumerate(pack(before + run)):
            place = f"at + {position * 8}" if position else "at"
            lines.append(f"store64({data}, {place}, {word})")
        total = skip + sum(width for _, width, _ in run)
        lines.append(f"at += {total // 8}")
        skip = total % 8
        run.clear()

    for piece in pieces:
        if isinstance(piece, Field):
            if run:
                flush()
            length = f"phv[{length_name(piece, name_of)}]"
            lines += [
                f"write_varbit({data}, at, {skip}, phv, {name_of(piece)}, {length})",
                f"at += {length} >> 3",
            ]
        else:
            run.append(piece)
    if run or not lines:
        flush()
    return lines


def bit_lines(data: str, pieces: Sequence[Piece], name_of: NameOf) -> list[str]:
    """Return statements that write pieces at any ``bit`` of zeroed bytes, and leave ``bit``
    behind."""
    lines = []
    for piece in pieces:
        if isinstance(piece, Field):
            length = f"phv[{length_name(piece, name_of)}]"
            lines.append(f"bit = put_varbit({data}, bit, phv, {name_of(piece)}, {length})")
        else:
            lines += [f"put_bits({data}, bit, {piece[0]}, {piece[1]})", f"bit += {piece[1]}"]
    return lines


def size_source(header: Header, name_of: NameOf) -> str:
    """Return the source of a header's size in bytes."""
    fixed = str(header.bits // 8)
    if header.varbit is None:
        return fixed
    return f"{fixed} + (phv[{length_name(header.varbit, name_of)}] >> 3)"


def copy_lines(target: Field, place: str, source: Field, origin: str) -> list[str]:
    """Return statements that copy a varbit field, its length included, to another one."""
    lines = [
        f"phv[{place} + {i}] = " + (f"phv[{origin} + {i}]" if i < source.data_words else "0")
        for i in range(target.data_words)
    ]
    length = f"phv[{origin} + {source.data_words}]"
    if source.width > target.width:
        length = f"min({length}, {target.width})"
    return [*lines, f"phv[{place} + {target.data_words}] = {length}"]


def store_varbit(field: Field, place: str, value: Value) -> str:
    """Return the statement that sets the bits of a varbit field; its length stays."""
    count = field.data_words
    amount = f"{64 * count} - phv[{place} + {count}]"
    if count == 1:
        return f"phv[{place}] = word64(shift_left({value.source}, {amount}))"
    shifted = f"wide_shift_left({value.at(count)}, {amount})"
    return f"wide_store(phv, {place}, {shifted}, W{count})"
