"""What a call refers to, as the checker finds."""

from dataclasses import dataclass, field

from weft.switch.compiler.syntax.expressions import Expression, SyntaxNode
from weft.switch.compiler.syntax.variables import Parameter
from weft.switch.compiler.types import VOID, Bindings, Type


@dataclass
class Target:
    """A target tells what a call refers to.

    `kind` is one of: action, function, extern_function, extern_method, table, parser, control,
    builtin (of headers and stacks), constructor (of an extern, parser, control or package).
    `parameters` and `arguments` go together; an argument that was left out or is ``_`` is None.
    `base` is the object that a method is called on.
    """

    kind: str
    name: str
    declaration: SyntaxNode | None = None
    base: Expression | None = None
    parameters: list[Parameter] = field(default_factory=list)
    parameter_types: list[Type] = field(default_factory=list)
    arguments: list[Expression | None] = field(default_factory=list)
    returns: Type = VOID
    bindings: Bindings = field(default_factory=dict)

    def argument(self, name: str) -> Expression:
        """Return the argument for a parameter; raises KeyError if none was given."""
        pairs = zip(self.parameters, self.arguments, strict=True)
        return {one.name: argument for one, argument in pairs if argument is not None}[name]
