"""Lowering of a checked program for V1Switch to what BMv2's simple_switch runs."""

from collections.abc import Callable

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import has_annotation
from weft.switch.compiler.check.scope import CheckContext
from weft.switch.compiler.diagnostics import NOWHERE, Abandon, Reporter, Span
from weft.switch.compiler.lower.body import BodyLowering
from weft.switch.compiler.lower.lists import ListLowering
from weft.switch.compiler.lower.parsers import ParserLowering
from weft.switch.compiler.lower.pipeline import PipelineBuilder
from weft.switch.compiler.lower.shared import Shared
from weft.switch.compiler.lower.storage import (
    BlockInstance,
    Environment,
    ExternInstance,
    FieldPlace,
    HeaderPlace,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
    inside,
)
from weft.switch.compiler.types import (
    BlockTypeType,
    PackageTypeType,
    StructType,
    Type,
    header_fields,
    is_header,
    is_union,
    resolved,
)

_ROLES = {
    "p": ("parser", 4), "vr": ("control", 2), "ig": ("control", 3), "eg": ("control", 3),
    "ck": ("control", 2), "dep": ("control", 2),
}  # fmt: skip
"""The blocks of V1Switch in their order, each with its kind and the number of its parameters."""
_V1MODEL_ENUMS = {"CounterType", "MeterType", "HashAlgorithm", "CloneType"}
_USER_METADATA = "userMetadata"


def lower(
    program: syntax.SourceProgram,
    context: CheckContext,
    parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]],
) -> ir.LoweredProgram:
    """Return the lowered program. Errors go to the context's reporter; the result is then
    incomplete."""
    reporter = context.reporter
    main = context.globals.find("main")
    if not isinstance(main, syntax.Instantiation):
        last = program.declarations[-1].span if program.declarations else NOWHERE
        raise reporter.fail(
            last, "there is no 'main': the program must end with V1Switch(...) main;"
        )
    if main.call is None:
        raise Abandon
    reporter.fail_if(
        main.call.target.name != "V1Switch",
        main.span,
        f"not supported: the architecture of '{main.call.target.name}'; only V1Switch (v1model)",
    )
    shapes = [_shape_of(item) for item in main.call.target.arguments]
    reporter.fail_if(
        shapes != [*_ROLES.values()],
        main.span,
        "this V1Switch is not v1model's: it takes a parser and five controls, with 4, 2, 3, 3, 2 "
        "and 2 parameters; include <v1model.p4> in place of a package of your own",
    )
    return _Assembly(program, context, parse_annotation, main).program()


def _shape_of(argument: syntax.Expression | None) -> tuple[str, int] | None:
    """Return the kind of a block, and the number of its parameters; None for anything else."""
    kind = None if argument is None else argument.type
    if not isinstance(kind, BlockTypeType):
        return None
    return kind.kind, len(kind.declaration.parameters)


