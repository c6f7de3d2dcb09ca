"""The Portable Switch Architecture, as BMv2's psa_switch runs it: parser, control and deparser of
ingress, and the same of egress (PSA specification, section "Programmable blocks")."""

from collections.abc import Mapping
from typing import ClassVar

from weft.switch.compiler import syntax
from weft.switch.compiler.architectures.psa.deparsers import DeparserLowering
from weft.switch.compiler.architectures.psa.direct_objects import note_direct_objects
from weft.switch.compiler.architectures.psa.externs import DirectCall, PortableExterns
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.lower.externs import ExternLowering
from weft.switch.compiler.lower.lower import Architecture, PackageLowering
from weft.switch.compiler.lower.storage import ExternInstance, LoweredValue, Place
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import StructType, resolved

_PATHS = ("resubmit_meta", "recirculate_meta", "clone_i2e_meta", "clone_e2e_meta")
"""The metadata that packets take along, in the order of the JSON's field lists, from 1 on. What
psa_switch resubmits, recirculates and clones takes none along."""


class PortableSwitch(Architecture):
    """The lowering of PSA_Switch."""

    name = "psa"
    package = "PSA_Switch"
    roles: ClassVar[Mapping[str, tuple[str, int]]] = {
        "ip": ("parser", 6), "ig": ("control", 4), "id": ("control", 7),
        "ep": ("parser", 7), "eg": ("control", 4), "ed": ("control", 7),
    }  # fmt: skip
    roles_text = (
        "an IngressPipeline and an EgressPipeline, each a parser and two controls, with 6, 4 and 7 "
        "and with 7, 4 and 7 parameters"
    )
    enums = frozenset(
        {"PSA_CounterType_t", "PSA_MeterType_t", "PSA_HashAlgorithm_t", "PSA_IdleTimeout_t"}
    )

    def __init__(self) -> None:
        self.extern_instances: list[dict[str, object]] = []
        """The JSON's part of that name."""
        self.direct_calls: list[DirectCall] = []
        self.places: dict[str, Place] = {}
        """What is handed from block to block, by its name in the specification."""

    def externs(self, expressions: ExpressionLowering) -> ExternLowering:
        """Return what lowers PSA's externs."""
        return PortableExterns(expressions, self.extern_instances, self.direct_calls)

    def arguments(self, main: syntax.CallExpression) -> list[syntax.Expression | None]:
        """Return the calls that construct the blocks of the two pipelines."""
        pipelines = main.target.arguments[::2]  # behind each is an engine
        return [item for pipeline in pipelines for item in _given(pipeline)]

    def lower(self, package: PackageLowering) -> None:
        """Lower the blocks in the order in which packets come to them."""
        package.result.document_parts["extern_instances"] = self.extern_instances
        _check_engines(package)
        deparsers = DeparserLowering(package)
        self._places(package)
        blocks = package.blocks
        packet_in: LoweredValue = ExternInstance("packet_in", "packet")
        packet_out: LoweredValue = ExternInstance("packet_out", "packet")
        for name, parser, control, deparser in (
            ("ingress", "ip", "ig", "id"), ("egress", "ep", "eg", "ed"),
        ):  # fmt: skip
            given = {role: self._bound(package, role, name) for role in (parser, control, deparser)}
            package.parsers.top_parser(
                blocks[parser], [packet_in, *given[parser]], f"{name}_parser"
            )
            package.pipeline(name, control, given[control])
            deparsers.lower(blocks[deparser], [packet_out, *given[deparser]], f"{name}_deparser")
        for resource, call in self.direct_calls:
            package.reporter.error_if(
                resource.table is None,
                call.node.span,
                f"'{resource.name}' belongs to no table, so it cannot be used",
            )
        owned = {resource.name for resource, _ in self.direct_calls if resource.table is not None}
        note_direct_objects(package, owned)
        package.result.field_lists += [
            (number, package.shared.fields_in(self.places[path]))
            for number, path in enumerate(_PATHS)
        ]

    def _places(self, package: PackageLowering) -> None:
        """Allocate what the blocks hand on: headers, metadata, and what the switch tells and is
        told. Egress has the headers of ingress if they are of the same type, as it begins with
        none that is valid."""
        allocate = package.shared.allocate
        ingress, egress = package.parameters("ip"), package.parameters("ep")
        known = self.places
        for name, parameters in (("ingress", ingress), ("egress", egress)):
            headers, metadata = parameters[1:3]
            kind = type_of(headers)
            same = known.get("ingress_headers")
            if same is not None and same.type == kind:
                known["egress_headers"] = same
            else:
                known[f"{name}_headers"] = allocate("", kind, headers.span, kind)
            kind = type_of(metadata)
            known[f"{name}_metadata"] = allocate(f"{name}_meta", kind, metadata.span, kind)
        for name, parameter in zip(
            (*_PATHS[:2], "normal_meta", *_PATHS[2:]), [*ingress[4:], *egress[4:]], strict=True
        ):
            kind = type_of(parameter)
            known[name] = allocate(name, kind, parameter.span, kind)
        for role, index, name in (
            ("ip", 3, "psa_ingress_parser_input_metadata"), ("ig", 2, "psa_ingress_input_metadata"),
            ("ig", 3, "psa_ingress_output_metadata"), ("ep", 3, "psa_egress_parser_input_metadata"),
            ("eg", 2, "psa_egress_input_metadata"), ("eg", 3, "psa_egress_output_metadata"),
            ("ed", 6, "psa_egress_deparser_input_metadata"),
        ):  # fmt: skip
            kind = resolved(type_of(package.parameters(role)[index]))
            assert isinstance(kind, StructType)
            known[name] = package.shared.storage.metadata_header(name, kind)

    def _bound(self, package: PackageLowering, role: str, pipeline: str) -> list[LoweredValue]:
        """Return the places that a block's parameters behind the packet stand for."""
        own = f"{pipeline}_headers", f"{pipeline}_metadata"
        standard = f"psa_{pipeline}_{{}}_metadata".format
        names: dict[str, tuple[str, ...]] = {
            "ip": (*own, standard("parser_input"), *_PATHS[:2]),
            "ig": (*own, standard("input"), standard("output")),
            "id": ("clone_i2e_meta", "resubmit_meta", "normal_meta", *own, standard("output")),
            "ep": (*own, standard("parser_input"), "normal_meta", *_PATHS[2:]),
            "eg": (*own, standard("input"), standard("output")),
            "ed": (
                "clone_e2e_meta", "recirculate_meta", *own, standard("output"),
                standard("deparser_input"),
            ),
        }  # fmt: skip
        return [self.places[name] for name in names[role]]


def _check_engines(package: PackageLowering) -> None:
    """Report an error where one of the switch's two engines is made a second time (sections
    "Packet Replication Engine" and "Buffering Queuing Engine")."""
    calls = {
        id(node): node
        for declaration in package.tree.declarations
        for node in syntax.walk(declaration)
        if isinstance(node, syntax.CallExpression) and node.target.kind == "constructor"
    }
    for kind in ("PacketReplicationEngine", "BufferingQueueingEngine"):
        made = [call for call in calls.values() if call.target.name == kind]
        for another in made[1:]:
            package.reporter.error(another.span, f"a switch has one {kind}: this is another one")


def _given(pipeline: syntax.Expression | None) -> list[syntax.Expression | None]:
    """Return what a pipeline's package is given, constructed in place or declared before."""
    if isinstance(pipeline, syntax.Name) and isinstance(pipeline.declaration, syntax.Instantiation):
        pipeline = pipeline.declaration.call or pipeline
    if isinstance(pipeline, syntax.CallExpression):
        return list(pipeline.target.arguments)
    return [None]
