"""Checks of tables (specification, section "Tables")."""

from contextlib import suppress
from dataclasses import dataclass

from weft.switch.compiler import syntax
from weft.switch.compiler.annotations import has_annotation
from weft.switch.compiler.check.calls import CallChecker
from weft.switch.compiler.check.entries import (
    check_entry,
    check_priorities,
    check_repeated,
    key_problem,
)
from weft.switch.compiler.check.expressions import ExpressionUser
from weft.switch.compiler.check.parsers import check_keyset
from weft.switch.compiler.check.scope import Scope, closest
from weft.switch.compiler.diagnostics import Abandon, Span
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BOOL,
    BitType,
    EnumType,
    ExternType,
    IntegerType,
    IntType,
    TableType,
    Type,
    VarbitType,
    base_type,
    scalar_width,
)

_EXCLUSIVE = ("tableonly", "defaultonly")
_EXTERN_PROPERTIES = {
    "implementation": ("action_profile", "action_selector"),
    "counters": ("direct_counter",),
    "meters": ("direct_meter",),
    "psa_implementation": ("ActionProfile", "ActionSelector"),
    "psa_direct_counter": ("DirectCounter",),
    "psa_direct_meter": ("DirectMeter",),
}
_PROPERTIES = {
    *_EXTERN_PROPERTIES, "size", "default_action", "support_timeout", "largest_priority_wins",
    "priority_delta", "psa_idle_timeout",
}  # fmt: skip


