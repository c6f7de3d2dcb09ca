"""Where the code goes that a parser, a control or an action is lowered to."""

from __future__ import annotations

from collections.abc import Callable

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.diagnostics import NOWHERE, Abandon, Span
from weft.switch.compiler.lower.shared import Shared
from weft.switch.compiler.lower.storage import FieldPlace, Place
from weft.switch.compiler.types import Type


class CodeWriter:
    """Collects code. `context` says of what: control, action or parser."""

    def __init__(self, shared: Shared, context: str) -> None:
        self.shared = shared
        self.context = context
        self.code: list[ir.Code] = []
        self.span: Span = NOWHERE  # of the statement that is being lowered

    def do(self, operation: str, *operands: ir.Expression) -> None:
        self.code.append(ir.Do(operation, operands, self.span))

    def captured(self, action: Callable[[], object]) -> list[ir.Code]:
        """The code that `action` emits."""
        before, self.code = self.code, []
        try:
            action()
            return self.code
        finally:
            self.code = before

    def temporary(self, kind: Type, name: str = "tmp") -> Place:
        """A new place; an error where the type cannot be stored."""
        try:
            return self.shared.storage.allocate(name, kind)
        except KeyError as problem:
            raise self.shared.reporter.fail(
                self.span, f"not supported: a value of type {problem.args[0]} in {kind}"
            ) from None

    def temporary_field(self, kind: Type, name: str = "tmp") -> FieldPlace:
        """A new place for a value of a type that one field holds."""
        place = self.temporary(kind, name)
        assert isinstance(place, FieldPlace)
        return place

    def fail_if(self, wrong: object, node: syntax.Node, message: str) -> None:
        self.shared.reporter.fail_if(wrong, node.span, message)

    def fail(self, node: syntax.Node, message: str) -> Abandon:
        return self.shared.reporter.fail(node.span, message)
