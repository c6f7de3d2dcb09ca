"""Builds the syntax tree: what each rule of grammar.lark becomes, once the parser reduces it."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import lark

from weft.switch.compiler import syntax
from weft.switch.compiler.constants import wrap
from weft.switch.compiler.diagnostics import NOWHERE, Span
from weft.switch.compiler.types import IntType

Children = list[Any]
_BASES = {"x": 16, "o": 8, "b": 2}
_INTEGER = re.compile(r"((?P<width>\d+)(?P<sign>[ws]))?(0(?P<base>[xobd]))?(?P<digits>\w*)")


class Items(list[Any]):
    """A rule becomes a list, with its span."""

    def __init__(self, items: Iterable[Any], children: Children) -> None:
        super().__init__(items)
        self.span = span_of_all(children)


class NameTokens(Items):
    """A declared name stands here."""

    @property
    def text(self) -> str:
        """Return the name."""
        return str(self[0])


class TypeParameters(Items):
    """The names in angle brackets behind a declared name stand here."""


class TypeArguments(Items):
    """The types in angle brackets behind the name of a type or of what is called stand here."""


class Parameters(Items):
    """The parameters in round brackets stand here."""


class Keys(Items):
    """The elements of a table's ``key`` stand here."""


class Actions(Items):
    """The references in a table's ``actions`` stand here."""


class Entries(Items):
    """The entries in a table's ``entries`` stand here."""

    constant = False


def span_of(child: Any) -> Span:
    """Return the span of a node, a token or a list of them."""
    if isinstance(child, lark.Token):
        return child.raw.span  # type: ignore[attr-defined, no-any-return]
    return child.span if isinstance(child, (syntax.SyntaxNode, Items)) else NOWHERE


def span_of_all(children: Sequence[Any]) -> Span:
    """Return the span from the first child to the last."""
    return span_of(children[0]).to(span_of(children[-1])) if children else NOWHERE


def is_token(child: Any, *kinds: str) -> bool:
    """Return whether a child is a token of one of these kinds."""
    return isinstance(child, lark.Token) and child.type in kinds


def has_token(children: Children, kind: str) -> bool:
    """Return whether a token of this kind is among the children."""
    return any(is_token(child, kind) for child in children)


def without_tokens(children: Children) -> Children:
    """Return the children that are no tokens."""
    return [child for child in children if not isinstance(child, lark.Token)]


def take(children: Children, *kinds: type) -> list[Any]:
    """Return the children of these kinds."""
    return [child for child in children if isinstance(child, kinds)]


def first(children: Children, *kinds: type) -> Any:
    """Return the first child of these kinds; None if there is none."""
    return next((child for child in children if isinstance(child, kinds)), None)


def plain_items(children: Children) -> list[Items]:
    """Return the children that are lists of no particular kind."""
    return [child for child in children if type(child) is Items]


def names_in(children: Children) -> list[tuple[str, Span]]:
    """Return the names that are declared, each with its span."""
    return [(item.text, item.span) for item in take(children, NameTokens)]


def annotations_in(children: Children) -> list[syntax.Annotation]:
    """Return the annotations among the children."""
    return [
        syntax.Annotation(child.raw.span, child.raw.text, child.raw.bracket, child.raw.body)
        for child in children
        if is_token(child, "ANNOTATION")
    ]


def type_parameters_in(children: Children) -> list[str]:
    """Return the names of the type parameters; none if there are no brackets for them."""
    return list(first(children, TypeParameters) or ())


def declared(children: Children) -> tuple[Span, list[syntax.Annotation], str, Span]:
    """Return what every declaration begins with: its span, annotations, name and the name's
    span."""
    ((name, span),) = names_in(children)
    return span_of_all(children), annotations_in(children), name, span


def parse_integer(text: str) -> tuple[int, int | None, bool]:
    """Return an integer literal's value, width (None if it has none) and whether it is signed."""
    found = _INTEGER.fullmatch(text.replace("_", "").lower())
    assert found is not None
    width = None if found["width"] is None else int(found["width"])
    value = int(found["digits"] or "0", _BASES.get(found["base"], 10))
    if width is None or found["sign"] == "w":
        return value, width, False
    return wrap(value, IntType(width)), width, True