class _Assembly:
    def __init__(
        self,
        program: syntax.SourceProgram,
        context: CheckContext,
        parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]],
        main: syntax.Instantiation,
    ) -> None:
        self.tree = program
        self.context = context
        self.reporter: Reporter = context.reporter
        self.shared = Shared(context, parse_annotation)
        self.main = main
        assert main.call is not None
        self.call = main.call
        self.parsers = ParserLowering(self.shared)
        self.controls = BodyLowering(self.shared)
        self.lists = ListLowering(self.shared)

    def program(self) -> ir.LoweredProgram:
        result = self.shared.program
        self.shared.note_places(self.tree)
        headers, metadata, standard = self._roots()
        self._field_lists(metadata)
        self._global_instances()
        blocks = dict(
            zip(_ROLES, (self._instance(item) for item in self.call.target.arguments), strict=True)
        )
        packet_in, packet_out = (
            ExternInstance(kind, "packet") for kind in ("packet_in", "packet_out")
        )
        self.parsers.top_parser(blocks["p"], [packet_in, headers, metadata, standard])
        result.value_sets = [item for item in result.value_sets if item.is_used]
        self.lists.checksums(blocks["vr"], [headers, metadata], "verify")
        for name, role in (("ingress", "ig"), ("egress", "eg")):
            self.shared.pipeline = name
            code = self.controls.instances.top_level(blocks[role], [headers, metadata, standard])
            if not self.reporter.errors:
                result.pipelines.append(PipelineBuilder(self.shared, name).build(code))
        self.lists.checksums(blocks["ck"], [headers, metadata], "update")
        self.lists.deparser(blocks["dep"], [packet_out, headers])
        self.shared.storage.finish()
        for kind, bits in self.shared.storage.uneven:
            self.reporter.error(
                kind.declaration.name_span,
                f"not supported: {kind} has {bits} bits, not a multiple of 8 (BMv2)",
            )
        self._place_profiles()
        self._check_direct_objects()
        result.enums = [
            (node.name, [name for name, _ in node.members])
            for node in self.context.enums
            if node.name not in _V1MODEL_ENUMS
        ]
        result.controller_headers = [
            node
            for node in self.tree.declarations
            if isinstance(node, syntax.Struct)
            and has_annotation(node.annotations, "controller_header")
        ]
        result.package_annotations = self.main.annotations
        return result

    # The structs that the architecture hands from block to block

    def _roots(self) -> tuple[Place, Place, Place]:
        parser = self.call.target.arguments[0]
        assert parser is not None and parser.type is not None
        block = parser.type.declaration
        headers_type, metadata_type, standard_type = (item.type for item in block.parameters[1:4])
        storage = self.shared.storage
        standard = resolved(standard_type)
        assert isinstance(standard, StructType)
        place = storage.metadata_header("standard_metadata", standard)
        self.shared.program.aliases += [
            (annotation.body[0].text.strip('"'), ir.HeaderField("standard_metadata", item.name))
            for item in standard.declaration.fields
            for annotation in item.annotations
            if annotation.name == "alias" and annotation.body
        ]
        headers = self._struct("", headers_type, block.parameters[1].span, "headers")
        metadata = self._struct(_USER_METADATA, metadata_type, block.parameters[2].span, "metadata")
        return headers, metadata, place

    def _struct(self, name: str, kind: Type, span: Span, what: str) -> Place:
        bare = resolved(kind)
        if not isinstance(bare, StructType) or bare.kind != "struct":
            raise self.reporter.fail(span, f"the {what} of V1Switch must be a struct, not {kind}")
        if what == "headers" and not self._can_be_headers(bare, span):
            raise Abandon
        return self.shared.allocate(name, kind, span, bare)

    def _can_be_headers(self, kind: StructType, span: Span) -> bool:
        """Return whether a struct holds nothing but headers; report what else it holds."""
        result = True
        for name, item in kind.fields.items():
            bare = resolved(item)
            element = resolved(getattr(bare, "element", bare))
            if isinstance(element, StructType) and element.kind == "struct":
                result &= self._can_be_headers(element, span)
            elif not is_header(element) and not is_union(element):
                result = False
                self.reporter.error(
                    span,
                    f"not supported: field '{name}' of type {item} in {kind}: the headers of "
                    "V1Switch may only hold headers, header stacks and header unions (BMv2)",
                )
        return result

    def _field_lists(self, metadata: Place) -> None:
        """Find the metadata fields that are annotated ``@field_list(...)``."""
        kind = resolved(metadata.type)
        if not isinstance(metadata, StructPlace) or not isinstance(kind, StructType):
            return
        for item in kind.declaration.fields:
            place = metadata.members[item.name]
            for annotation in item.annotations:
                if annotation.name == "field_list":
                    values = [given.constant for given in self.shared.parse_annotation(annotation)]
                    self._keep(place, {value for value in values if isinstance(value, int)})
            self._field_lists(place)

    def _keep(self, place: Place, indices: set[int]) -> None:
        match place:
            case FieldPlace():
                self.shared.kept_fields.append((place.field, indices))
            case HeaderPlace():
                names = [*(name for name, _ in header_fields(place.type)), "$valid$"]
                self.shared.kept_fields += [
                    (ir.HeaderField(place.name, name), indices) for name in names
                ]
            case StackPlace() | StructPlace() | UnionPlace():
                for part in inside(place):
                    self._keep(part, indices)

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
        number = self.call.target.arguments.index(call)
        outer = Environment(self.shared.globals, order=(len(self.tree.declarations), number))
        return self.reporter.needed(
            self.controls.instances.construct(call, block.name, None, outer),
            BlockInstance,
            call.span,
            "a parser or control is expected here",
        )

    # What remains

    def _table_nodes(self) -> list[tuple[str, ir.LoweredTable]]:
        """Return the tables that packets reach, each with the name of its pipeline."""
        return [
            (pipeline.name, node.table)
            for pipeline in self.shared.program.pipelines
            for node in pipeline.nodes
            if isinstance(node, ir.TableNode)
        ]

    def _place_profiles(self) -> None:
        """Put each action profile into the pipeline of the tables that use it."""
        tables = self._table_nodes()
        for pipeline, table in tables:
            profile = table.profile
            if profile is not None:
                self.reporter.error_if(
                    profile.pipeline not in ("", pipeline),
                    profile.span,
                    f"'{profile.name}' is used in ingress and in egress (BMv2 cannot)",
                )
                profile.pipeline = pipeline
        present = {table.name for _, table in tables}
        for profile in self.shared.program.profiles:
            profile.tables = [name for name in profile.tables if name in present]
            profile.pipeline = profile.pipeline or "ingress"  # of no table

    def _check_direct_objects(self) -> None:
        """Drop direct counters and meters without a table, and report meters that are not read as
        they must."""
        program, tables = self.shared.program, self._table_nodes()
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
                    f"direct meter '{table.meter.name}' is never read in an action of its table",
                )
