"""Lowering of a checked program to what BMv2 runs, by the architecture of its package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import has_annotation
from weft.switch.compiler.check.scope import CheckContext
from weft.switch.compiler.diagnostics import NOWHERE, Abandon, Reporter
from weft.switch.compiler.lower.body import BodyLowering
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.lower.externs import ExternLowering
from weft.switch.compiler.lower.lists import ListLowering
from weft.switch.compiler.lower.parsers import ParserLowering
from weft.switch.compiler.lower.pipeline import PipelineBuilder
from weft.switch.compiler.lower.shared import Shared
from weft.switch.compiler.lower.storage import BlockInstance, Environment, LoweredValue
from weft.switch.compiler.types import BlockTypeType, PackageTypeType


class Architecture(ABC):
    """What programs are written for: the blocks of a package, the externs that they call, and what
    becomes of them in the JSON. One is made for each program that is compiled."""

    name: ClassVar[str]
    """In P4Info; ``<name>.p4`` declares the package."""
    package: ClassVar[str]
    """The type of ``main``."""
    roles: ClassVar[Mapping[str, tuple[str, int]]]
    """The package's blocks in their order, each with its kind and the number of its parameters."""
    roles_text: ClassVar[str]
    """The same for a message: "it takes ..."."""
    enums: ClassVar[frozenset[str]] = frozenset()
    """Enums of its own that stand for something else in the JSON."""

    def externs(self, expressions: ExpressionLowering) -> ExternLowering:
        """Return what lowers calls of the externs that programs may use."""
        return ExternLowering(expressions)

    def arguments(self, main: syntax.CallExpression) -> list[syntax.Expression | None]:
        """Return the calls that construct the blocks: those that the package is given. Where it is
        given packages, override this."""
        return list(main.target.arguments)

    @abstractmethod
    def lower(self, package: PackageLowering) -> None:
        """Lower the blocks in their order: what is allocated and declared first comes first in the
        JSON. Errors go to the package's reporter."""


def lower(
    program: syntax.SourceProgram,
    context: CheckContext,
    parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]],
    architectures: Sequence[type[Architecture]],
) -> ir.LoweredProgram:
    """Return the program, lowered by the architecture whose package ``main`` is. Errors go to the
    context's reporter; the result is then incomplete."""
    reporter = context.reporter
    main = context.globals.find("main")
    if not isinstance(main, syntax.Instantiation):
        last = program.declarations[-1].span if program.declarations else NOWHERE
        packages = " or ".join(f"{each.package}(...) main;" for each in architectures)
        raise reporter.fail(last, f"there is no 'main': the program must end with {packages}")
    if main.call is None:
        raise Abandon
    package = main.call.target.name
    found = next((each for each in architectures if each.package == package), None)
    if found is None:
        known = ", ".join(f"{each.package} ({each.name})" for each in architectures)
        raise reporter.fail(
            main.span, f"not supported: the architecture of '{package}'; only {known}"
        )
    architecture = found()
    arguments = architecture.arguments(main.call)
    reporter.fail_if(
        [_shape_of(item) for item in arguments] != [*architecture.roles.values()],
        main.span,
        f"not supported: this {package} is not {found.name}'s: it takes {found.roles_text}; "
        f"include <{found.name}.p4> in place of a package of your own",
    )
    return PackageLowering(
        program, context, parse_annotation, main, architecture, arguments
    ).program()


def _shape_of(argument: syntax.Expression | None) -> tuple[str, int] | None:
    """Return the kind of a block, and the number of its parameters; None for anything else."""
    kind = None if argument is None else argument.type
    if not isinstance(kind, BlockTypeType):
        return None
    return kind.kind, len(kind.declaration.parameters)


