"""Lowering of tables and their actions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.annotations import (
    ParseAnnotation,
    find,
    has_annotation,
    local_name,
    number_in,
    string_of,
)
from weft.switch.compiler.describe import source_text
from weft.switch.compiler.diagnostics import Reporter, Span
from weft.switch.compiler.lower.calls import CallLowering
from weft.switch.compiler.lower.expressions import MAXIMUM_SIZE, LoweringPart
from weft.switch.compiler.lower.instances import InstanceLowering
from weft.switch.compiler.lower.storage import (
    Environment,
    ExternInstance,
    FieldPlace,
    LoweredValue,
    full_name,
)
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import BOOL, ErrorType, base_type, is_flag, is_varbit, scalar_width

_MATCH_KINDS = ("exact", "ternary", "lpm", "range", "optional", "selector")
"""Those that the switches have."""


@dataclass(eq=False)
class TableLowering(LoweringPart):
    """The making of tables, once for each instance of the control that they are in, and their
    application."""

    calls: CallLowering
    instances: InstanceLowering
    tables: dict[tuple[int, int], ir.LoweredTable] = field(default_factory=dict, init=False)
    actions: dict[tuple[int, ...], ir.LoweredAction] = field(default_factory=dict, init=False)
    key_places: dict[int, FieldPlace] = field(default_factory=dict, init=False)
    names: dict[str, Span] = field(default_factory=dict, init=False)
    anonymous: Iterator[int] = field(default_factory=count, init=False)
    """The numbers of the objects that tables make for themselves."""

    # Actions

    def action_of(self, reference: syntax.ActionReference, env: Environment) -> ir.LoweredAction:
        """Return the action that a table refers to, with the arguments that the reference binds."""
        target: Target = reference.call.target
        declaration = target.declaration
        assert isinstance(declaration, syntax.ActionDeclaration)
        owner = self.shared.globals if self.shared.is_global(declaration) else env.owner()
        is_bound = any(item.direction for item in declaration.parameters)
        key = (id(declaration), id(owner), id(reference) if is_bound else 0)
        known = self.actions.get(key)
        if known is None:
            known = self.actions[key] = self._action(declaration, target, owner, env)
            self.shared.program.actions.append(known)
        return known

    def _action(
        self,
        declaration: syntax.ActionDeclaration,
        target: Target,
        owner: Environment,
        env: Environment,
    ) -> ir.LoweredAction:
        model = self.shared.action(declaration, owner)
        callee = owner.inner()
        directionless = [item for item in declaration.parameters if not item.direction]
        model.parameters = [self._parameter(item) for item in directionless]
        for index, parameter in enumerate(directionless):
            value = ir.ActionParameter(index)
            is_truth = is_flag(model.parameters[index].type)
            callee.bind(parameter, arithmetic.truth(value) if is_truth else value)
        model.body = self.calls.action_body(declaration, target, env, callee)
        return model

    def _parameter(self, node: syntax.Parameter) -> ir.LoweredParameter:
        """Return a parameter that gets its value from the control plane."""
        kind = type_of(node)
        width = scalar_width(kind)
        if width is None or isinstance(base_type(kind), ErrorType) or is_varbit(kind):
            raise self.writer.fail(
                node, f"not supported: a parameter of type {kind} from the control plane"
            )
        return ir.LoweredParameter(
            local_name(node).removeprefix("."), kind, width, node.annotations
        )

    # Tables

    def result(self, call: syntax.CallExpression, name: str, env: Environment) -> LoweredValue:
        """Return a variable that holds ``t.apply().hit`` or ``.miss``, for use inside an
        expression."""
        self.writer.fail_if(
            name == "action_run", call, "action_run can only be the subject of 'switch'"
        )
        place = self.writer.temporary(BOOL, f"{call.target.name}_{name}")
        apply = self.prepare(call, env)
        apply.hit, apply.miss = (
            self.writer.captured(partial(self.places.assign, place, ir.Truth(truth), call))
            for truth in (name == "hit", name != "hit")
        )
        self.writer.code.append(apply)
        return place

    def prepare(self, call: syntax.CallExpression, env: Environment) -> ir.Apply:
        """Return a table's application, in which what depends on its result is still to be filled
        in."""
        context = self.writer.context
        where = "an action" if context == "action" else f"a {context}"
        self.writer.fail_if(context != "control", call, f"a table cannot be applied in {where}")
        declaration = call.target.declaration
        owner = env.owner()
        key = (id(declaration), id(owner))
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = self._table(declaration, owner)
        for key in declaration.keys:
            place = self.key_places.get(id(key))
            if place is not None:  # the key is no field, but put into a variable
                self.places.assign(place, self.expressions.value(key.expression, env), key)
        return ir.Apply(table, span=call.span)

    def _table(self, node: syntax.TableDeclaration, env: Environment) -> ir.LoweredTable:
        table = ir.LoweredTable(full_name(env.path, node), node.annotations, node.span)
        first = self.names.setdefault(table.name, node.name_span)
        self.writer.fail_if(
            first != node.name_span,
            node,
            f"two tables have the name '{table.name}' (the first at line {first.line}); @name must "
            "tell apart",
        )
        table.order = self.shared.order(node, env)
        table.hidden = has_annotation(node.annotations, "hidden")
        table.keys = [self._key(key, env) for key in node.keys]
        if not table.hidden:
            self._distinct_keys(node, table)
        table.actions = [
            ir.ActionChoice(self.action_of(reference, env), reference.annotations)
            for reference in node.actions
        ]
        self._default_action(node, table, env)
        self._properties(node, table, env)
        written = [
            None if entry.priority is None else self.expressions.known(entry.priority, env)
            for entry in node.entries
        ]
        for entry, priority in zip(
            node.entries, priorities(node, written, self.shared.reporter), strict=True
        ):
            arguments = self._arguments(entry.action, env)
            keys = self._entry_keys(entry, node, env)
            table.entries.append(
                ir.LoweredEntry(
                    keys, self._listed(entry.action, node, table), arguments, priority,
                    entry.is_constant or node.entries_are_constant, entry.span,
                )
            )  # fmt: skip
        smallest_wins = not largest_priority_wins(node)
        table.entries.sort(key=lambda item: item.priority if smallest_wins else -item.priority)
        ranks = annotated_ranks(node, self.shared.parse_annotation)
        for lowered, rank in zip(table.entries, ranks, strict=False):
            lowered.rank = rank
        if ranks:
            table.entries.sort(key=lambda item: item.rank or 0)
        table.entries_constant = node.entries_are_constant
        for item in (table.counter, table.meter):
            if item is not None:
                item.size = table.capacity
        return table

    def _key(self, key: syntax.KeyElement, env: Environment) -> ir.LoweredKey:
        kind = type_of(key.expression)
        self.writer.fail_if(
            key.match_kind not in _MATCH_KINDS,
            key,
            f"not supported: match kind '{key.match_kind}'; there are {', '.join(_MATCH_KINDS)}",
        )
        given = [item.body[0].text for item in key.annotations if item.name == "name" and item.body]
        name = given[-1].strip('"') if given else source_text(key.expression)
        return ir.LoweredKey(
            name, key.match_kind, self._key_field(key, env), scalar_width(kind) or 0, kind,
            key.annotations,
        )  # fmt: skip

    def _distinct_keys(self, node: syntax.TableDeclaration, table: ir.LoweredTable) -> None:
        """Report keys that the control plane could not tell apart."""
        seen: set[str] = set()
        for key, lowered in zip(node.keys, table.keys, strict=True):
            if lowered.match_kind == "selector":
                continue
            self.shared.reporter.error_if(
                lowered.name in seen,
                key.span,
                f"not supported: two keys of table '{node.name}' have the name '{lowered.name}' "
                "(P4Runtime); give one another by @name",
            )
            seen.add(lowered.name)

    def _key_field(self, key: syntax.KeyElement, env: Environment) -> ir.HeaderField:
        """Return the field to match on: the key itself, or a variable that it is put into."""
        node = key.expression
        is_builtin = isinstance(node, syntax.CallExpression) and node.target.kind == "builtin"
        is_name = isinstance(node, (syntax.Name, syntax.MemberAccess)) and node.constant is None
        value = self.expressions.value(node, env) if is_builtin or is_name else None
        if (
            is_builtin
            and isinstance(value, ir.OperatorCall)
            and isinstance(value.right, ir.HeaderField)
        ):
            return value.right
        if isinstance(value, FieldPlace):
            return value.field
        place = self.key_places[id(key)] = self.writer.temporary_field(type_of(node), "key")
        return place.field

    def _listed(
        self,
        reference: syntax.ActionReference,
        node: syntax.TableDeclaration,
        table: ir.LoweredTable,
    ) -> ir.LoweredAction:
        """Return the table's own version of an action that is named in an entry or as the default
        action."""
        found = node.listed(syntax.name_of(reference.call.callee))
        if found is None:
            raise self.writer.fail(reference, "this action is not among the table's actions")
        return table.actions[node.actions.index(found)].action

    def _arguments(self, reference: syntax.ActionReference, env: Environment) -> list[int]:
        target: Target = reference.call.target
        return [
            self.expressions.known(argument, env)
            & arithmetic.mask_of(scalar_width(type_of(argument)) or 0)
            for parameter, argument in zip(target.parameters, target.arguments, strict=True)
            if argument is not None and not parameter.direction
        ]

    def _default_action(
        self, node: syntax.TableDeclaration, table: ir.LoweredTable, env: Environment
    ) -> None:
        if node.default_action is not None:
            table.default_action = self._listed(node.default_action, node, table)
            table.default_arguments = self._arguments(node.default_action, env)
            table.default_constant = node.properties["default_action"].is_constant
            return
        symbol = node.no_action
        if symbol is None:
            raise self.writer.fail(
                node, f"table '{node.name}' needs a default action: core.p4 is not included"
            )
        for choice, reference in zip(table.actions, node.actions, strict=True):
            if reference.call.target.declaration is symbol:
                table.default_action = choice.action
                return
        call = syntax.CallExpression(
            node.name_span, syntax.Name(node.name_span, symbol.name), [], []
        )
        call.target = Target("action", symbol.name, symbol)
        action = self.action_of(syntax.ActionReference(node.name_span, call), env)
        table.actions.append(ir.ActionChoice(action, [], implicit=True))
        table.default_action = action

    def _properties(
        self, node: syntax.TableDeclaration, table: ir.LoweredTable, env: Environment
    ) -> None:
        for name, item in node.properties.items():
            match name:
                case "size":
                    size = self.expressions.known(item.value, env, "the size of a table")
                    self.writer.fail_if(
                        not 0 <= size < MAXIMUM_SIZE,
                        item.value,
                        f"a table's size must be 0 to {MAXIMUM_SIZE - 1}, not {size}",
                    )
                    table.size = size or table.size
                case _ if name in self.calls.externs.table_objects:
                    self._attach(table, node, item, self._instance(item, env))
        table.support_timeout = self.calls.externs.has_timeouts(node.properties)
        self.calls.externs.check_table(node, table)

    def _instance(self, item: syntax.Property, env: Environment) -> ExternInstance:
        """Return an extern object that a property names, or constructs in place."""
        value = item.value
        if isinstance(value, syntax.CallExpression) and value.target.kind == "constructor":
            named = find(item.annotations, "name")
            text = None if named is None else string_of(named)
            kind = value.target.name
            stem = "action_profile" if kind.startswith("action") else kind
            name = text.removeprefix(".") if text else f"{stem}_{next(self.anonymous)}"
            found = self.instances.construct(value, name, None, env, item.annotations)
        else:
            found = self.expressions.value(value, env)
        assert isinstance(found, ExternInstance)
        return found

    def _attach(
        self,
        table: ir.LoweredTable,
        node: syntax.TableDeclaration,
        item: syntax.Property,
        instance: ExternInstance,
    ) -> None:
        model = instance.object
        if isinstance(model, ir.ActionProfile):
            inputs = [key.target for key in table.keys if key.match_kind == "selector"]
            if model.algorithm is not None:
                self.shared.reporter.warn_if(
                    not inputs,
                    item.value.span,
                    f"table '{node.name}' has an action selector but no key of kind selector: "
                    "all packets take the same member of a group",
                    "mismatch",
                )
                self.writer.fail_if(
                    model.inputs is not None and model.inputs != inputs,
                    item.value,
                    "tables that share an action selector must have the same selector keys",
                )
                model.inputs = inputs
            model.tables.append(table.name)
            table.profile = model
            return
        resource = self.shared.reporter.needed(
            model, ir.Resource, item.value.span, "not supported: this property's value"
        )
        self.writer.fail_if(
            resource.table is not None,
            item.value,
            f"'{resource.name}' belongs to table {resource.table} already",
        )
        resource.table = table.name
        if isinstance(resource, ir.LoweredMeter):
            table.meter = resource
        else:
            table.counter = resource

    # Entries

    def _entry_keys(
        self, entry: syntax.Entry, node: syntax.TableDeclaration, env: Environment
    ) -> list[object]:
        keyset = entry.keyset
        count = len(node.keys) if isinstance(keyset, syntax.AnyKeyset) else 1
        items = keyset.items if isinstance(keyset, syntax.TupleKeyset) else [keyset] * count
        return [
            self._entry_key(key, item, scalar_width(type_of(key.expression)) or 0, env)
            for key, item in zip(node.keys, items, strict=True)
        ]

    def _entry_key(
        self, key: syntax.KeyElement, item: syntax.Expression, width: int, env: Environment
    ) -> object:
        """Return an entry's value for one key, in the form that its match kind has."""
        full = arithmetic.mask_of(width)
        kind = key.match_kind
        low = high = mask = None

        def known(part: syntax.Expression) -> int:
            return self.expressions.known(part, env) & full

        match item:
            case syntax.AnyKeyset():
                low, high, value, mask = 0, full, 0, 0
            case syntax.MaskKeyset():
                value, mask = known(item.value), known(item.mask)
            case syntax.RangeKeyset():
                low = value = known(item.low)
                high = known(item.high)
            case _:
                low = high = value = known(item)
                mask = full
        match kind:
            case "selector":
                return None
            case "range" if low is not None and high is not None:
                self.writer.fail_if(
                    low > high, item, f"not supported: the range {low} .. {high} is empty (BMv2)"
                )
                return (low, high)
        if kind in ("ternary", "lpm", "optional", "exact") and mask is not None:
            if mask == full and kind == "exact":
                return value
            if kind == "ternary" or (kind == "optional" and mask in (0, full)):
                return (value & mask, mask)
            length = mask.bit_count()
            if kind == "lpm" and mask == full ^ arithmetic.mask_of(width - length):
                return (value & mask, length)
        raise self.writer.fail(item, f"this cannot be matched by a key of kind {kind}")