@dataclass(eq=False)
class TableChecker(ExpressionUser):
    """A table checker checks declarations of tables."""

    calls: CallChecker

    def check(self, node: syntax.TableDeclaration, scope: Scope) -> None:
        """Check a table's key, actions, properties and entries, and add it to the scope."""
        for part in (*node.keys, *node.actions, *node.properties.values(), *node.entries):
            self.expressions.annotations(part, scope)
        types = [self._key(key, scope) for key in node.keys]
        for key in [key for key in node.keys if key.match_kind == "lpm"][1:]:
            self.reporter.error(
                key.span, f"not supported: table '{node.name}' has several keys of kind lpm (BMv2)"
            )
        for name, span in node.repeated:
            self.reporter.error(span, f"table '{node.name}' has two properties '{name}'")
        self.reporter.error_if(
            not node.has_actions, node.name_span, f"table '{node.name}' has no actions"
        )
        actions = [
            (self.calls.check_action_reference(reference, scope, complete=False), reference.span)
            for reference in node.actions
        ]
        for reference in node.actions:
            self.reporter.error_if(
                all(has_annotation(reference.annotations, each) for each in _EXCLUSIVE),
                reference.span,
                "an action that is @tableonly and @defaultonly could not be used",
            )
        self.context.no_repeats(
            [(action.name, span) for action, span in actions if action is not None],
            "action '{}' is listed twice",
        )
        for item in node.properties.values():
            with suppress(Abandon):
                self._property(node, item, scope)
        self._default_action(node, scope)
        symbol = scope.find("NoAction")
        node.no_action = symbol if isinstance(symbol, syntax.ActionDeclaration) else None
        known = [kind for kind in types if kind is not None]
        if len(known) == len(types):
            self._entries(node, known, scope)
        node.type = TableType(node)
        self.context.declare(scope, node)

    def _key(self, key: syntax.KeyElement, scope: Scope) -> Type | None:
        if key.match_kind not in self.context.match_kinds:
            near = closest(key.match_kind, set(self.context.match_kinds)) or (
                f"; there are {', '.join(self.context.match_kinds)}"
            )
            self.reporter.error(
                key.match_kind_span, f"'{key.match_kind}' is not a match kind{near}"
            )
        try:
            with self.context.inside("control"):  # where the table is applied
                key.expression = self.expressions.check(key.expression, scope)
        except Abandon:
            return None
        # What is no field, slice or mask has no name that the control plane could use.
        self.reporter.error_if(
            not has_annotation(key.annotations, "name") and not _has_name(key.expression),
            key.expression.span,
            'a key that is computed needs a name: write @name("...") after its match kind',
        )
        kind = type_of(key.expression)
        if scalar_width(kind) is None or isinstance(base_type(kind), (IntegerType, VarbitType)):
            self.reporter.error(key.expression.span, f"a value of type {kind} cannot be a key")
            return None
        problem = key_problem(kind, key.match_kind)
        self.reporter.error_if(problem, key.expression.span, problem)
        return kind

    def _property(self, node: syntax.TableDeclaration, item: syntax.Property, scope: Scope) -> None:
        if item.name == "default_action":
            return
        self.reporter.fail_if(
            item.name in ("key", "actions", "entries"),
            item.span,
            f"'{item.name}' takes braces: {item.name} = {{ ... }}",
        )
        if item.name not in _PROPERTIES:
            self.reporter.warning(
                item.span,
                f"table property '{item.name}' is not known here and ignored"
                f"{closest(item.name, _PROPERTIES)}",
            )
            return
        item.value = self.expressions.check(item.value, scope)
        kind = type_of(item.value)
        if item.name in _EXTERN_PROPERTIES:
            wanted = _EXTERN_PROPERTIES[item.name]
            self.reporter.fail_if(
                not isinstance(kind, ExternType) or kind.name not in wanted,
                item.value.span,
                f"'{item.name}' must be a {' or '.join(wanted)}, not {kind}",
            )
            self.reporter.fail_if(
                item.name.endswith("implementation") and node.entries,
                node.entries[0].span if node.entries else item.span,
                f"not supported: entries of table '{node.name}', whose actions are in an action "
                "profile: BMv2 gets them from the control plane",
            )
        elif item.name in ("support_timeout", "largest_priority_wins"):
            self.reporter.fail_if(
                kind != BOOL or item.value.constant is None,
                item.value.span,
                f"'{item.name}' must be true or false",
            )
        elif item.name == "psa_idle_timeout":
            self.reporter.fail_if(
                not isinstance(kind, EnumType) or item.value.constant is None,
                item.value.span,
                f"'{item.name}' must be a member of PSA_IdleTimeout_t, not {kind}",
            )
        else:
            number = item.value.constant
            least = 1 if item.name == "priority_delta" else 0
            is_number = isinstance(base_type(kind), (BitType, IntType, IntegerType))
            is_known = isinstance(number, int) and number >= least
            later = item.name == "size" and number is None and is_static(item.value)
            self.reporter.fail_if(
                not (is_number and (is_known or later)),
                item.value.span,
                f"'{item.name}' must be a number known at compile time, and at least {least}",
            )

    def _default_action(self, node: syntax.TableDeclaration, scope: Scope) -> None:
        item = node.properties.get("default_action")
        if item is None:
            return
        self.reporter.error_if(
            node.default_action_first,
            item.span,
            "the default action must stand behind the table's actions",
        )
        value = item.value
        match value:
            case syntax.Name():
                call = syntax.CallExpression(value.span, value, [], [])
            case syntax.CallExpression() if isinstance(value.callee, syntax.Name):
                call = value
            case _:
                self.reporter.error(value.span, "the default action must be an action of the table")
                return
        reference = syntax.ActionReference(value.span, call)
        not_for = ("tableonly", "cannot be the default action")
        if self._listed_action(node, reference, value.span, not_for, scope) is not None:
            node.default_action = reference

    def _listed_action(
        self, node: syntax.TableDeclaration, reference: syntax.ActionReference, span: Span,
        not_for: tuple[str, str], scope: Scope,
    ) -> syntax.ActionDeclaration | None:  # fmt: skip
        """Check an action, which must be one of the table's and not be annotated as not for this
        use."""
        name = syntax.name_of(reference.call.callee)
        listed = node.listed(name)
        if listed is None:
            self.reporter.error(span, _not_listed(node, name))
            return None
        annotation, consequence = not_for
        self.reporter.error_if(
            has_annotation(listed.annotations, annotation),
            span,
            f"'{name}' is @{annotation} and {consequence}",
        )
        action = self.calls.check_action_reference(reference, scope, complete=True)
        meant = getattr(listed.call.callee, "declaration", None)
        if action is not None and meant is not None and action is not meant:
            line = action.name_span.line
            self.reporter.error(
                span,
                f"'{name}' means the action in line {line} here, which table '{node.name}' lacks",
            )
            return None
        self._compare_bound(reference, listed)
        return action

    def _compare_bound(
        self, reference: syntax.ActionReference, listed: syntax.ActionReference
    ) -> None:
        """Report an error where the arguments for parameters with a direction are not those that
        the list of actions gives (specification, section "Default action")."""
        given, wanted = reference.call.target, listed.call.target
        if given is None or wanted is None:
            return  # reported already
        for one, other in zip(given.arguments, wanted.arguments, strict=False):
            self.reporter.error_if(
                not syntax.same(one, other),
                (one or reference).span,
                "this argument is not the one that the table's list of actions gives",
            )

    def _entries(self, node: syntax.TableDeclaration, types: list[Type], scope: Scope) -> None:
        self.reporter.error_if(
            node.entries_first, node.name_span, "a table's entries must stand behind its key"
        )
        if node.entries and not node.keys:
            self.reporter.error(node.name_span, f"table '{node.name}' has entries but no key")
            return
        for entry in node.entries:
            try:
                entry.keyset = check_keyset(self.expressions, entry.keyset, scope, types)
                check_entry(self.reporter, node.keys, types, entry.keyset)
                if entry.priority is not None:
                    entry.priority = self.expressions.static_number(
                        entry.priority, scope, "a priority is a number known at compile time"
                    )
                    self.reporter.error_if(
                        node.entries_are_constant,
                        entry.priority.span,
                        "entries of 'const entries' have no priorities; their order counts",
                    )
            except Abandon:
                continue
            not_for = ("defaultonly", "cannot be in an entry")
            self._listed_action(node, entry.action, entry.action.call.callee.span, not_for, scope)
        check_repeated(self.reporter, node)
        check_priorities(self.reporter, node)


def _has_name(node: syntax.Expression) -> bool:
    """Return whether a name can be made of a key (specification, "Control plane names", keys)."""
    if node.constant is not None or isinstance(node, syntax.Name):
        return True
    match node:
        case syntax.MemberAccess():
            return isinstance(node.base, syntax.TypeExpression) or _has_name(node.base)
        case syntax.Index() | syntax.Slice():
            return _has_name(node.base) and (
                isinstance(node, syntax.Slice) or _has_name(node.index)
            )
        case syntax.Binary():
            return node.operator == "&" and _has_name(node.left) and _has_name(node.right)
    return (
        isinstance(node, syntax.CallExpression)
        and isinstance(node.callee, syntax.MemberAccess)
        and node.callee.name == "isValid"
        and _has_name(node.callee.base)
    )


def _not_listed(table: syntax.TableDeclaration, name: str) -> str:
    names = [syntax.name_of(action.call.callee) for action in table.actions]
    return (
        f"'{name}' is not among the actions of table '{table.name}'"
        f"{closest(name, set(names)) or '; it has ' + (', '.join(names) or 'none')}"
    )