class PackageLowering:
    """A package that is being lowered: what its architecture lowers blocks with, and the result."""

    def __init__(
        self,
        program: syntax.SourceProgram,
        context: CheckContext,
        parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]],
        main: syntax.Instantiation,
        architecture: Architecture,
        arguments: list[syntax.Expression | None],
    ) -> None:
        self.tree = program
        self.context = context
        self.reporter: Reporter = context.reporter
        self.shared = Shared(context, parse_annotation)
        self.result = self.shared.program
        self.main = main
        self.architecture = architecture
        self.arguments = arguments
        self.parsers = ParserLowering(self.shared, architecture.externs)
        self.controls = BodyLowering(self.shared, architecture.externs)
        self.lists = ListLowering(self.shared, architecture.externs)

    def program(self) -> ir.LoweredProgram:
        """Lower everything."""
        result = self.result
        self.shared.note_places(self.tree)
        self.architecture.lower(self)
        result.architecture = self.architecture.name
        result.value_sets = [item for item in result.value_sets if item.is_used]
        self.shared.storage.finish()
        for kind, bits in self.shared.storage.uneven:
            self.reporter.error_if(
                kind in self.shared.storage.in_packets,
                kind.declaration.name_span,
                f"not supported: {kind} has {bits} bits, not a multiple of 8 (BMv2)",
            )
        self._place_profiles()
        self._check_direct_objects()
        result.enums = [
            (node.name, [name for name, _ in node.members])
            for node in self.context.enums
            if node.name not in self.architecture.enums
        ]
        result.controller_headers = [
            node
            for node in self.tree.declarations
            if isinstance(node, syntax.Struct)
            and has_annotation(node.annotations, "controller_header")
        ]
        result.package_annotations = self.main.annotations
        return result

    # What architectures call

    def parameters(self, role: str) -> list[syntax.Parameter]:
        """Return the parameters of a block."""
        argument = self.arguments[[*self.architecture.roles].index(role)]
        assert argument is not None and isinstance(argument.type, BlockTypeType)
        return list(argument.type.declaration.parameters)

    @cached_property
    def blocks(self) -> dict[str, BlockInstance]:
        """The instances of the blocks by their roles, made with those that are declared outside of
        all blocks when this is first asked for."""
        self._global_instances()
        made = map(self._instance, self.arguments)
        return dict(zip(self.architecture.roles, made, strict=True))

    def pipeline(self, name: str, role: str, arguments: list[LoweredValue]) -> None:
        """Lower a control with tables to a pipeline, which the JSON calls by a name."""
        self.build(name, self.code(name, role, arguments))

    def code(self, name: str, role: str, arguments: list[LoweredValue]) -> list[ir.Code]:
        """Return the code of a control with tables, which becomes the pipeline of this name."""
        self.shared.pipeline = name
        return self.controls.instances.top_level(self.blocks[role], arguments)

    def build(self, name: str, code: list[ir.Code]) -> None:
        """Make a pipeline of code."""
        if not self.reporter.errors:
            self.result.pipelines.append(PipelineBuilder(self.shared, name).build(code))

    # Instances

    def _global_instances(self) -> None:
        for node in self.tree.declarations:
            if not isinstance(node, syntax.Instantiation) or node is self.main or not node.call:
                continue
            if not isinstance(node.type, PackageTypeType):  # of those only main is run
                self.controls.instances.instantiate(node, self.shared.globals)

    def _instance(self, argument: syntax.Expression | None) -> BlockInstance:
        """Make a block of the package. Its control-plane name is that of its type, as with p4c,
        which takes no heed of a ``@name`` there."""
        assert argument is not None
        call = self.reporter.needed(
            argument,
            syntax.CallExpression,
            argument.span,
            "a parser or control must be instantiated here",
        )
        block = call.target.declaration
        order = len(self.tree.declarations), self.arguments.index(call)
        return self.reporter.needed(
            self.controls.instances.construct(
                call, block.name, None, Environment(self.shared.globals, order=order)
            ),
            BlockInstance,
            call.span,
            "a parser or control is expected here",
        )

    # What remains

    def _table_nodes(self) -> list[tuple[str, ir.LoweredTable]]:
        """Return the tables that packets reach, each with the name of its pipeline."""
        return [
            (pipeline.name, node.table)
            for pipeline in self.result.pipelines
            for node in pipeline.nodes
            if isinstance(node, ir.TableNode)
        ]

    def _place_profiles(self) -> None:
        """Put each action profile into the pipeline of the tables that use it."""
        tables = self._table_nodes()
        first = next((each.name for each in self.result.pipelines), "")
        for pipeline, table in tables:
            profile = table.profile
            if profile is not None:
                used = profile.pipeline
                self.reporter.error_if(
                    used not in ("", pipeline),
                    profile.span,
                    f"'{profile.name}' is used in {used} and in {pipeline} (BMv2 cannot)",
                )
                profile.pipeline = pipeline
        present = {table.name for _, table in tables}
        for profile in self.result.profiles:
            profile.tables = [name for name in profile.tables if name in present]
            profile.pipeline = profile.pipeline or first  # of no table

    def _check_direct_objects(self) -> None:
        """Drop direct counters and meters without a table, and report meters that are not read as
        they must."""
        program, tables = self.result, self._table_nodes()
        present = {table.name for _, table in tables}
        for meter in program.meters:
            self.reporter.error_if(
                meter.is_direct and meter.table is None and meter.result is not None,
                meter.span,
                f"direct meter '{meter.name}' is read, but is not the meter of any table",
            )

        def used(item: ir.Resource) -> bool:
            return item.table in present or not item.is_direct

        program.counters = list(filter(used, program.counters))
        program.meters = list(filter(used, program.meters))
        for _, table in tables:
            if table.meter is not None and table.meter.result is None:
                self.reporter.error(
                    table.meter.span,
                    f"not supported: direct meter '{table.meter.name}', which no action of its "
                    "table reads (BMv2)",
                )
