"""Builds the syntax tree: one method per rule of grammar.lark, called as the parser reduces.

Every token of a rule is among the children, so a node's span runs from its first child to its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lark

from switch.compiler import syntax
from switch.compiler.diagnostics import NOWHERE, Span

Children = list[Any]

_BASES = {"x": 16, "o": 8, "b": 2, "d": 10}


def parse_integer(text: str) -> tuple[int, int | None, bool]:
    """An integer literal's value, width (None if it has none) and whether it is signed."""
    digits, width, signed = text, None, False
    for mark in "ws":
        before, found, after = text.partition(mark)
        if found and before.isdigit():
            width, digits, signed = int(before), after, mark == "s"
            break
    digits = digits.replace("_", "").lower()
    base = _BASES.get(digits[1:2], 10) if digits[:1] == "0" else 10
    value = int(digits[2:] or "0", base) if digits[1:2] in _BASES else int(digits or "0")
    if signed and width:
        value &= (1 << width) - 1
        value -= (value >> (width - 1)) << width
    return value, width, signed


def span_of(child: Any) -> Span:
    """The span of a node, a token or a list of them."""
    if isinstance(child, lark.Token):
        return child.raw.span  # type: ignore[attr-defined, no-any-return]
    if isinstance(child, syntax.Node):
        return child.span
    if isinstance(child, _Items):
        return child.span
    return NOWHERE


class _Items(list[Any]):
    """A list with a span."""

    span: Span = NOWHERE


def _span(children: Sequence[Any]) -> Span:
    return span_of(children[0]).to(span_of(children[-1])) if children else NOWHERE


def _is(child: Any, *kinds: str) -> bool:
    return isinstance(child, lark.Token) and child.type in kinds


def _take(children: Children, *kinds: type) -> list[Any]:
    return [child for child in children if isinstance(child, kinds) and not _is(child)]


def _has(children: Children, kind: str) -> bool:
    return any(_is(child, kind) for child in children)


def _without_tokens(children: Children) -> Children:
    return [child for child in children if not isinstance(child, lark.Token)]


class _NameTokens(_Items):
    """A declared name."""

    text: str


def _names(children: Children) -> list[tuple[str, Span]]:
    return [(item.text, item.span) for item in children if isinstance(item, _NameTokens)]


def _type_parameters(children: Children) -> list[str]:
    for child in children:
        if isinstance(child, _TypeParameters):
            return list(child)
    return []


class _TypeParameters(_Items):
    pass


class _TypeArguments(_Items):
    pass


class _Parameters(_Items):
    pass


class _Keys(_Items):
    pass


class _Actions(_Items):
    pass


class _Entries(_Items):
    constant: bool


