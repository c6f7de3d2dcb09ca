"""Values as lists of numbers: what hashes, checksums, digests and selects take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.lower.assignments import Assigner
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.lower.storage import HeaderPlace, StructPlace, UnionPlace, header_members
from weft.switch.compiler.lower.values import Composite, Environment, Value
from weft.switch.compiler.lower.writer import CodeWriter
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BitType,
    IntegerType,
    Type,
    member_types,
    resolved,
    scalar_width,
)

Numbers = list[tuple[ir.Expression, int]]
"""Numbers with their widths in bits."""


@dataclass(eq=False)
class NumberLists:
    """Takes values apart into numbers."""

    writer: CodeWriter
    assigner: Assigner
    expressions: ExpressionLowering

    def of(self, node: syntax.Expression, env: Environment) -> Numbers:
        """The numbers that the value of an expression consists of, in order."""
        return self._numbers(self.expressions.value(node, env), type_of(node), node)

    def _numbers(self, value: Value, kind: Type, node: syntax.Node) -> Numbers:
        if isinstance(value, (StructPlace, Composite, UnionPlace, HeaderPlace)):
            members: Mapping[str, Value] = (
                header_members(value) if isinstance(value, HeaderPlace) else value.members
            )
            types = member_types(kind)
            return [
                number
                for member, member_type in zip(members.values(), types.values(), strict=True)
                for number in self._numbers(member, member_type, node)
            ]
        width = scalar_width(kind)
        if isinstance(resolved(kind), IntegerType) or width is None:
            raise self.writer.fail(node, f"a value of type {kind} has no width here")
        number = arithmetic.number(self.expressions.places.expression_of(value, node))
        if self.writer.shared.storage.stored_width(number) not in (None, width):
            # A field that was cast to a greater width: BMv2 would take it as it is.
            number = ir.OperatorCall("&", number, ir.Number(arithmetic.mask_of(width)))
        return [(number, width)]

    def stored(self, items: Numbers, node: syntax.Node) -> Numbers:
        """The same with each item that is neither a field nor a constant put into a field."""
        plain = (ir.Field, ir.Number)
        return [
            (item, width) if isinstance(item, plain) else (self.field(item, width, node), width)
            for item, width in items
        ]

    def field(self, value: ir.Expression, width: int, node: syntax.Node) -> ir.Field:
        """A field that holds a number."""
        place = self.writer.temporary_field(BitType(width))
        self.assigner.assign(place, value, node)
        return place.field
