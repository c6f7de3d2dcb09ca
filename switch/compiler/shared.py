"""What all parts of the lowering share."""

from __future__ import annotations

from collections.abc import Callable

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.order import Effects
from weft.switch.compiler.scope import Context
from weft.switch.compiler.storage import Place, Storage
from weft.switch.compiler.values import Environment


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
