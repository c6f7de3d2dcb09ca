"""Builds the syntax tree: one method per rule of grammar.lark, called as the parser reduces.

Every token of a rule is among the children, so a node's span runs from its first child to its last.
"""

from __future__ import annotations

from typing import Any

from weft.switch.compiler import syntax
from weft.switch.compiler.builder_expressions import (
    Actions,
    Children,
    Entries,
    ExpressionBuilder,
    Items,
    Keys,
    NameTokens,
    Parameters,
    has_token,
    is_token,
    names_in,
    span_of,
    span_of_all,
    take,
    type_parameters_in,
    without_tokens,
)
from weft.switch.compiler.diagnostics import Span


def _property_name(item: object) -> str | None:
    """The name of a table's property; None for anything else."""
    if isinstance(item, syntax.Property):
        return item.name
    names = {Keys: "key", Actions: "actions", Entries: "entries"}
    return next((name for kind, name in names.items() if isinstance(item, kind)), None)


class TreeBuilder(ExpressionBuilder):
    """Callbacks for lark; children come in the order of the rule, tokens included."""

    # Declarations

    def constant_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        (reference,) = take(c, syntax.TypeReference)
        return syntax.Constant(span_of_all(c), self._annotations(c), name, span, reference, c[-2])

    def variable_without_semicolon(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        (reference,) = take(c, syntax.TypeReference)
        initializer = c[-1] if has_token(c, "ASSIGN") else None
        return syntax.Variable(
            span_of_all(c), self._annotations(c), name, span, reference, initializer
        )

    def variable_declaration(self, c: Children) -> syntax.Node:
        node = self.variable_without_semicolon(c[:-1])
        node.span = span_of_all(c)
        return node

    def instantiation(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        reference = take(c, syntax.TypeReference)[0]
        body = next((list(child) for child in c if type(child) is Items), [])
        return syntax.Instantiation(
            span_of_all(c),
            self._annotations(c),
            name,
            span,
            reference,
            take(c, syntax.Argument),
            body,
        )

    def object_initializer(self, c: Children) -> Items:
        return self.expression_list(c)

    def value_set(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        (reference,) = take(c, syntax.TypeReference)
        return syntax.ValueSet(span_of_all(c), self._annotations(c), name, span, reference, c[-4])

    def parameters(self, c: Children) -> Items:
        result = Parameters(take(c, syntax.Parameter))
        result.span = span_of_all(c)
        return result

    def parameter(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        (reference,) = take(c, syntax.TypeReference)
        direction = next((str(item) for item in c if is_token(item, "IN", "OUT", "INOUT")), "")
        default = c[-1] if has_token(c, "ASSIGN") else None
        return syntax.Parameter(
            span_of_all(c), self._annotations(c), name, span, direction, reference, default
        )

    def prototype(self, c: Children) -> syntax.Prototype:
        ((name, span),) = names_in(c)
        return syntax.Prototype(
            span_of_all(c), name, span, c[0], type_parameters_in(c), list(c[-1])
        )

    def function_declaration(self, c: Children) -> syntax.Node:
        prototype, body = c[-2], c[-1]
        return syntax.Function(
            span_of_all(c),
            self._annotations(c),
            prototype.name,
            prototype.name_span,
            prototype,
            body,
        )

    def extern_function(self, c: Children) -> syntax.Node:
        prototype = c[-2]
        return syntax.ExternFunction(
            span_of_all(c), self._annotations(c), prototype.name, prototype.name_span, prototype
        )

    def extern_object(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        methods = take(c, syntax.Method)
        return syntax.ExternObject(
            span_of_all(c), self._annotations(c), name, span, type_parameters_in(c), methods
        )

    def method(self, c: Children) -> syntax.Node:
        prototype = c[-2]
        return syntax.Method(
            span_of_all(c), self._annotations(c), prototype.name, prototype.name_span, prototype,
            is_abstract=has_token(c, "ABSTRACT"),
        )  # fmt: skip

    def constructor(self, c: Children) -> syntax.Node:
        name = c[-3]
        span = span_of(name)
        prototype = syntax.Prototype(span_of_all(c), str(name), span, None, [], list(c[-2]))
        return syntax.Method(
            span_of_all(c), self._annotations(c), str(name), span, prototype, is_constructor=True
        )

    def action_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        return syntax.Action(span_of_all(c), self._annotations(c), name, span, list(c[-2]), c[-1])

    def package_type(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        return syntax.PackageType(
            span_of_all(c), self._annotations(c), name, span, type_parameters_in(c), list(c[-2])
        )

    def struct_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        kind = next(str(item) for item in c if is_token(item, "HEADER", "STRUCT", "HEADER_UNION"))
        return syntax.Struct(
            span_of_all(c), self._annotations(c), name, span, kind, type_parameters_in(c),
            take(c, syntax.StructField),
        )  # fmt: skip

    def struct_field(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        return syntax.StructField(span_of_all(c), self._annotations(c), name, span, c[-3])

    def enum_declaration(self, c: Children) -> syntax.Node:
        (name, span), *members = names_in(c)
        return syntax.Enum(span_of_all(c), self._annotations(c), name, span, members)

    def serializable_enum(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        (reference,) = take(c, syntax.TypeReference)
        members = [(item[0], item[1], item[2]) for item in c if type(item) is Items]
        return syntax.SerializableEnum(
            span_of_all(c), self._annotations(c), name, span, reference, members
        )

    def enum_member(self, c: Children) -> Items:
        result = Items([c[0].text, c[0].span, c[2]])
        result.span = span_of_all(c)
        return result

    def error_declaration(self, c: Children) -> syntax.Node:
        return syntax.ErrorDeclaration(span_of_all(c), names_in(c))

    def match_kind_declaration(self, c: Children) -> syntax.Node:
        return syntax.MatchKindDeclaration(span_of_all(c), names_in(c))

    def typedef_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        reference = c[-3]
        return syntax.Typedef(
            span_of_all(c), self._annotations(c), name, span, reference, has_token(c, "TYPE")
        )

    # Parsers and controls

    def _head(self, c: Children) -> tuple[str, Span, list[str], list[Any], list[Any]]:
        ((name, span),) = names_in(c)
        lists = [child for child in c if isinstance(child, Parameters)]
        constructor = list(lists[1]) if len(lists) > 1 else []
        return name, span, type_parameters_in(c), list(lists[0]), constructor

    def parser_type(self, c: Children) -> syntax.Node:
        name, span, types, parameters, _ = self._head(c)
        return syntax.BlockType(
            span_of_all(c), self._annotations(c), name, span, "parser", types, parameters
        )

    def control_type(self, c: Children) -> syntax.Node:
        name, span, types, parameters, _ = self._head(c)
        return syntax.BlockType(
            span_of_all(c), self._annotations(c), name, span, "control", types, parameters
        )

    def parser_declaration(self, c: Children) -> syntax.Node:
        name, span, types, parameters, constructor = self._head(c)
        states = take(c, syntax.ParserState)
        locals_ = [
            item for item in take(c, syntax.Declaration) if not isinstance(item, syntax.ParserState)
        ]
        return syntax.Parser(
            span_of_all(c), self._annotations(c), name, span, "parser", types, parameters,
            constructor, locals_, states,
        )  # fmt: skip

    def control_declaration(self, c: Children) -> syntax.Node:
        name, span, types, parameters, constructor = self._head(c)
        return syntax.Control(
            span_of_all(c), self._annotations(c), name, span, "control", types, parameters,
            constructor, take(c, syntax.Declaration), c[-2],
        )  # fmt: skip

    def parser_state(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        transition = next((item for item in c if isinstance(item, syntax.Transition)), None)
        body = without_tokens(c)
        statements: list[syntax.Node] = [
            item for item in body if isinstance(item, (syntax.Statement, syntax.Declaration))
        ]
        return syntax.ParserState(
            span_of_all(c), self._annotations(c), name, span, statements, transition
        )

    def transition(self, c: Children) -> syntax.Node:
        if isinstance(c[1], NameTokens):
            return syntax.Transition(span_of_all(c), c[1].text, [], None)
        keys, cases = c[1]
        return syntax.Transition(span_of_all(c), None, keys, cases)

    def select_expression(self, c: Children) -> Items:
        result = Items([list(c[2]), take(c, syntax.SelectCase)])
        result.span = span_of_all(c)
        return result

    def select_case(self, c: Children) -> syntax.Node:
        return syntax.SelectCase(span_of_all(c), c[0], c[2].text, c[2].span)

    # Tables

    def table_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        table = syntax.Table(
            span_of_all(c), self._annotations(c), name, span, [], [], [], False, {}
        )
        given: set[str] = set()
        for item in c:
            property_name = _property_name(item)
            if property_name is not None and property_name in given:
                table.repeated.append((property_name, item.span))
            given.add(property_name or "")
            if isinstance(item, Keys):
                table.keys += item
            elif isinstance(item, Actions):
                table.actions += item
                table.has_actions = True
            elif isinstance(item, Entries):
                table.entries += item
                table.entries_are_constant = item.constant
            elif isinstance(item, syntax.Property):
                table.properties.setdefault(item.name, item)
        return table

    def key_property(self, c: Children) -> Items:
        result = Keys(take(c, syntax.KeyElement))
        result.span = span_of_all(c)
        return result

    def key_element(self, c: Children) -> syntax.Node:
        return syntax.KeyElement(span_of_all(c), c[0], c[2].text, c[2].span, self._annotations(c))

    def actions_property(self, c: Children) -> Items:
        result = Actions(take(c, syntax.ActionReference))
        result.span = span_of_all(c)
        return result

    def action_list_element(self, c: Children) -> syntax.ActionReference:
        reference: syntax.ActionReference = c[-2]
        reference.annotations = self._annotations(c)
        return reference

    def action_reference(self, c: Children) -> syntax.ActionReference:
        call = syntax.Call(span_of_all(c), c[0], [], take(c, syntax.Argument))
        return syntax.ActionReference(span_of_all(c), call, len(c) > 1)

    def entries_property(self, c: Children) -> Items:
        result = Entries(take(c, syntax.Entry))
        result.constant, result.span = has_token(c, "CONST"), span_of_all(c)
        return result

    def entry(self, c: Children) -> syntax.Node:
        priority = next((item[0] for item in c if type(item) is Items), None)
        keyset = next(item for item in c if isinstance(item, syntax.Expression))
        (action,) = take(c, syntax.ActionReference)
        return syntax.Entry(
            span_of_all(c), has_token(c, "CONST"), priority, keyset, action, self._annotations(c)
        )

    def entry_priority(self, c: Children) -> Items:
        result = Items([c[3] if len(c) == 6 else self.integer([c[2]])])
        result.span = span_of_all(c)
        return result

    def table_property(self, c: Children) -> syntax.Node:
        ((name, _),) = names_in(c)
        return syntax.Property(
            span_of_all(c), self._annotations(c), name, has_token(c, "CONST"), c[-2]
        )

    # Statements

    def block(self, c: Children) -> syntax.Node:
        return syntax.Block(span_of_all(c), self._annotations(c), without_tokens(c))

    def assignment_statement(self, c: Children) -> syntax.Node:
        return syntax.Assignment(span_of_all(c), c[0], str(c[1]), c[2])

    assignment_without_semicolon = assignment_statement

    def call_statement(self, c: Children) -> syntax.Node:
        return syntax.CallStatement(span_of_all(c), self.call(c[:-1]))

    def call_without_semicolon(self, c: Children) -> syntax.Node:
        return syntax.CallStatement(span_of_all(c), self.call(c))

    def direct_application(self, c: Children) -> syntax.Node:
        base = syntax.TypeExpression(c[0].span, c[0])
        member = syntax.Member(span_of_all(c[:3]), base, str(c[2]), span_of(c[2]))
        call = syntax.Call(span_of_all(c[:-1]), member, [], take(c, syntax.Argument))
        return syntax.CallStatement(span_of_all(c), call)

    def if_statement(self, c: Children) -> syntax.Node:
        return syntax.If(span_of_all(c), c[2], c[4], c[6] if len(c) > 5 else None)

    def empty_statement(self, c: Children) -> syntax.Node:
        return syntax.Empty(span_of_all(c))

    def return_statement(self, c: Children) -> syntax.Node:
        return syntax.Return(span_of_all(c), c[1] if len(c) == 3 else None)

    def exit_statement(self, c: Children) -> syntax.Node:
        return syntax.Exit(span_of_all(c))

    def break_statement(self, c: Children) -> syntax.Node:
        return syntax.Break(span_of_all(c))

    def continue_statement(self, c: Children) -> syntax.Node:
        return syntax.Continue(span_of_all(c))

    def switch_statement(self, c: Children) -> syntax.Node:
        return syntax.Switch(span_of_all(c), c[2], take(c, syntax.SwitchCase))

    def switch_case(self, c: Children) -> syntax.Node:
        return syntax.SwitchCase(span_of_all(c), c[0], c[2] if len(c) > 2 else None)

    def for_initial(self, c: Children) -> Items:
        return self.expression_list(c)

    for_update = for_initial

    def for_statement(self, c: Children) -> syntax.Node:
        initial, condition, update, body = c[-7], c[-5], c[-3], c[-1]
        return syntax.For(span_of_all(c), list(initial), condition, list(update), body)

    def for_in_statement(self, c: Children) -> syntax.Node:
        ((name, span),) = names_in(c)
        (reference,) = take(c, syntax.TypeReference)
        variable = syntax.Variable(
            reference.span.to(span), self._annotations(c), name, span, reference, None
        )
        collection = c[-3]
        if has_token(c, "RANGE"):
            low, high = c[-5], c[-3]
            collection = syntax.RangeKeyset(low.span.to(high.span), low, high)
        return syntax.ForIn(span_of_all(c), variable, collection, c[-1])