def _integer(c: Children) -> syntax.Expression:
    return syntax.IntegerLiteral(span_of_all(c), *parse_integer(str(c[0])), str(c[0]))


def _named_type(c: Children) -> syntax.TypeReference:
    arguments = list(c[-1]) if isinstance(c[-1], TypeArguments) else []
    name = c[1] if is_token(c[0], "DOT") else c[0]
    return syntax.NamedTypeReference(span_of_all(c), str(name), arguments)


def _of_type(c: Children, reference: syntax.TypeReference) -> syntax.Expression:
    """Return ``type.name``."""
    return syntax.MemberAccess(
        span_of_all(c), syntax.TypeExpression(reference.span, reference), c[2].text, c[2].span
    )


def _slice(c: Children) -> syntax.Expression:
    if is_token(c[3], "PLUS_COLON"):
        return syntax.Slice(span_of_all(c), c[0], c[4], c[2], low_and_width=True)
    return syntax.Slice(span_of_all(c), c[0], c[2], c[4])


def _call(c: Children) -> syntax.CallExpression:
    types = list(c[1]) if isinstance(c[1], TypeArguments) else []
    return syntax.CallExpression(span_of_all(c), c[0], types, take(c, syntax.Argument))


def _argument(c: Children) -> syntax.Argument:
    name = c[0].text if isinstance(c[0], NameTokens) else None
    return syntax.Argument(span_of_all(c), name, None if is_token(c[-1], "UNDERSCORE") else c[-1])


def _values(c: Children) -> Items:
    return Items(without_tokens(c), c)


Rules = dict[str, Callable[[Children], object]]

_EXPRESSIONS: Rules = {
    "name": lambda c: NameTokens(c, c),
    "dotted_name": lambda c: syntax.Name(span_of_all(c), str(c[-1]), len(c) > 1),
    # Types
    "base_type": lambda c: syntax.BaseTypeReference(span_of_all(c), str(c[0])),
    "sized_type": lambda c: syntax.BaseTypeReference(span_of_all(c), str(c[0]), c[1][0]),
    "width": lambda c: Items([c[1]], c),
    "named_type": _named_type,
    "type_arguments": lambda c: TypeArguments(without_tokens(c), c),
    "type_parameters": lambda c: TypeParameters([name for name, _ in names_in(c)], c),
    "stack_type": lambda c: syntax.StackTypeReference(span_of_all(c), c[0], c[2]),
    "tuple_type": lambda c: syntax.TupleTypeReference(span_of_all(c), without_tokens(c)),
    "list_type": lambda c: syntax.TupleTypeReference(span_of_all(c), without_tokens(c), True),
    # Expressions
    "integer": _integer,
    "string": lambda c: syntax.StringLiteral(span_of_all(c), str(c[0])[1:-1]),
    "boolean": lambda c: syntax.BooleanLiteral(span_of_all(c), str(c[0]) == "true"),
    "name_expression": lambda c: (
        c[0] if isinstance(c[0], syntax.Name) else syntax.Name(span_of_all(c), str(c[0]))
    ),
    "dots": lambda c: syntax.Dots(span_of_all(c)),
    "invalid_header": lambda c: syntax.InvalidHeader(span_of_all(c)),
    "parenthesized": lambda c: c[1],
    "type_member": lambda c: _of_type(c, c[0]),
    "error_member": lambda c: _of_type(c, syntax.BaseTypeReference(span_of(c[0]), "error")),
    "constructor_call": lambda c: syntax.CallExpression(
        span_of_all(c), syntax.TypeExpression(c[0].span, c[0]), [], take(c, syntax.Argument)
    ),
    "member": lambda c: syntax.MemberAccess(span_of_all(c), c[0], c[2].text, c[2].span),
    "index": lambda c: syntax.Index(span_of_all(c), c[0], c[2]),
    "slice": _slice,
    "call": _call,
    "list_expression": lambda c: syntax.ListExpression(span_of_all(c), without_tokens(c)),
    "field_value": lambda c: Items([c[0].text, c[2]], c),
    "record_expression": lambda c: syntax.RecordExpression(
        span_of_all(c), [(name, value) for name, value in without_tokens(c)], has_token(c, "DOTS")
    ),
    "unary": lambda c: syntax.Unary(span_of_all(c), str(c[0]), c[1]),
    "binary": lambda c: syntax.Binary(span_of_all(c), str(c[1]), c[0], c[2]),
    "conditional": lambda c: syntax.Conditional(span_of_all(c), c[0], c[2], c[4]),
    "cast": lambda c: syntax.CastExpression(span_of_all(c), c[1], c[3]),
    "argument": _argument,
    "expression_list": _values,
    # Key sets
    "any_keyset": lambda c: syntax.AnyKeyset(span_of_all(c)),
    "mask_keyset": lambda c: syntax.MaskKeyset(span_of_all(c), c[0], c[2]),
    "range_keyset": lambda c: syntax.RangeKeyset(span_of_all(c), c[0], c[2]),
    "tuple_keyset": lambda c: syntax.TupleKeyset(span_of_all(c), without_tokens(c)),
}


