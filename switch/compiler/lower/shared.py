"""What all parts of the lowering share."""

from __future__ import annotations

from collections.abc import Callable

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import has_annotation
from weft.switch.compiler.check.scope import Context
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.lower.storage import Place, Storage
from weft.switch.compiler.lower.values import Environment, full_name
from weft.switch.compiler.order import Effects


class Shared:
    """The program that is being built, its storage, and counters for names and labels."""

    def __init__(
        self,
        context: Context,
        parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]],
    ) -> None:
        self.context = context
        self.reporter: Reporter = context.reporter
        self.program = ir.Program(errors=context.errors)
        self.storage = Storage(self.program)
        self.globals = Environment()
        self.parse_annotation = parse_annotation
        self.pipeline = ""  # whose control is lowered: ingress, egress
        self.places: dict[int, int] = {}  # of each declaration among those of its block
        self.effects = Effects()
        self._labels = 0
        self.calls = 0
        self.conditions = 0
        self.generated_names: set[str] = set()
        self.kept_fields: list[tuple[ir.Field, set[int]]] = []  # of @field_list, with the indices
        self.variables: dict[tuple[int, int], Place] = {}
        self.global_declarations = {id(symbol) for symbol in context.globals.symbols.values()}

    def note_places(self, program: syntax.Program) -> None:
        """Remember in which order everything is declared."""
        for place, node in enumerate(program.declarations):
            self.places[id(node)] = place
            if isinstance(node, (syntax.Parser, syntax.Control)):
                for inner, item in enumerate(node.locals):
                    self.places[id(item)] = inner

    def order(self, declaration: syntax.Node | None, environment: Environment) -> tuple[int, ...]:
        """The place of something that is declared in the block of an environment."""
        last = len(self.places)
        return (*environment.order, self.places.get(id(declaration), last))

    def label(self) -> int:
        self._labels += 1
        return self._labels

    def is_global(self, declaration: syntax.Node) -> bool:
        return id(declaration) in self.global_declarations

    def field_list(self, index: int) -> list[ir.Field]:
        """The fields of the user's metadata that are annotated ``@field_list(index)``."""
        return [field for field, indices in self.kept_fields if index in indices]

    def note_called(self, declaration: syntax.Action, owner: Environment) -> None:
        """An action that a control calls directly is in P4Info too, with nothing to be given to it.

        One that only other actions call is not: it is in line there.
        """
        called = self.program.called_actions
        model = self.action(declaration, owner)
        if all(item.name != model.name or item.span != model.span for item in called):
            if model.is_global:
                model.order = (*owner.order[:2], -1, 1, len(called))
            called.append(model)

    def action(self, declaration: syntax.Action, owner: Environment) -> ir.Action:
        """An action of the control plane, which is declared in a block or outside of all."""
        is_global = self.is_global(declaration)
        name = full_name("" if is_global else owner.path, declaration)
        model = ir.Action(name, declaration.annotations, declaration.span, is_global=is_global)
        model.hidden = has_annotation(declaration.annotations, "hidden")
        model.order = self.order(declaration, owner)
        return model


def unique(name: str, taken: set[str]) -> str:
    """A name that is not taken yet, and is from now on: this one, or one with a number."""
    candidate, count = name, 0
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    taken.add(candidate)
    return candidate