class TreeBuilder(lark.Transformer):  # type: ignore[type-arg]
    """Callbacks for lark; children come in the order of the rule, tokens included."""

    def _annotations(self, children: Children) -> list[syntax.Annotation]:
        found = []
        for child in children:
            if _is(child, "ANNOTATION"):
                raw = child.raw
                found.append(syntax.Annotation(raw.span, raw.text, raw.bracket, raw.body))
        return found

    def name(self, c: Children) -> _NameTokens:
        result = _NameTokens(c)
        result.text, result.span = str(c[0]), _span(c)
        return result

    def dotted_name(self, c: Children) -> syntax.Name:
        return syntax.Name(_span(c), str(c[-1]), len(c) > 1)

    # Types

    def base_type(self, c: Children) -> syntax.TypeReference:
        return syntax.BaseTypeReference(_span(c), str(c[0]))

    def sized_type(self, c: Children) -> syntax.TypeReference:
        return syntax.BaseTypeReference(_span(c), str(c[0]), c[1][0])

    def width(self, c: Children) -> _Items:
        item = c[2] if len(c) == 5 else self.integer([c[1]])
        result = _Items([item])
        result.span = _span(c)
        return result

    def named_type(self, c: Children) -> syntax.TypeReference:
        arguments = list(c[-1]) if isinstance(c[-1], _TypeArguments) else []
        name = c[1] if _is(c[0], "DOT") else c[0]
        return syntax.NamedTypeReference(_span(c), str(name), arguments)

    def type_arguments(self, c: Children) -> _Items:
        result = _TypeArguments(_without_tokens(c))
        result.span = _span(c)
        return result

    def type_parameters(self, c: Children) -> _Items:
        result = _TypeParameters(name for name, _ in _names(c))
        result.span = _span(c)
        return result

    def stack_type(self, c: Children) -> syntax.TypeReference:
        return syntax.StackTypeReference(_span(c), c[0], c[2])

    def tuple_type(self, c: Children) -> syntax.TypeReference:
        return syntax.TupleTypeReference(_span(c), _without_tokens(c))

    def list_type(self, c: Children) -> syntax.TypeReference:
        return syntax.TupleTypeReference(_span(c), _without_tokens(c), is_list=True)

    # Expressions

    def integer(self, c: Children) -> syntax.Expression:
        value, width, signed = parse_integer(str(c[0]))
        return syntax.IntegerLiteral(_span(c), value, width, signed, str(c[0]))

    def string(self, c: Children) -> syntax.Expression:
        return syntax.StringLiteral(_span(c), str(c[0])[1:-1])

    def boolean(self, c: Children) -> syntax.Expression:
        return syntax.BooleanLiteral(_span(c), str(c[0]) == "true")

    def name_expression(self, c: Children) -> syntax.Expression:
        if isinstance(c[0], syntax.Name):
            return c[0]
        return syntax.Name(_span(c), str(c[0]))

    def dots(self, c: Children) -> syntax.Expression:
        return syntax.Dots(_span(c))

    def invalid_header(self, c: Children) -> syntax.Expression:
        return syntax.InvalidHeader(_span(c))

    def parenthesized(self, c: Children) -> syntax.Expression:
        inner: syntax.Expression = c[1]
        return inner

    def type_member(self, c: Children) -> syntax.Expression:
        base = syntax.TypeExpression(c[0].span, c[0])
        return syntax.Member(_span(c), base, c[2].text, c[2].span)

    def error_member(self, c: Children) -> syntax.Expression:
        reference = syntax.BaseTypeReference(span_of(c[0]), "error")
        return syntax.Member(
            _span(c), syntax.TypeExpression(reference.span, reference), c[2].text, c[2].span
        )

    def constructor_call(self, c: Children) -> syntax.Expression:
        callee = syntax.TypeExpression(c[0].span, c[0])
        return syntax.Call(_span(c), callee, [], _take(c, syntax.Argument))

    def member(self, c: Children) -> syntax.Expression:
        return syntax.Member(_span(c), c[0], c[2].text, c[2].span)

    def index(self, c: Children) -> syntax.Expression:
        return syntax.Index(_span(c), c[0], c[2])

    def slice(self, c: Children) -> syntax.Expression:
        if _is(c[3], "PLUS_COLON"):
            return syntax.Slice(_span(c), c[0], c[4], c[2], low_and_width=True)
        return syntax.Slice(_span(c), c[0], c[2], c[4])

    def call(self, c: Children) -> syntax.Call:
        types = list(c[1]) if isinstance(c[1], _TypeArguments) else []
        return syntax.Call(_span(c), c[0], types, _take(c, syntax.Argument))

    def list_expression(self, c: Children) -> syntax.Expression:
        return syntax.ListExpression(_span(c), _without_tokens(c))

    def field_value(self, c: Children) -> _Items:
        result = _Items([c[0].text, c[2]])
        result.span = _span(c)
        return result

    def record_expression(self, c: Children) -> syntax.Expression:
        fields = [(item[0], item[1]) for item in _without_tokens(c)]
        return syntax.RecordExpression(_span(c), fields, _has(c, "DOTS"))

    def unary(self, c: Children) -> syntax.Expression:
        return syntax.Unary(_span(c), str(c[0]), c[1])

    def binary(self, c: Children) -> syntax.Expression:
        return syntax.Binary(_span(c), str(c[1]), c[0], c[2])

    def conditional(self, c: Children) -> syntax.Expression:
        return syntax.Conditional(_span(c), c[0], c[2], c[4])

    def cast(self, c: Children) -> syntax.Expression:
        return syntax.Cast(_span(c), c[1], c[3])

    def argument(self, c: Children) -> syntax.Argument:
        name = c[0].text if isinstance(c[0], _NameTokens) else None
        value = None if _is(c[-1], "UNDERSCORE") else c[-1]
        return syntax.Argument(_span(c), name, value)

    def expression_list(self, c: Children) -> _Items:
        result = _Items(_without_tokens(c))
        result.span = _span(c)
        return result

    def any_keyset(self, c: Children) -> syntax.Expression:
        return syntax.AnyKeyset(_span(c))

    def mask_keyset(self, c: Children) -> syntax.Expression:
        return syntax.MaskKeyset(_span(c), c[0], c[2])

    def range_keyset(self, c: Children) -> syntax.Expression:
        return syntax.RangeKeyset(_span(c), c[0], c[2])

    def tuple_keyset(self, c: Children) -> syntax.Expression:
        return syntax.TupleKeyset(_span(c), _without_tokens(c))

    # Declarations

    def constant_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        (reference,) = _take(c, syntax.TypeReference)
        return syntax.Constant(_span(c), self._annotations(c), name, span, reference, c[-2])

    def variable_without_semicolon(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        (reference,) = _take(c, syntax.TypeReference)
        initializer = c[-1] if _has(c, "ASSIGN") else None
        return syntax.Variable(_span(c), self._annotations(c), name, span, reference, initializer)

    def variable_declaration(self, c: Children) -> syntax.Node:
        node = self.variable_without_semicolon(c[:-1])
        node.span = _span(c)
        return node

    def instantiation(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        reference = _take(c, syntax.TypeReference)[0]
        body = next((list(child) for child in c if type(child) is _Items), [])
        return syntax.Instantiation(
            _span(c), self._annotations(c), name, span, reference, _take(c, syntax.Argument), body
        )

    def object_initializer(self, c: Children) -> _Items:
        return self.expression_list(c)

    def value_set(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        (reference,) = _take(c, syntax.TypeReference)
        return syntax.ValueSet(_span(c), self._annotations(c), name, span, reference, c[-4])

    def parameters(self, c: Children) -> _Items:
        result = _Parameters(_take(c, syntax.Parameter))
        result.span = _span(c)
        return result

    def parameter(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        (reference,) = _take(c, syntax.TypeReference)
        direction = next((str(item) for item in c if _is(item, "IN", "OUT", "INOUT")), "")
        default = c[-1] if _has(c, "ASSIGN") else None
        return syntax.Parameter(
            _span(c), self._annotations(c), name, span, direction, reference, default
        )

    def prototype(self, c: Children) -> syntax.Prototype:
        ((name, span),) = _names(c)
        return syntax.Prototype(_span(c), name, span, c[0], _type_parameters(c), list(c[-1]))

    def function_declaration(self, c: Children) -> syntax.Node:
        prototype, body = c[-2], c[-1]
        return syntax.Function(
            _span(c), self._annotations(c), prototype.name, prototype.name_span, prototype, body
        )

    def extern_function(self, c: Children) -> syntax.Node:
        prototype = c[-2]
        return syntax.ExternFunction(
            _span(c), self._annotations(c), prototype.name, prototype.name_span, prototype
        )

    def extern_object(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        methods = _take(c, syntax.Method)
        return syntax.ExternObject(
            _span(c), self._annotations(c), name, span, _type_parameters(c), methods
        )

    def method(self, c: Children) -> syntax.Node:
        prototype = c[-2]
        return syntax.Method(
            _span(c), self._annotations(c), prototype.name, prototype.name_span, prototype,
            is_abstract=_has(c, "ABSTRACT"),
        )  # fmt: skip

    def constructor(self, c: Children) -> syntax.Node:
        name = c[-3]
        span = span_of(name)
        prototype = syntax.Prototype(_span(c), str(name), span, None, [], list(c[-2]))
        return syntax.Method(
            _span(c), self._annotations(c), str(name), span, prototype, is_constructor=True
        )

    def action_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        return syntax.Action(_span(c), self._annotations(c), name, span, list(c[-2]), c[-1])

    def package_type(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        return syntax.PackageType(
            _span(c), self._annotations(c), name, span, _type_parameters(c), list(c[-2])
        )

    def struct_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        kind = next(str(item) for item in c if _is(item, "HEADER", "STRUCT", "HEADER_UNION"))
        return syntax.Struct(
            _span(c), self._annotations(c), name, span, kind, _type_parameters(c),
            _take(c, syntax.StructField),
        )  # fmt: skip

    def struct_field(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        return syntax.StructField(_span(c), self._annotations(c), name, span, c[-3])

    def enum_declaration(self, c: Children) -> syntax.Node:
        (name, span), *members = _names(c)
        return syntax.Enum(_span(c), self._annotations(c), name, span, members)

    def serializable_enum(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        (reference,) = _take(c, syntax.TypeReference)
        members = [(item[0], item[1], item[2]) for item in c if type(item) is _Items]
        return syntax.SerializableEnum(
            _span(c), self._annotations(c), name, span, reference, members
        )

    def enum_member(self, c: Children) -> _Items:
        result = _Items([c[0].text, c[0].span, c[2]])
        result.span = _span(c)
        return result

    def error_declaration(self, c: Children) -> syntax.Node:
        return syntax.ErrorDeclaration(_span(c), _names(c))

    def match_kind_declaration(self, c: Children) -> syntax.Node:
        return syntax.MatchKindDeclaration(_span(c), _names(c))

    def typedef_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        reference = c[-3]
        return syntax.Typedef(
            _span(c), self._annotations(c), name, span, reference, _has(c, "TYPE")
        )

    # Parsers and controls

    def _head(self, c: Children) -> tuple[str, Span, list[str], list[Any], list[Any]]:
        ((name, span),) = _names(c)
        lists = [child for child in c if isinstance(child, _Parameters)]
        constructor = list(lists[1]) if len(lists) > 1 else []
        return name, span, _type_parameters(c), list(lists[0]), constructor

    def parser_type(self, c: Children) -> syntax.Node:
        name, span, types, parameters, _ = self._head(c)
        return syntax.BlockType(
            _span(c), self._annotations(c), name, span, "parser", types, parameters
        )

    def control_type(self, c: Children) -> syntax.Node:
        name, span, types, parameters, _ = self._head(c)
        return syntax.BlockType(
            _span(c), self._annotations(c), name, span, "control", types, parameters
        )

    def parser_declaration(self, c: Children) -> syntax.Node:
        name, span, types, parameters, constructor = self._head(c)
        states = _take(c, syntax.ParserState)
        locals_ = [
            item
            for item in _take(c, syntax.Declaration)
            if not isinstance(item, syntax.ParserState)
        ]
        return syntax.Parser(
            _span(c), self._annotations(c), name, span, "parser", types, parameters, constructor,
            locals_, states,
        )  # fmt: skip

    def control_declaration(self, c: Children) -> syntax.Node:
        name, span, types, parameters, constructor = self._head(c)
        return syntax.Control(
            _span(c), self._annotations(c), name, span, "control", types, parameters, constructor,
            _take(c, syntax.Declaration), c[-2],
        )  # fmt: skip

    def parser_state(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        transition = next((item for item in c if isinstance(item, syntax.Transition)), None)
        body = _without_tokens(c)
        statements: list[syntax.Node] = [
            item for item in body if isinstance(item, (syntax.Statement, syntax.Declaration))
        ]
        return syntax.ParserState(
            _span(c), self._annotations(c), name, span, statements, transition
        )

    def transition(self, c: Children) -> syntax.Node:
        if isinstance(c[1], _NameTokens):
            return syntax.Transition(_span(c), c[1].text, [], None)
        keys, cases = c[1]
        return syntax.Transition(_span(c), None, keys, cases)

    def select_expression(self, c: Children) -> _Items:
        result = _Items([list(c[2]), _take(c, syntax.SelectCase)])
        result.span = _span(c)
        return result

    def select_case(self, c: Children) -> syntax.Node:
        return syntax.SelectCase(_span(c), c[0], c[2].text, c[2].span)

    # Tables

    def table_declaration(self, c: Children) -> syntax.Node:
        ((name, span),) = _names(c)
        table = syntax.Table(_span(c), self._annotations(c), name, span, [], [], [], False, {})
        for item in c:
            if isinstance(item, _Keys):
                table.keys += item
            elif isinstance(item, _Actions):
                table.actions += item
            elif isinstance(item, _Entries):
                table.entries += item
                table.entries_are_constant = item.constant
            elif isinstance(item, syntax.Property):
                table.properties.setdefault(item.name, item)
        return table

    def key_property(self, c: Children) -> _Items:
        result = _Keys(_take(c, syntax.KeyElement))
        result.span = _span(c)
        return result

    def key_element(self, c: Children) -> syntax.Node:
        return syntax.KeyElement(_span(c), c[0], c[2].text, c[2].span, self._annotations(c))

    def actions_property(self, c: Children) -> _Items:
        result = _Actions(_take(c, syntax.ActionReference))
        result.span = _span(c)
        return result

    def action_list_element(self, c: Children) -> syntax.ActionReference:
        reference: syntax.ActionReference = c[-2]
        reference.annotations = self._annotations(c)
        return reference

    def action_reference(self, c: Children) -> syntax.ActionReference:
        call = syntax.Call(_span(c), c[0], [], _take(c, syntax.Argument))
        return syntax.ActionReference(_span(c), call, len(c) > 1)

    def entries_property(self, c: Children) -> _Items:
        result = _Entries(_take(c, syntax.Entry))
        result.constant, result.span = _has(c, "CONST"), _span(c)
        return result

    def entry(self, c: Children) -> syntax.Node:
        priority = next((item[0] for item in c if type(item) is _Items), None)
        keyset = next(item for item in c if isinstance(item, syntax.Expression))
        (action,) = _take(c, syntax.ActionReference)
        return syntax.Entry(
            _span(c), _has(c, "CONST"), priority, keyset, action, self._annotations(c)
        )

    def entry_priority(self, c: Children) -> _Items:
        result = _Items([c[3] if len(c) == 6 else self.integer([c[2]])])
        result.span = _span(c)
        return result

    def table_property(self, c: Children) -> syntax.Node:
        ((name, _),) = _names(c)
        return syntax.Property(_span(c), self._annotations(c), name, _has(c, "CONST"), c[-2])

    # Statements

    def block(self, c: Children) -> syntax.Node:
        return syntax.Block(_span(c), self._annotations(c), _without_tokens(c))

    def assignment_statement(self, c: Children) -> syntax.Node:
        return syntax.Assignment(_span(c), c[0], str(c[1]), c[2])

    assignment_without_semicolon = assignment_statement

    def call_statement(self, c: Children) -> syntax.Node:
        return syntax.CallStatement(_span(c), self.call(c[:-1]))

    def call_without_semicolon(self, c: Children) -> syntax.Node:
        return syntax.CallStatement(_span(c), self.call(c))

    def direct_application(self, c: Children) -> syntax.Node:
        base = syntax.TypeExpression(c[0].span, c[0])
        member = syntax.Member(_span(c[:3]), base, str(c[2]), span_of(c[2]))
        call = syntax.Call(_span(c[:-1]), member, [], _take(c, syntax.Argument))
        return syntax.CallStatement(_span(c), call)

    def if_statement(self, c: Children) -> syntax.Node:
        return syntax.If(_span(c), c[2], c[4], c[6] if len(c) > 5 else None)

    def empty_statement(self, c: Children) -> syntax.Node:
        return syntax.Empty(_span(c))

    def return_statement(self, c: Children) -> syntax.Node:
        return syntax.Return(_span(c), c[1] if len(c) == 3 else None)

    def exit_statement(self, c: Children) -> syntax.Node:
        return syntax.Exit(_span(c))

    def break_statement(self, c: Children) -> syntax.Node:
        return syntax.Break(_span(c))

    def continue_statement(self, c: Children) -> syntax.Node:
        return syntax.Continue(_span(c))

    def switch_statement(self, c: Children) -> syntax.Node:
        return syntax.Switch(_span(c), c[2], _take(c, syntax.SwitchCase))

    def switch_case(self, c: Children) -> syntax.Node:
        return syntax.SwitchCase(_span(c), c[0], c[2] if len(c) > 2 else None)

    def for_initial(self, c: Children) -> _Items:
        return self.expression_list(c)

    for_update = for_initial

    def for_statement(self, c: Children) -> syntax.Node:
        return syntax.For(_span(c))

    for_in_statement = for_statement
