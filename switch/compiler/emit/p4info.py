"""The lowered program as P4Info (P4Runtime specification, chapter "The P4Info Message")."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

from google.protobuf import text_format

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import (
    AnnotationWriter,
    ParseAnnotation,
    find,
    has_annotation,
    key_values,
    local_name,
    string_of,
)
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.emit.identifiers import Identifiers
from weft.switch.compiler.emit.p4types import TypeInfo, type_name
from weft.switch.compiler.types import ENUM_BITS, EnumType, ErrorType, Type, base_type
from weft.switch.messages import p4info_pb2

HEADER = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"

_UNITS = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
_MATCH_KINDS = ("exact", "lpm", "ternary", "range", "optional")
_PACKAGE_TEXTS = ("name", "version", "organization", "contact", "url", "arch")
_PLATFORM_NUMBERS = (
    "multicast_group_table_size", "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
)  # fmt: skip
_NONE: frozenset[str] = frozenset()
_OF_PACKAGE = frozenset({"pkginfo", "platform_property"})
_OF_PROFILE = frozenset({"max_group_size", "selector_size_semantics", "max_member_weight"})
_OF_SET_FIELD = frozenset({"match"})


_Object = TypeVar("_Object", bound=ir.Object)
_Item = TypeVar("_Item", ir.LoweredKey, ir.LoweredParameter, syntax.StructField)


class InfoEmitter:
    """An emitter describes one program in a P4Info."""

    def __init__(
        self, program: ir.LoweredProgram, reporter: Reporter,
        parse_annotation: ParseAnnotation,
    ) -> None:  # fmt: skip
        self.program = program
        self.reporter = reporter
        self.parse_annotation = parse_annotation
        self.info = p4info_pb2.P4Info()
        self.annotations = AnnotationWriter(reporter, parse_annotation)
        self.type_info = TypeInfo(self.info.type_info, self.annotations, program.errors)
        self.user_tables = [
            node.table
            for pipeline in program.pipelines
            for node in pipeline.nodes
            if isinstance(node, ir.TableNode) and node.table.order
        ]
        self.tables = sorted(
            (table for table in self.user_tables if not table.hidden),
            key=lambda table: table.order,
        )
        self.table_names = frozenset(table.name for table in self.tables)
        self.actions = self._visible_actions()
        self.objects: dict[str, list[ir.Object]] = {
            "value_set": [*program.value_sets],
            "action_profile": [*program.profiles],
            "counter": [item for item in program.counters if item.table is None],
            "direct_counter": [item for item in program.counters if item.table is not None],
            "meter": [item for item in program.meters if item.table is None],
            "direct_meter": [item for item in program.meters if item.table is not None],
            "register": [*program.registers],
        }
        """The objects that have a name in the control plane, apart from tables and actions, by
        kind."""
        self._check_names()
        self.identifiers = self._identifiers()

    def _check_names(self) -> None:
        """Report objects of one kind that have the same name, which ``@name`` can bring about."""
        kinds: dict[str, Sequence[ir.Object]] = {
            "action": [
                *(choice.action for table in self.user_tables for choice in table.actions),
                *self.program.called_actions,
            ],
            **self.objects,
        }
        for kind, objects in kinds.items():
            named: dict[str, ir.Object] = {}
            for item in objects:
                first = named.setdefault(item.name, item)
                same = first.span == item.span if kind == "action" else first is item
                self.reporter.error_if(
                    not same,
                    item.span,
                    f"two {kind.replace('_', ' ')}s have the name '{item.name}' (the first at "
                    f"line {first.span.line}); @name must tell apart, or instances of a control "
                    "that is applied twice",
                )

    def _visible_actions(self) -> list[ir.LoweredAction]:
        """Return the actions of the program's tables and those that are called directly."""
        found: dict[str, ir.LoweredAction] = {}
        place: dict[str, tuple[int, ...]] = {}
        for table in sorted(self.user_tables, key=lambda table: table.order):
            for number, choice in enumerate(table.actions):
                action = choice.action
                found.setdefault(action.name, action)
                if action.is_global:  # as if declared first in the pipeline that uses it first
                    place.setdefault(action.name, (*table.order[:2], -1, 0, *table.order, number))
        for action in self.program.called_actions:
            found.setdefault(action.name, action)
            if action.is_global:
                place[action.name] = min(place.get(action.name, action.order), action.order)
        return sorted(found.values(), key=lambda action: place.get(action.name, action.order))

    def given_id(self, annotations: list[Any]) -> int | None:
        """Return the number that ``@id`` gives; None if there is none."""
        return next(
            (
                int(expression.constant)
                for annotation in annotations
                if annotation.name == "id"
                for expression in self.parse_annotation(annotation)
                if isinstance(expression.constant, int)
            ),
            None,
        )

    def _identifiers(self) -> Identifiers:
        kinds: dict[str, Sequence[ir.Object]] = {
            "action": self.actions, "table": self.tables, **self.objects,
            "digest": self.program.digests,
        }  # fmt: skip
        named: list[tuple[str, str, list[Any]]] = [
            (kind, item.name, item.annotations) for kind, items in kinds.items() for item in items
        ]
        named += [
            ("controller_header", local_name(item), item.annotations)
            for item in self.program.controller_headers
        ]
        try:
            return Identifiers((kind, name, self.given_id(notes)) for kind, name, notes in named)
        except ValueError as problem:
            span = self.tables[0].span if self.tables else self.program.actions[0].span
            self.reporter.error(span, str(problem))
            self.reporter.finish()
            raise

    # Pieces

    def preamble(
        self, target: Any, kind: str, item: ir.Object, own: frozenset[str] = _NONE
    ) -> None:
        """Fill in the preamble of an object: its identifier, names, annotations and
        documentation."""
        target.id = self.identifiers.of(kind, item.name)
        target.name = item.name
        target.alias = self.identifiers.alias(item.name)
        self.described(target, item.annotations, own)

    def described(self, target: Any, annotations: list[Any], own: frozenset[str] = _NONE) -> None:
        """Write the annotations and documentation of a key, parameter or field."""
        self.annotations.write(target, annotations, own)
        self.annotations.document(target, annotations)

    def numbered(self, items: Sequence[_Item]) -> list[tuple[_Item, int]]:
        """Return parameters, fields or keys with their identifiers: those given, or the next."""
        given = [self.given_id(item.annotations) for item in items]
        taken: set[int] = set()
        for number, item in zip(given, items, strict=True):
            if number is not None and (number == 0 or number in taken):
                problem = "is not an identifier" if number == 0 else "is given twice"
                self.reporter.error(item.annotations[0].span, f"@id({number}) {problem}")
            taken |= set() if number is None else {number}
        result: list[tuple[_Item, int]] = []
        following = 1
        for item, number in zip(items, given, strict=True):
            if number is None:
                number = following = next(free for free in count(following) if free not in taken)
                taken.add(number)
            else:
                following += 1
            result.append((item, number))
        return result

    def typed(self, target: Any, kind: Type) -> None:
        """Set the width and, of a type that has a name, the name."""
        if (width := self.type_info.width(kind)) is not None:
            target.bitwidth = width
        if (name := type_name(kind)) is not None:
            target.type_name.name = name
        self.type_info.add(kind)

    def matched(self, field: Any, kind: Type) -> None:
        """Set the type of what is matched; enums and errors by members' numbers, as in the JSON."""
        self.typed(field, kind)
        if isinstance(base_type(kind), (EnumType, ErrorType)):
            field.bitwidth = ENUM_BITS

    def match_kind(self, field: Any, kind: str) -> None:
        """Set a match field's kind, which may be one that P4Runtime does not know."""
        if kind in _MATCH_KINDS:
            field.match_type = p4info_pb2.MatchField.MatchType.Value(kind.upper())
        else:
            field.other_match_type = kind

    # Messages

    def message(self) -> Any:
        """Return the P4Info of the program."""
        program = self.program
        self.info.pkg_info.arch = program.architecture
        self.package()
        for table in self.tables:
            self.table(table)
        for action in self.actions:
            if not action.hidden:
                self.action(action)
        for profile in _in_order(program.profiles):
            self.profile(profile)
        for item in [*_in_order(program.counters), *_in_order(program.meters)]:
            if item.table is None or item.table in self.table_names:
                self.resource(item)
        for header in program.controller_headers:
            self.controller_header(header)
        for value_set in _in_order(program.value_sets):
            self.value_set(value_set)
        for register in _in_order(program.registers):
            self.content(self.info.registers.add(size=register.size), "register", register)
        for digest in {item.name: item for item in program.digests}.values():
            self.content(self.info.digests.add(), "digest", digest)
        objects = program.counters or program.meters or program.registers or program.profiles
        if self.tables or self.type_info.used or program.calls_extern_functions or objects:
            self.info.type_info.SetInParent()  # as p4c has it, even if empty
        return self.info

    def content(self, message: Any, kind: str, item: ir.LoweredRegister | ir.LoweredDigest) -> None:
        """Describe an object that holds values of a type."""
        self.preamble(message.preamble, kind, item)
        assert item.type is not None
        message.type_spec.CopyFrom(self.type_info.specification(item.type))

    def package(self) -> None:
        """Describe the package by the annotations of ``main``."""
        package = self.info.pkg_info
        annotations = self.program.package_annotations
        if find(annotations, "platform_property") is not None:
            package.platform_properties.SetInParent()
        for name, known, target, kind, what in (
            ("pkginfo", _PACKAGE_TEXTS, package, str, "string"),
            ("platform_property", _PLATFORM_NUMBERS, package.platform_properties, int, "number"),
        ):
            for key, value in self._pairs(name, known):
                self.reporter.warn_if(
                    key == "arch", value.span, "'arch' in @pkginfo is set by the compiler"
                )
                if isinstance(value.constant, kind):
                    setattr(target, key, value.constant)
                else:
                    self.reporter.error(value.span, f"'{key}' in @{name} must be a {what}")
        self.described(package, annotations, _OF_PACKAGE)

    def _pairs(self, name: str, known: tuple[str, ...]) -> Iterator[tuple[str, syntax.Expression]]:
        """Yield the pairs in the first annotation of this name, and warn of keys that are not
        known."""
        found = [item for item in self.program.package_annotations if item.name == name]
        if not found:
            return
        pairs = key_values(found[0], self.parse_annotation)
        if pairs is None:
            self.reporter.error(found[0].span, f"@{name} takes pairs: key = value")
            return
        for key, value, token in pairs:
            if key in known:
                yield key, value
            else:
                self.reporter.warning(
                    token.span, f"@{name} has no key '{key}'; it has {', '.join(known)}"
                )

    def table(self, table: ir.LoweredTable) -> None:
        """Describe a table."""
        direct = (("direct_counter", table.counter), ("direct_meter", table.meter))
        message = self.info.tables.add(
            size=table.size,
            is_const_table=table.entries_constant,
            has_initial_entries=bool(table.entries),
            direct_resource_ids=[
                self.identifiers.of(kind, item.name) for kind, item in direct if item is not None
            ],
        )
        self.preamble(message.preamble, "table", table)
        for key, number in self.numbered(table.keys):
            if key.match_kind != "selector":
                field = message.match_fields.add(id=number, name=key.name)
                self.described(field, key.annotations)
                self.matched(field, key.type)
                self.match_kind(field, key.match_kind)
        for choice in table.actions:
            self.action_reference(message, choice)
        self.default_action(message, table)
        if table.profile is not None:
            message.implementation_id = self.identifiers.of("action_profile", table.profile.name)
        if table.support_timeout:
            message.idle_timeout_behavior = p4info_pb2.Table.NOTIFY_CONTROL

    def action_reference(self, message: Any, choice: ir.ActionChoice) -> None:
        """Describe one of a table's actions, and where it may be used."""
        reference = message.action_refs.add(id=self.identifiers.of("action", choice.action.name))
        names = {annotation.name for annotation in choice.annotations}
        self.annotations.write(reference, choice.annotations)
        if choice.implicit:
            reference.annotations.append("@defaultonly")
        if choice.implicit or "defaultonly" in names:
            reference.scope = p4info_pb2.ActionRef.DEFAULT_ONLY
        elif "tableonly" in names:
            reference.scope = p4info_pb2.ActionRef.TABLE_ONLY

    def default_action(self, message: Any, table: ir.LoweredTable) -> None:
        """Describe a table's default action."""
        action = table.default_action
        if action is None:
            return
        number = self.identifiers.of("action", action.name)
        if table.default_constant:
            message.const_default_action_id = number
        message.initial_default_action.action_id = number
        for value, (parameter, number) in zip(
            table.default_arguments, self.numbered(action.parameters), strict=True
        ):
            width = max(self.type_info.width(parameter.type) or 0, parameter.width)
            message.initial_default_action.arguments.add(
                param_id=number, value=value.to_bytes((width + 7) // 8, "big")
            )

    def action(self, action: ir.LoweredAction) -> None:
        """Describe an action with its parameters."""
        message = self.info.actions.add()
        self.preamble(message.preamble, "action", action)
        for parameter, number in self.numbered(action.parameters):
            item = message.params.add(id=number, name=parameter.name)
            self.described(item, parameter.annotations)
            self.typed(item, parameter.type)

    def profile(self, profile: ir.ActionProfile) -> None:
        """Describe an action profile or selector."""
        message = self.info.action_profiles.add(
            table_ids=[
                self.identifiers.of("table", name)
                for name in sorted(profile.tables)
                if name in self.table_names
            ],
            with_selector=profile.algorithm is not None,
            size=profile.size,
        )
        self.preamble(message.preamble, "action_profile", profile, _OF_PROFILE)
        if profile.algorithm is not None:
            self.selector(message, profile)
        else:
            for name in sorted(_OF_PROFILE):
                if annotation := find(profile.annotations, name):
                    self.reporter.warning(
                        annotation.span, f"@{name} is ignored: '{profile.name}' has no selector"
                    )

    def selector(self, message: Any, profile: ir.ActionProfile) -> None:
        """Write what annotations say about the sizes of groups."""
        if group_size := find(profile.annotations, "max_group_size"):
            message.max_group_size = self.annotations.number(group_size)
        if semantics := find(profile.annotations, "selector_size_semantics"):
            text = (string_of(semantics) or "").lower()
            if text not in ("sum_of_weights", "sum_of_members"):
                self.reporter.error(
                    semantics.span,
                    '@selector_size_semantics takes "sum_of_weights" or "sum_of_members"',
                )
                return
            getattr(message, text).SetInParent()
        weight = find(profile.annotations, "max_member_weight")
        if weight is not None and message.HasField("sum_of_members"):
            message.sum_of_members.max_member_weight = self.annotations.number(weight)
        elif weight is not None:
            self.reporter.warning(
                weight.span, "@max_member_weight is ignored: it goes with sum_of_members"
            )

    def resource(self, item: ir.Resource) -> None:
        """Describe a counter or meter, with entries of its own or one for each of a table's."""
        kind = "meter" if isinstance(item, ir.LoweredMeter) else "counter"
        name = kind if item.table is None else f"direct_{kind}"
        message = getattr(self.info, f"{name}s").add()
        self.preamble(message.preamble, name, item)
        if item.table is None:
            message.size = item.size
        else:
            message.direct_table_id = self.identifiers.of("table", item.table)
        message.spec.unit = message.spec.Unit.Value(_UNITS[item.unit])

    def controller_header(self, header: syntax.Struct) -> None:
        """Describe a header that packets to or from the controller have."""
        message = self.info.controller_packet_metadata.add()
        annotation = next(item for item in header.annotations if item.name == "controller_header")
        name = string_of(annotation)
        if name is None:
            self.reporter.error(
                annotation.span,
                '@controller_header takes the header\'s name: "packet_in" or "packet_out"',
            )
            return
        known = [item.preamble.name for item in self.info.controller_packet_metadata]
        self.reporter.error_if(
            name in known, annotation.span, f'two headers are @controller_header("{name}")'
        )
        message.preamble.id = self.identifiers.of("controller_header", local_name(header))
        message.preamble.name = message.preamble.alias = name
        self.described(message.preamble, header.annotations)
        for field, number in self.numbered(header.fields):
            if not has_annotation(field.annotations, "hidden"):
                item = message.metadata.add(id=number, name=local_name(field))
                self.annotations.write(item, field.annotations)
                self.typed(item, syntax.type_of(field))

    def value_set(self, value_set: ir.LoweredValueSet) -> None:
        """Describe a parser's value set."""
        message = self.info.value_sets.add(size=value_set.size)
        self.preamble(message.preamble, "value_set", value_set)
        used = self.type_info.used
        for item, number in self.numbered(value_set.fields):
            field = message.match.add(id=number, name=item.name)
            self.described(field, item.annotations, _OF_SET_FIELD)
            self.matched(field, item.type)
            notes = [note for note in item.annotations if note.name == "match"]
            given = [note.body[0].text for note in notes if note.body]
            self.match_kind(field, given[-1] if given else "exact")
        self.type_info.used = used  # p4c does not count those


def _in_order(items: list[_Object]) -> list[_Object]:
    return sorted(items, key=lambda item: item.order)


def info_text(info: Any) -> str:
    """Return P4Info in text form."""
    return HEADER + str(text_format.MessageToString(info))