def _variable(c: Children) -> syntax.Variable:
    return syntax.Variable(
        *declared(c), first(c, syntax.TypeReference), first(c, syntax.Expression)
    )


def _instantiation(c: Children) -> syntax.Instantiation:
    body = [list(items) for items in plain_items(c)]
    reference = take(c, syntax.TypeReference)[0]
    return syntax.Instantiation(
        *declared(c), reference, take(c, syntax.Argument), body[0] if body else None
    )


def _parameter(c: Children) -> syntax.Parameter:
    direction = next((str(item) for item in c if is_token(item, "IN", "OUT", "INOUT")), "")
    return syntax.Parameter(
        *declared(c), direction, first(c, syntax.TypeReference), first(c, syntax.Expression)
    )


def _prototype(c: Children) -> syntax.Prototype:
    ((name, span),) = names_in(c)
    return syntax.Prototype(span_of_all(c), name, span, c[0], type_parameters_in(c), list(c[-1]))


def _of_prototype(
    c: Children,
) -> tuple[Span, list[syntax.Annotation], str, Span, syntax.Prototype]:
    """Return what the declaration of something with a prototype begins with."""
    prototype = first(c, syntax.Prototype)
    return span_of_all(c), annotations_in(c), prototype.name, prototype.name_span, prototype


def _constructor(c: Children) -> syntax.Method:
    name, span = str(c[-3]), span_of(c[-3])
    prototype = syntax.Prototype(span_of_all(c), name, span, None, [], list(c[-2]))
    return syntax.Method(
        span_of_all(c), annotations_in(c), name, span, prototype, is_constructor=True
    )


def _struct(c: Children) -> syntax.Struct:
    kind = next(str(item) for item in c if is_token(item, "HEADER", "STRUCT", "HEADER_UNION"))
    return syntax.Struct(*declared(c), kind, type_parameters_in(c), take(c, syntax.StructField))


def _enum(c: Children) -> syntax.Enum:
    (name, span), *members = names_in(c)
    return syntax.Enum(span_of_all(c), annotations_in(c), name, span, members)


