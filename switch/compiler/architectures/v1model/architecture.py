"""v1model, the architecture of BMv2's simple_switch: a parser, ingress, egress, a deparser, and
controls that verify and update checksums."""

from collections.abc import Mapping
from typing import ClassVar

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.architectures.v1model.checksums import ChecksumLowering
from weft.switch.compiler.architectures.v1model.externs import V1ModelExterns
from weft.switch.compiler.lower.exits import followed_by
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.lower.externs import ExternLowering
from weft.switch.compiler.lower.lower import Architecture, PackageLowering
from weft.switch.compiler.lower.storage import ExternInstance, LoweredValue, Place, StructPlace
from weft.switch.compiler.lower.tails import TailLowering
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import StructType, resolved

_USER_METADATA = "userMetadata"
_IN_DEPARSER = ("log_msg", "assert", "assume", "truncate")


class V1Model(Architecture):
    """The lowering of V1Switch."""

    name = "v1model"
    package = "V1Switch"
    roles: ClassVar[Mapping[str, tuple[str, int]]] = {
        "p": ("parser", 4), "vr": ("control", 2), "ig": ("control", 3), "eg": ("control", 3),
        "ck": ("control", 2), "dep": ("control", 2),
    }  # fmt: skip
    roles_text = "a parser and five controls, with 4, 2, 3, 3, 2 and 2 parameters"
    enums = frozenset({"CounterType", "MeterType", "HashAlgorithm", "CloneType"})

    def __init__(self) -> None:
        self.kept_fields: list[tuple[ir.HeaderField, set[int]]] = []
        """Of ``@field_list``, with the numbers of the lists."""

    def externs(self, expressions: ExpressionLowering) -> ExternLowering:
        """Return what lowers v1model's externs."""
        return V1ModelExterns(
            expressions,
            lambda index: [field for field, indices in self.kept_fields if index in indices],
        )

    def lower(self, package: PackageLowering) -> None:
        """Lower the blocks: parser, verification, ingress, egress, update, deparser."""
        headers, metadata, standard = self._roots(package)
        self._field_lists(package, metadata)
        blocks, tails = package.blocks, TailLowering(package.lists)
        checksums = ChecksumLowering(package.lists, tails)
        packet_in, packet_out = (
            ExternInstance(kind, "packet") for kind in ("packet_in", "packet_out")
        )
        package.parsers.top_parser(blocks["p"], [packet_in, headers, metadata, standard])
        both: list[LoweredValue] = [headers, metadata]
        verification = checksums.lower(blocks["vr"], both, "verify", standard)
        ingress = package.code("ingress", "ig", [*both, standard])
        package.build("ingress", [*verification, *ingress])
        egress = package.code("egress", "eg", [*both, standard])
        count = len(package.result.checksums)
        update = checksums.lower(blocks["ck"], both, "update", standard)
        deparser = tails.deparser(blocks["dep"], [packet_out, headers], _IN_DEPARSER)
        if deparser and package.result.checksums[count:]:  # which are to be right before it
            update = checksums.code(blocks["ck"], both, "update", standard)
            del package.result.checksums[count:]
        package.build("egress", followed_by(package.shared, egress, [*update, *deparser]))

    def _roots(self, package: PackageLowering) -> tuple[Place, Place, Place]:
        """Return the structs that are handed from block to block."""
        headers, metadata, standard = package.parameters("p")[1:4]
        kind = resolved(type_of(standard))
        assert isinstance(kind, StructType)
        place = package.shared.storage.metadata_header("standard_metadata", kind)
        package.result.aliases += [
            (annotation.body[0].text.strip('"'), ir.HeaderField("standard_metadata", item.name))
            for item in kind.declaration.fields
            for annotation in item.annotations
            if annotation.name == "alias" and annotation.body
        ]
        return (
            self._struct(package, "", headers, "headers"),
            self._struct(package, _USER_METADATA, metadata, "metadata"),
            place,
        )

    def _struct(
        self, package: PackageLowering, name: str, parameter: syntax.Parameter, what: str
    ) -> Place:
        kind, span = type_of(parameter), parameter.span
        bare = resolved(kind)
        if not isinstance(bare, StructType) or bare.kind != "struct":
            raise package.reporter.fail(
                span, f"the {what} of V1Switch must be a struct, not {kind}"
            )
        return package.shared.allocate(name, kind, span, bare)

    def _field_lists(self, package: PackageLowering, metadata: Place) -> None:
        """Find the metadata fields that are annotated ``@field_list(...)``."""
        kind = resolved(metadata.type)
        if not isinstance(metadata, StructPlace) or not isinstance(kind, StructType):
            return
        for item in kind.declaration.fields:
            place = metadata.members[item.name]
            for annotation in item.annotations:
                if annotation.name == "field_list":
                    indices: set[int] = set()
                    for given in package.shared.parse_annotation(annotation):
                        value = given.constant
                        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                            raise package.shared.reporter.fail(
                                given.span, "@field_list takes numbers of lists, at least 0"
                            )
                        indices.add(value)
                    fields = package.shared.fields_in(place)
                    self.kept_fields += [(field, indices) for field in fields]
            self._field_lists(package, place)
