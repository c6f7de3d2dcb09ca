"""Lowering of the declarations of variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.switch.compiler import syntax
from weft.switch.compiler.lower.assignments import Assigner
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.lower.storage import Place
from weft.switch.compiler.lower.values import Environment
from weft.switch.compiler.lower.writer import CodeWriter


@dataclass(eq=False)
class VariableLowering:
    """Gives variables their places and first values."""

    writer: CodeWriter
    assigner: Assigner
    expressions: ExpressionLowering

    def place(self, node: syntax.Variable, env: Environment) -> Place:
        """Bind a variable to its place: one for each instance of the block that it is in."""
        assert node.type is not None
        variables = self.writer.shared.variables
        key = (id(node), id(env.owner()))
        place = variables.get(key)
        if place is None:
            prefix = f"{env.path}." if env.path else ""
            place = variables[key] = self.writer.temporary(node.type, prefix + node.name)
        env.bind(node, place)
        return place

    def declare(self, node: syntax.Variable, env: Environment) -> None:
        """Bind a variable, and let it begin with its value."""
        place = self.place(node, env)
        if node.initializer is None:
            self.assigner.invalidate(place)
        else:
            self.assigner.assign(place, self.expressions.value(node.initializer, env), node)

    def declare_all(self, nodes: Sequence[syntax.Node], env: Environment) -> None:
        """Declare those variables that are among the declarations of a parser or control."""
        for node in nodes:
            if isinstance(node, syntax.Variable):
                self.declare(node, env)
