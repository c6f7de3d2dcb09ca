"""All that lowers the code of one kind of block, put together.

Expressions have calls in them and calls have statements, so what lowers one is handed what lowers
the other here.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.switch.compiler import syntax
from weft.switch.compiler.lower.calls import CallLowering
from weft.switch.compiler.lower.expressions import ExpressionLowering, NumberLists, VariableLowering
from weft.switch.compiler.lower.externs import ExternLowering
from weft.switch.compiler.lower.instances import Applier, InstanceLowering
from weft.switch.compiler.lower.places import Assigner, PlaceReader
from weft.switch.compiler.lower.shared import CodeWriter, Shared
from weft.switch.compiler.lower.statements import StatementLowering
from weft.switch.compiler.lower.storage import Environment, Value
from weft.switch.compiler.lower.tables import TableLowering


class BodyLowering:
    """The parts that lower parsers, controls, or the lists that other controls are.

    `context` is control or parser; `apply_parser` lowers the application of a parser.
    """

    def __init__(
        self, shared: Shared, context: str = "control",
        apply_parser: Callable[[syntax.Call, Environment], None] | None = None,
    ) -> None:  # fmt: skip
        self.writer = writer = CodeWriter(shared, context)
        self.assigner = Assigner(writer, PlaceReader(writer))
        self.expressions = ExpressionLowering(writer, self.assigner, self)
        self.numbers = NumberLists(writer, self.assigner, self.expressions)
        self.externs = ExternLowering(writer, self.assigner, self.expressions, self.numbers)
        self.calls = CallLowering(
            writer, self.assigner, self.expressions, self.externs, self._statements,
            {
                "table": lambda node, env: self.tables.apply(node, env),
                "control": lambda node, env: self.blocks.apply_control(node, env),
                "parser": apply_parser or self._no_parser,
            },
        )  # fmt: skip
        self.instances = InstanceLowering(writer, self.expressions)
        self.tables = TableLowering(
            writer, self.assigner, self.expressions, self.calls, self.instances
        )
        self.variables = VariableLowering(writer, self.assigner, self.expressions)
        self.blocks = Applier(writer, self.expressions, self.variables, self.calls, self.instances)
        self.statements = StatementLowering(
            writer, self.assigner, self.expressions, self.variables, self.calls, self.tables
        )

    def call_value(self, node: syntax.Call, env: Environment) -> Value:
        """The value that a call inside an expression gives."""
        return self.calls.value(node, env)

    def table_result(self, call: syntax.Call, name: str, env: Environment) -> Value:
        """``t.apply().hit`` or ``.miss`` inside an expression."""
        return self.tables.result(call, name, env)

    def _statements(self, nodes: list[syntax.Node], env: Environment) -> None:
        self.statements.statements(nodes, env)

    def _no_parser(self, node: syntax.Call, env: Environment) -> None:
        raise self.writer.fail(node, "a parser cannot be applied here")
