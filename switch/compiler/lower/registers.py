"""Cells of registers, which are numbers: a struct is its fields' bits, the first one highest."""

from weft.switch.compiler import arithmetic, ir
from weft.switch.compiler.lower.expressions import Numbers
from weft.switch.compiler.lower.storage import Composite, LoweredValue
from weft.switch.compiler.types import (
    BitType,
    EnumType,
    ErrorType,
    StackType,
    StructType,
    TupleType,
    Type,
    base_type,
    is_header_stack,
    is_varbit,
    member_types,
    resolved,
    scalar_width,
    size_in_bits,
)


def fits_cell(kind: Type) -> bool:
    """Return whether a register can hold values of a type."""
    bare = resolved(kind)
    if isinstance(bare, (TupleType, StackType)) or (
        isinstance(bare, StructType) and bare.kind == "struct"
    ):
        members = member_types(bare).values()
        return bool(members) and not is_header_stack(bare) and all(map(fits_cell, members))
    width = scalar_width(bare)
    return bool(width) and not is_varbit(bare) and not isinstance(base_type(bare), ErrorType)


def cell_width(kind: Type | None) -> int:
    """Return the number of bits of a cell."""
    if kind is None:
        return 0
    return size_in_bits(resolved(kind)) or 0


def packed(items: Numbers) -> ir.LoweredExpression:
    """Return the number that the fields of a value make together."""
    if len(items) == 1:
        ((item, width),) = items
        mask = arithmetic.mask_of(width)
        if isinstance(item, ir.Number):
            return ir.Number(item.value & mask)
        return ir.OperatorCall("&", item, ir.Number(mask))
    half = len(items) // 2
    low = ir.Number(sum(width for _, width in items[half:]))
    high = ir.OperatorCall("<<", packed(items[:half]), low)
    return ir.OperatorCall("|", high, packed(items[half:]))


def unpacked(cell: ir.LoweredExpression, kind: Type, low: int = 0) -> LoweredValue:
    """Return the value of a type in a cell, from bit `low` on."""
    bare = resolved(kind)
    if isinstance(bare, (StructType, TupleType, StackType)):
        members: dict[str, LoweredValue] = {}
        for name, item in reversed(member_types(bare).items()):
            members[name] = unpacked(cell, item, low)
            low += size_in_bits(item) or 0
        return Composite(kind, dict(reversed(members.items())))
    width = scalar_width(bare) or 0
    bits = arithmetic.slice_of(cell, low + width - 1, low, BitType(low + width + 1))
    if isinstance(base_type(bare), EnumType):
        return bits
    return arithmetic.cast(bits, BitType(width), bare)