def priorities(
    node: syntax.TableDeclaration, written: list[int | None], reporter: Reporter
) -> list[int]:
    """Return the entries' priorities, given those that are written. A larger one wins, unless the
    table says otherwise."""
    largest = largest_priority_wins(node)
    delta = _property(node, "priority_delta", 1)
    if node.entries_are_constant or all(item is None for item in written):
        count = len(node.entries)
        order = range(count - 1, -1, -1) if largest else range(count)
        return [1 + position * delta for position in order]
    reporter.error_if(
        written[0] is None,
        node.entries[0].span,
        "if any entry has a priority, the first one must have one",
    )
    result: list[int] = []
    current = 1
    for index, (entry, given) in enumerate(zip(node.entries, written, strict=True)):
        if given is not None:
            current = given
        elif index:
            current += -delta if largest else delta
        reporter.error_if(
            current < 0, entry.span, f"the entry's priority would be {current}, below 0"
        )
        result.append(current)
    return result


def annotated_ranks(node: syntax.TableDeclaration, parse: ParseAnnotation) -> list[int]:
    """Return the ranks of constant entries if some are annotated ``@priority(n)``; else nothing.

    As with p4c, the smaller number wins, and an entry without one has its place, from 1 on.
    """
    if not node.entries_are_constant:
        return []
    given = {
        place: value
        for place, entry in enumerate(node.entries)
        if (annotation := find(entry.annotations, "priority")) is not None
        and (value := number_in(annotation, parse)) is not None
    }
    return [given.get(place, place + 1) for place in range(len(node.entries))] if given else []


def largest_priority_wins(node: syntax.TableDeclaration) -> bool:
    """Return whether a larger priority wins, as it does unless the table says otherwise."""
    return _property(node, "largest_priority_wins", 1) != 0


def _property(node: syntax.TableDeclaration, name: str, default: int) -> int:
    item = node.properties.get(name)
    if item is None or not isinstance(item.value.constant, int):
        return default
    return int(item.value.constant)
