"""What all parts of the lowering share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import has_annotation
from weft.switch.compiler.check.scope import CheckContext
from weft.switch.compiler.diagnostics import NOWHERE, Abandon, Reporter, Span
from weft.switch.compiler.lower.storage import (
    Environment,
    FieldPlace,
    HeaderPlace,
    Place,
    Storage,
    full_name,
    inside,
)
from weft.switch.compiler.order import Effects
from weft.switch.compiler.types import Type, header_fields

Result = TypeVar("Result")


class Shared:
    """All parts of the lowering share this: the program that is being built, its storage, and
    counters for names and labels."""

    def __init__(
        self,
        context: CheckContext,
        parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]],
    ) -> None:
        self.context = context
        self.reporter: Reporter = context.reporter
        self.program = ir.LoweredProgram(errors=context.errors)
        self.storage = Storage(self.program)
        self.globals = Environment()
        self.parse_annotation = parse_annotation
        self.pipeline = ""  # whose control is lowered, like ingress
        self.places: dict[int, int] = {}  # of each declaration among those of its block
        self.effects = Effects()
        self.labels = count(1)
        self.calls = 0
        self.conditions = count()
        self.generated_names: set[str] = set()
        self.variables: dict[tuple[int, int], Place] = {}
        self.global_declarations = {id(symbol) for symbol in context.globals.symbols.values()}

    def allocate(self, name: str, kind: Type, span: Span, shown: Type) -> Place:
        """Return a new place; report an error where the type cannot be stored, which the message
        shows as `shown`."""
        try:
            return self.storage.allocate(name, kind)
        except KeyError as problem:
            raise self.reporter.fail(
                span, f"not supported: a value of type {problem.args[0]} in {shown}"
            ) from None

    def fields_in(self, place: Place) -> list[ir.HeaderField]:
        """Return the fields of a place, with those that say which of its headers are valid."""
        match place:
            case FieldPlace():
                return [place.field]
            case HeaderPlace():
                names = [*(name for name, _ in header_fields(place.type)), "$valid$"]
                return [ir.HeaderField(place.name, name) for name in names]
        return [field for part in inside(place) for field in self.fields_in(part)]

    def note_places(self, program: syntax.SourceProgram) -> None:
        """Remember in which order everything is declared."""
        for place, node in enumerate(program.declarations):
            self.places[id(node)] = place
            if isinstance(node, (syntax.ParserDeclaration, syntax.ControlDeclaration)):
                for inner, item in enumerate(node.locals):
                    self.places[id(item)] = inner

    def order(
        self, declaration: syntax.SyntaxNode | None, environment: Environment
    ) -> tuple[int, ...]:
        """Return the place of something that is declared in the block of an environment."""
        return (*environment.order, self.places.get(id(declaration), len(self.places)))

    def is_global(self, declaration: syntax.SyntaxNode) -> bool:
        """Return whether something is declared outside of all blocks."""
        return id(declaration) in self.global_declarations

    def note_called(self, declaration: syntax.ActionDeclaration, owner: Environment) -> None:
        """Note an action that a control calls directly: it is in P4Info, with nothing to be given
        to it.

        One that only other actions call is not; it is in line there.
        """
        called = self.program.called_actions
        model = self.action(declaration, owner)
        if all(item.name != model.name or item.span != model.span for item in called):
            if model.is_global:
                model.order = (*owner.order[:2], -1, 1, len(called))
            called.append(model)

    def action(self, declaration: syntax.ActionDeclaration, owner: Environment) -> ir.LoweredAction:
        """Return an action of the control plane, which is declared in a block or outside of all."""
        is_global = self.is_global(declaration)
        name = full_name("" if is_global else owner.path, declaration)
        model = ir.LoweredAction(
            name, declaration.annotations, declaration.span, is_global=is_global
        )
        model.hidden = has_annotation(declaration.annotations, "hidden")
        model.order = self.order(declaration, owner)
        return model


@dataclass(eq=False)
class CodeWriter:
    """A writer collects code. `context` tells what it is the code of: control, action or parser."""

    shared: Shared
    context: str
    code: list[ir.Code] = field(default_factory=list, init=False)
    span: Span = field(default=NOWHERE, init=False)  # of the statement that is being lowered

    def do(self, operation: str, *operands: ir.LoweredExpression) -> None:
        """Add a primitive, or an operation of a parser."""
        self.code.append(ir.Do(operation, operands, self.span))

    def apart(self, evaluate: Callable[[], Result]) -> tuple[Result, list[ir.Code]]:
        """Return what an evaluation gives, and the code that it takes, which is not emitted."""
        before, self.code = self.code, []
        try:
            return evaluate(), self.code
        finally:
            self.code = before

    def captured(self, action: Callable[[], object]) -> list[ir.Code]:
        """Return the code that `action` emits."""
        return self.apart(action)[1]

    def temporary(self, kind: Type, name: str = "tmp") -> Place:
        """Return a new place; report an error where the type cannot be stored."""
        return self.shared.allocate(name, kind, self.span, kind)

    def temporary_field(self, kind: Type, name: str = "tmp") -> FieldPlace:
        """Return a new place for a value of a type that one field holds."""
        place = self.temporary(kind, name)
        assert isinstance(place, FieldPlace)
        return place

    def fail_if(self, wrong: object, node: syntax.SyntaxNode, message: str) -> None:
        """Report an error and raise `Abandon` if something is wrong."""
        self.shared.reporter.fail_if(wrong, node.span, message)

    def fail(self, node: syntax.SyntaxNode, message: str) -> Abandon:
        """Report an error and return the exception to raise."""
        return self.shared.reporter.fail(node.span, message)
