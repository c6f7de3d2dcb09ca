"""All that lowers the code of one kind of block, put together.

Expressions have calls in them and calls have statements, so what lowers one is handed what lowers
the other here.
"""

from collections.abc import Callable

from weft.switch.compiler import syntax
from weft.switch.compiler.lower.calls import CallLowering
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.lower.externs import ExternLowering
from weft.switch.compiler.lower.instances import InstanceLowering
from weft.switch.compiler.lower.shared import CodeWriter, Shared
from weft.switch.compiler.lower.statements import StatementLowering
from weft.switch.compiler.lower.storage import Environment
from weft.switch.compiler.lower.tables import TableLowering


class BodyLowering:
    """The parts that lower parsers, controls, or the lists that other controls are.

    `context` is control or parser; `apply_parser` lowers the application of a parser.
    """

    def __init__(
        self, shared: Shared, context: str = "control",
        apply_parser: Callable[[syntax.Call, Environment], None] | None = None,
    ) -> None:  # fmt: skip
        self.writer = CodeWriter(shared, context)
        self.expressions = ExpressionLowering(
            self.writer,
            lambda call, env: self.calls.value(call, env),
            lambda call, name, env: self.tables.result(call, name, env),
        )
        self.externs = ExternLowering(self.expressions)
        self.calls = CallLowering(
            self.expressions, self.externs,
            lambda nodes, env: self.statements.statements(nodes, env),
            {
                "table": lambda node, env: self.writer.code.append(self.tables.prepare(node, env)),
                "control": lambda node, env: self.instances.apply_control(node, env),
                "parser": apply_parser or self._no_parser,
            },
        )  # fmt: skip
        self.instances = InstanceLowering(self.expressions, self.calls)
        self.tables = TableLowering(self.expressions, self.calls, self.instances)
        self.statements = StatementLowering(self.expressions, self.calls, self.tables)

    def _no_parser(self, node: syntax.Call, env: Environment) -> None:
        raise self.writer.fail(node, "a parser cannot be applied here")
