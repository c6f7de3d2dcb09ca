"""The lowered program as P4Info (P4Runtime specification, chapter "The P4Info Message")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from switch.compiler import ir, syntax
from switch.compiler.diagnostics import Reporter
from switch.compiler.identifiers import Identifiers
from switch.compiler.p4types import TypeInfo, type_name
from switch.compiler.types import Type
from switch.compiler.values import local_name

HEADER = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"

_UNITS = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
_MATCH_TYPES = {
    "exact": "EXACT",
    "lpm": "LPM",
    "ternary": "TERNARY",
    "range": "RANGE",
    "optional": "OPTIONAL",
}
_OWN_FIELDS = {
    "name", "id", "hidden", "defaultonly", "tableonly", "controller_header", "brief", "description",
    "pkginfo", "platform_property", "match", "max_group_size",
}  # fmt: skip


def annotation_text(annotation: syntax.Annotation) -> str:
    """An annotation as P4Info has it."""
    if not annotation.bracket:
        return f"@{annotation.name}"
    closing = ")" if annotation.bracket == "(" else "]"
    body = ""
    for token in annotation.body:
        separate = body and token.text != "," and not body.endswith("(") and token.text not in ").("
        body += f" {token.text}" if separate else token.text
    return f"@{annotation.name}{annotation.bracket}{body}{closing}"


class InfoEmitter:
    def __init__(
        self, program: ir.Program, reporter: Reporter,
        parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]],
    ) -> None:  # fmt: skip
        self.program = program
        self.reporter = reporter
        self.parse_annotation = parse_annotation
        self.info = p4info_pb2.P4Info()
        self.type_info = TypeInfo(self.info.type_info, parse_annotation)
        self.tables = [
            node.table
            for pipeline in program.pipelines
            for node in pipeline.nodes
            if isinstance(node, ir.TableNode) and not node.table.hidden
        ]
        self.tables.sort(key=lambda table: table.order)
        self.actions = self._visible_actions()
        self.identifiers = self._identifiers()

    def _visible_actions(self) -> list[ir.Action]:
        """The actions of the program's tables and those that are called directly."""
        found: dict[str, ir.Action] = {}
        choices = [choice.action for table in self.tables for choice in table.actions]
        for action in [*choices, *self.program.called_actions]:
            if not action.hidden:
                found.setdefault(action.name, action)
        return sorted(found.values(), key=lambda action: action.order)

    def given_id(self, annotations: list[Any]) -> int | None:
        for annotation in annotations:
            if annotation.name == "id":
                for expression in self.parse_annotation(annotation):
                    if isinstance(expression.constant, int):
                        return int(expression.constant)
        return None

    def _objects(self) -> Iterator[tuple[str, str, int | None]]:
        for action in self.actions:
            yield "action", action.name, self.given_id(action.annotations)
        for table in self.tables:
            yield "table", table.name, self.given_id(table.annotations)
        program = self.program
        lists: list[tuple[str, list[Any]]] = [
            ("value_set", list(program.value_sets)),
            ("action_profile", list(program.profiles)),
            ("counter", [item for item in program.counters if item.table is None]),
            ("direct_counter", [item for item in program.counters if item.table is not None]),
            ("meter", [item for item in program.meters if item.table is None]),
            ("direct_meter", [item for item in program.meters if item.table is not None]),
            ("register", list(program.registers)),
            ("digest", list(program.digests)),
        ]
        for kind, items in lists:
            for item in items:
                yield kind, item.name, self.given_id(item.annotations)
        for header in program.controller_headers:
            yield "controller_header", header.name, self.given_id(header.annotations)

    def _identifiers(self) -> Identifiers:
        try:
            return Identifiers(self._objects())
        except ValueError as problem:
            span = self.tables[0].span if self.tables else self.program.actions[0].span
            self.reporter.error(span, str(problem))
            self.reporter.finish()
            raise

    # Pieces

    def preamble(self, target: Any, kind: str, item: ir.Object) -> None:
        target.id = self.identifiers.of(kind, item.name)
        target.name = item.name
        target.alias = self.identifiers.alias(item.name)
        self.annotations(target, item.annotations)

    def annotations(self, target: Any, annotations: list[Any]) -> None:
        for annotation in annotations:
            if annotation.name not in _OWN_FIELDS:
                target.annotations.append(annotation_text(annotation))
            elif annotation.name in ("brief", "description") and annotation.body:
                setattr(target.doc, annotation.name, annotation.body[0].text.strip('"'))

    def numbers(self, items: list[list[Any]]) -> list[int]:
        """Identifiers of parameters, fields and keys: those given, else the place from 1 on."""
        given = [self.given_id(annotations) for annotations in items]
        taken = {number for number in given if number is not None}
        result: list[int] = []
        for place, number in enumerate(given):
            if number is None:
                number = place + 1
                while number in taken:
                    number += 1
                taken.add(number)
            result.append(number)
        return result

    def typed(self, target: Any, kind: Type) -> None:
        """Set the width and, of a type that has a name, the name."""
        width = self.type_info.width(kind)
        if width is not None:
            target.bitwidth = width
        name = type_name(kind)
        if name is not None:
            target.type_name.name = name
        self.type_info.add(kind)

    # Messages

    def message(self) -> p4info_pb2.P4Info:
        self.info.pkg_info.arch = "v1model"
        self.package()
        for table in self.tables:
            self.table(table)
        for action in self.actions:
            self.action(action)
        for profile in _in_order(self.program.profiles):
            self.profile(profile)
        for counter in _in_order(self.program.counters):
            self.counter(counter)
        for meter in _in_order(self.program.meters):
            self.meter(meter)
        for header in self.program.controller_headers:
            self.controller_header(header)
        for value_set in _in_order(self.program.value_sets):
            self.value_set(value_set)
        for register in _in_order(self.program.registers):
            self.register(register)
        for digest in self.program.digests:
            message = self.info.digests.add()
            self.preamble(message.preamble, "digest", digest)
            assert digest.type is not None
            message.type_spec.CopyFrom(self.type_info.specification(digest.type))
        if self.tables or self.type_info.used:
            self.info.type_info.SetInParent()
        return self.info

    def package(self) -> None:
        for annotation in self.program.package_annotations:
            if annotation.name == "pkginfo":
                body = annotation.body
                for place in range(len(body) - 2):
                    if body[place + 1].text == "=" and body[place + 2].text.startswith('"'):
                        name = body[place].text
                        if name in ("name", "version", "organization", "contact", "url"):
                            setattr(self.info.pkg_info, name, body[place + 2].text.strip('"'))
            elif annotation.name not in _OWN_FIELDS:
                self.info.pkg_info.annotations.append(annotation_text(annotation))

    def table(self, table: ir.Table) -> None:
        message = self.info.tables.add()
        self.preamble(message.preamble, "table", table)
        keys = [key for key in table.keys if key.match_kind != "selector"]
        for key, number in zip(keys, self.numbers([key.annotations for key in keys]), strict=True):
            field = message.match_fields.add()
            field.id, field.name = number, key.name
            self.annotations(field, key.annotations)
            self.typed(field, key.type)
            match_type = _MATCH_TYPES.get(key.match_kind)
            if match_type is None:
                field.other_match_type = key.match_kind
            else:
                field.match_type = p4info_pb2.MatchField.MatchType.Value(match_type)
        for choice in table.actions:
            self.action_reference(message, choice)
        self.default_action(message, table)
        if table.profile is not None:
            message.implementation_id = self.identifiers.of("action_profile", table.profile.name)
        for kind, item in (("direct_counter", table.counter), ("direct_meter", table.meter)):
            if item is not None:
                message.direct_resource_ids.append(self.identifiers.of(kind, item.name))
        message.size = table.size
        if table.support_timeout:
            message.idle_timeout_behavior = p4info_pb2.Table.NOTIFY_CONTROL
        message.is_const_table = table.entries_constant and bool(table.entries)
        message.has_initial_entries = bool(table.entries)

    def action_reference(self, message: Any, choice: ir.ActionChoice) -> None:
        reference = message.action_refs.add()
        reference.id = self.identifiers.of("action", choice.action.name)
        names = {annotation.name for annotation in choice.annotations}
        self.annotations(reference, choice.annotations)
        if choice.implicit or "defaultonly" in names:
            reference.annotations.append("@defaultonly")
            reference.scope = p4info_pb2.ActionRef.DEFAULT_ONLY
        elif "tableonly" in names:
            reference.annotations.append("@tableonly")
            reference.scope = p4info_pb2.ActionRef.TABLE_ONLY

    def default_action(self, message: Any, table: ir.Table) -> None:
        action = table.default_action
        if action is None or action.hidden:
            return
        number = self.identifiers.of("action", action.name)
        if table.default_constant:
            message.const_default_action_id = number
        message.initial_default_action.action_id = number
        numbers = self.numbers([item.annotations for item in action.parameters])
        for value, parameter, place in zip(
            table.default_arguments, action.parameters, numbers, strict=True
        ):
            argument = message.initial_default_action.arguments.add()
            argument.param_id = place
            argument.value = value.to_bytes((parameter.width + 7) // 8, "big")

    def action(self, action: ir.Action) -> None:
        message = self.info.actions.add()
        self.preamble(message.preamble, "action", action)
        numbers = self.numbers([item.annotations for item in action.parameters])
        for parameter, number in zip(action.parameters, numbers, strict=True):
            item = message.params.add()
            item.id, item.name = number, parameter.name
            self.annotations(item, parameter.annotations)
            self.typed(item, parameter.type)

    def profile(self, profile: ir.ActionProfile) -> None:
        message = self.info.action_profiles.add()
        self.preamble(message.preamble, "action_profile", profile)
        for name in profile.tables:
            message.table_ids.append(self.identifiers.of("table", name))
        message.with_selector = profile.algorithm is not None
        message.size = profile.size
        for annotation in profile.annotations:
            if annotation.name == "max_group_size":
                for expression in self.parse_annotation(annotation):
                    message.max_group_size = expression.constant

    def counter(self, counter: ir.Counter) -> None:
        unit = p4info_pb2.CounterSpec.Unit.Value(_UNITS[counter.unit])
        message: Any
        if counter.table is None:
            message = self.info.counters.add()
            self.preamble(message.preamble, "counter", counter)
            message.size = counter.size
            self.index_type(message, counter.index_type)
        else:
            message = self.info.direct_counters.add()
            self.preamble(message.preamble, "direct_counter", counter)
            message.direct_table_id = self.identifiers.of("table", counter.table)
        message.spec.unit = unit

    def index_type(self, message: Any, kind: Type | None) -> None:
        name = None if kind is None else type_name(kind)
        if name is not None and kind is not None:
            message.index_type_name.name = name
            self.type_info.add(kind)

    def meter(self, meter: ir.Meter) -> None:
        unit = p4info_pb2.MeterSpec.Unit.Value(_UNITS[meter.unit])
        message: Any
        if meter.table is None:
            message = self.info.meters.add()
            self.preamble(message.preamble, "meter", meter)
            message.size = meter.size
            self.index_type(message, meter.index_type)
        else:
            message = self.info.direct_meters.add()
            self.preamble(message.preamble, "direct_meter", meter)
            message.direct_table_id = self.identifiers.of("table", meter.table)
        message.spec.unit = unit

    def controller_header(self, header: syntax.Struct) -> None:
        message = self.info.controller_packet_metadata.add()
        annotation = next(item for item in header.annotations if item.name == "controller_header")
        name = annotation.body[0].text.strip('"') if annotation.body else header.name
        message.preamble.id = self.identifiers.of("controller_header", header.name)
        message.preamble.name = message.preamble.alias = name
        message.preamble.annotations.append(annotation_text(annotation))
        self.annotations(message.preamble, header.annotations)
        numbers = self.numbers([item.annotations for item in header.fields])
        for field, number in zip(header.fields, numbers, strict=True):
            item = message.metadata.add()
            item.id, item.name = number, local_name(field)
            self.annotations(item, field.annotations)
            assert field.type is not None
            self.typed(item, field.type)

    def value_set(self, value_set: ir.ValueSet) -> None:
        message = self.info.value_sets.add()
        self.preamble(message.preamble, "value_set", value_set)
        used = self.type_info.used
        numbers = self.numbers([notes for _, _, notes in value_set.fields])
        for (name, kind, notes), number in zip(value_set.fields, numbers, strict=True):
            field = message.match.add()
            field.id, field.name = number, name
            self.annotations(field, notes)
            self.typed(field, kind)
            match_kind = "exact"
            for annotation in notes:
                if annotation.name == "match" and annotation.body:
                    match_kind = annotation.body[0].text
            if match_kind in _MATCH_TYPES:
                field.match_type = p4info_pb2.MatchField.MatchType.Value(_MATCH_TYPES[match_kind])
            else:
                field.other_match_type = match_kind
        self.type_info.used = used  # p4c does not count those
        message.size = value_set.size

    def register(self, register: ir.Register) -> None:
        message = self.info.registers.add()
        self.preamble(message.preamble, "register", register)
        assert register.type is not None
        message.type_spec.CopyFrom(self.type_info.specification(register.type))
        message.size = register.size
        self.index_type(message, register.index_type)


_Object = TypeVar("_Object", bound=ir.Object)


def _in_order(items: list[_Object]) -> list[_Object]:
    return sorted(items, key=lambda item: item.order)


def info_text(info: p4info_pb2.P4Info) -> str:
    """P4Info in text form."""
    return HEADER + str(text_format.MessageToString(info))