_DECLARATIONS: Rules = {
    "constant_declaration": lambda c: syntax.Constant(
        *declared(c), first(c, syntax.TypeReference), c[-2]
    ),
    "variable_without_semicolon": _variable,
    "variable_declaration": _variable,
    "instantiation": _instantiation,
    "object_initializer": _values,
    "value_set": lambda c: syntax.ValueSetDeclaration(
        *declared(c), first(c, syntax.TypeReference), c[-4]
    ),
    "parameters": lambda c: Parameters(take(c, syntax.Parameter), c),
    "parameter": _parameter,
    "prototype": _prototype,
    "function_declaration": lambda c: syntax.Function(*_of_prototype(c), c[-1]),
    "extern_function": lambda c: syntax.ExternFunction(*_of_prototype(c)),
    "extern_object": lambda c: syntax.ExternObject(
        *declared(c), type_parameters_in(c), take(c, syntax.Method)
    ),
    "method": lambda c: syntax.Method(*_of_prototype(c), is_abstract=has_token(c, "ABSTRACT")),
    "constructor": _constructor,
    "action_declaration": lambda c: syntax.ActionDeclaration(*declared(c), list(c[-2]), c[-1]),
    "package_type": lambda c: syntax.PackageType(
        *declared(c), type_parameters_in(c), list(c[-2])
    ),
    "struct_declaration": _struct,
    "struct_field": lambda c: syntax.StructField(*declared(c), c[-3]),
    "enum_declaration": _enum,
    "serializable_enum": lambda c: syntax.SerializableEnum(
        *declared(c), first(c, syntax.TypeReference),
        [(name, span, value) for name, span, value in plain_items(c)],
    ),
    "enum_member": lambda c: Items([c[0].text, c[0].span, c[2]], c),
    "error_declaration": lambda c: syntax.ErrorDeclaration(span_of_all(c), names_in(c)),
    "match_kind_declaration": lambda c: syntax.MatchKindDeclaration(span_of_all(c), names_in(c)),
    "typedef_declaration": lambda c: syntax.Typedef(*declared(c), c[-3], has_token(c, "TYPE")),
}  # fmt: skip


def _head(
    c: Children, kind: str
) -> tuple[Span, list[syntax.Annotation], str, Span, str, list[str], list[syntax.Parameter]]:
    """Return what parsers, controls and their types begin with."""
    return *declared(c), kind, type_parameters_in(c), list(first(c, Parameters))


def _constructor_parameters(c: Children) -> list[syntax.Parameter]:
    return [item for parameters in take(c, Parameters)[1:] for item in parameters]


def _parser(c: Children) -> syntax.ParserDeclaration:
    states = take(c, syntax.ParserState)
    locals_ = [item for item in take(c, syntax.Declaration) if item not in states]
    return syntax.ParserDeclaration(
        *_head(c, "parser"), _constructor_parameters(c), locals_, states
    )


def _transition(c: Children) -> syntax.Transition:
    if isinstance(c[1], NameTokens):
        return syntax.Transition(span_of_all(c), c[1].text, [], None)
    return syntax.Transition(span_of_all(c), None, *c[1])


_TABLE_PARTS = {Keys: "key", Actions: "actions", Entries: "entries"}


def _table(c: Children) -> syntax.TableDeclaration:
    table = syntax.TableDeclaration(*declared(c), [], [], [], False, {})
    given: set[str] = set()
    for item in take(c, syntax.Property, *_TABLE_PARTS):
        name = item.name if isinstance(item, syntax.Property) else _TABLE_PARTS[type(item)]
        if name in given:
            table.repeated.append((name, item.span))
        given.add(name)
        match item:
            case Keys():
                table.keys += item
                table.entries_first = "entries" in given
            case Actions():
                table.actions += item
                table.has_actions = True
                table.default_action_first = "default_action" in given
            case Entries():
                table.entries += item
                table.entries_are_constant = item.constant
            case _:
                table.properties.setdefault(name, item)
    return table


def _entries(c: Children) -> Entries:
    result = Entries(take(c, syntax.Entry), c)
    result.constant = has_token(c, "CONST")
    return result


def _entry(c: Children) -> syntax.Entry:
    priority = next((items[0] for items in plain_items(c)), None)
    keyset, action = first(c, syntax.Expression), first(c, syntax.ActionReference)
    return syntax.Entry(
        span_of_all(c), has_token(c, "CONST"), priority, keyset, action, annotations_in(c)
    )


_BLOCKS: Rules = {
    "parser_type": lambda c: syntax.BlockType(*_head(c, "parser")),
    "control_type": lambda c: syntax.BlockType(*_head(c, "control")),
    "parser_declaration": _parser,
    "control_declaration": lambda c: syntax.ControlDeclaration(
        *_head(c, "control"), _constructor_parameters(c), take(c, syntax.Declaration), c[-2]
    ),
    "parser_state": lambda c: syntax.ParserState(
        *declared(c), take(c, syntax.Statement, syntax.Declaration), first(c, syntax.Transition)
    ),
    "transition": _transition,
    "select_expression": lambda c: Items(
        [list(first(c, Items) or []), take(c, syntax.SelectCase)], c
    ),
    "select_case": lambda c: syntax.SelectCase(span_of_all(c), c[0], c[2].text, c[2].span),
    "table_declaration": _table,
    "key_property": lambda c: Keys(take(c, syntax.KeyElement), c),
    "key_element": lambda c: syntax.KeyElement(
        span_of_all(c), c[0], c[2].text, c[2].span, annotations_in(c)
    ),
    "actions_property": lambda c: Actions(take(c, syntax.ActionReference), c),
    "action_list_element": lambda c: replace(c[-2], annotations=annotations_in(c)),
    "action_reference": lambda c: syntax.ActionReference(
        span_of_all(c), syntax.CallExpression(span_of_all(c), c[0], [], take(c, syntax.Argument))
    ),
    "entries_property": _entries,
    "entry": _entry,
    "entry_priority": lambda c: Items([c[3] if len(c) == 6 else _integer([c[2]])], c),
    "table_property": lambda c: syntax.Property(
        span_of_all(c), annotations_in(c), names_in(c)[0][0], has_token(c, "CONST"), c[-2]
    ),
}


def _direct_application(c: Children) -> syntax.CallStatement:
    base = syntax.TypeExpression(c[0].span, c[0])
    member = syntax.MemberAccess(span_of_all(c[:3]), base, str(c[2]), span_of(c[2]))
    return syntax.CallStatement(
        span_of_all(c),
        syntax.CallExpression(span_of_all(c[:-1]), member, [], take(c, syntax.Argument)),
    )


def _assignment(c: Children) -> syntax.Assignment:
    return syntax.Assignment(span_of_all(c), c[0], str(c[1]), c[2])


def _for_in(c: Children) -> syntax.ForIn:
    ((name, span),) = names_in(c)
    reference = first(c, syntax.TypeReference)
    variable = syntax.Variable(
        reference.span.to(span), annotations_in(c), name, span, reference, None
    )
    collection = (
        syntax.RangeKeyset(c[-5].span.to(c[-3].span), c[-5], c[-3])
        if has_token(c, "RANGE")
        else c[-3]
    )
    return syntax.ForIn(span_of_all(c), variable, collection, c[-1])


_STATEMENTS: Rules = {
    "block": lambda c: syntax.Block(span_of_all(c), annotations_in(c), without_tokens(c)),
    "assignment_statement": _assignment,
    "assignment_without_semicolon": _assignment,
    "call_statement": lambda c: syntax.CallStatement(span_of_all(c), _call(c[:-1])),
    "call_without_semicolon": lambda c: syntax.CallStatement(span_of_all(c), _call(c)),
    "direct_application": _direct_application,
    "if_statement": lambda c: syntax.If(span_of_all(c), c[2], c[4], c[6] if len(c) > 5 else None),
    "empty_statement": lambda c: syntax.Empty(span_of_all(c)),
    "return_statement": lambda c: syntax.Return(span_of_all(c), c[1] if len(c) == 3 else None),
    "exit_statement": lambda c: syntax.Exit(span_of_all(c)),
    "break_statement": lambda c: syntax.Break(span_of_all(c)),
    "continue_statement": lambda c: syntax.Continue(span_of_all(c)),
    "switch_statement": lambda c: syntax.SwitchStatement(
        span_of_all(c), c[2], take(c, syntax.SwitchCase)
    ),
    "switch_case": lambda c: syntax.SwitchCase(span_of_all(c), c[0], c[2] if len(c) > 2 else None),
    "for_initial": _values,
    "for_update": _values,
    "for_statement": lambda c: syntax.For(span_of_all(c), list(c[-7]), c[-5], list(c[-3]), c[-1]),
    "for_in_statement": _for_in,
}

TREE_BUILDER = SimpleNamespace(**_EXPRESSIONS, **_DECLARATIONS, **_BLOCKS, **_STATEMENTS)
"""The functions that lark calls with a rule's children, by the names of the rules, or those that
the grammar gives to their alternatives."""
