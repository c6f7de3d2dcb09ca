"""Annotations as P4Info has them: text, documentation, key-value lists and structured annotations.

P4_16 specification, section "Annotations"; P4Runtime specification, section "Annotating P4 code".
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.raw_token import RawToken
from weft.switch.compiler.types import StructType, Type

ParseAnnotation = Callable[[syntax.Annotation], list[syntax.Expression]]

_REPRESENTED_ELSEWHERE = {"name", "id", "brief", "description"}


def annotation_text(annotation: syntax.Annotation) -> str:
    """Return an annotation as P4Info has it: as p4c writes it, with a blank between tokens."""
    if not annotation.body:
        return f"@{annotation.name}"
    return f"@{annotation.name}({' '.join(token.text for token in annotation.body)})"


def string_of(annotation: syntax.Annotation) -> str | None:
    """Return the string in an annotation's brackets as it is written; None unless it stands there
    alone."""
    if len(annotation.body) == 1 and annotation.body[0].kind == "STRING_LITERAL":
        return annotation.body[0].text[1:-1]
    return None


def find(annotations: list[Any], name: str) -> syntax.Annotation | None:
    """Return the first annotation of a name; None if there is none."""
    return next((item for item in annotations if item.name == name), None)


def local_name(declaration: syntax.Declaration) -> str:
    """Return a declaration's name in the control plane: its own, or the one that ``@name``
    gives."""
    named = (item for item in declaration.annotations if item.name == "name" and item.body)
    texts = (item.body[0].text for item in named)
    return next((text[1:-1] for text in texts if text.startswith('"')), declaration.name)


def control_name(kind: Type) -> str:
    """Return a type's name in the control plane, which ``@name`` may change. That of a generic type
    has its arguments behind it, as p4c has it: ``pair_bit8_bool``."""
    declaration = getattr(kind, "declaration", None)
    if declaration is None:
        return str(getattr(kind, "name", kind))
    name = local_name(declaration)
    if not isinstance(kind, StructType) or name != declaration.name:
        return name
    arguments = (re.sub("[<> ]", "", control_name(each)) for each in kind.arguments)
    return "_".join([name, *arguments])


def field_name(kind: StructType, path: str) -> str:
    """Return a field's name, which ``@name`` may change; `path` is dotted in structs inside
    headers."""
    fields = getattr(kind.declaration, "fields", ())
    return next((local_name(item) for item in fields if item.name == path), path)


def has_annotation(annotations: list[syntax.Annotation], name: str) -> bool:
    """Return whether there is an annotation of a name."""
    return any(item.name == name for item in annotations)


def split(body: list[RawToken]) -> Iterator[list[RawToken]]:
    """Yield the parts between commas that are not inside brackets."""
    part: list[RawToken] = []
    depth = 0
    for token in body:
        depth += token.text in "([{"
        depth -= token.text in ")]}"
        if token.text == "," and not depth:
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def key_values(
    annotation: syntax.Annotation, parse: ParseAnnotation
) -> list[tuple[str, syntax.Expression, RawToken]] | None:
    """Return the ``key = value`` pairs of an annotation as key, value and the key's token. Return
    None if it holds anything else."""
    found: list[tuple[str, syntax.Expression, RawToken]] = []
    for part in split(annotation.body):
        if len(part) < 3 or part[1].text != "=":
            return None
        values = parse(
            syntax.Annotation(annotation.span, annotation.name, annotation.bracket, part[2:])
        )
        if len(values) != 1:
            return None
        found.append((part[0].text, values[0], part[0]))
    return found


def number_in(annotation: syntax.Annotation, parse: ParseAnnotation) -> int | None:
    """Return the number in an annotation's brackets; None unless one stands there alone."""
    values = [item.constant for item in parse(annotation)]
    return int(values[0]) if len(values) == 1 and isinstance(values[0], int) else None


@dataclass(eq=False)
class AnnotationWriter:
    """A writer puts annotations into messages of P4Info."""

    reporter: Reporter
    parse: ParseAnnotation

    def write(self, target: Any, annotations: list[Any], own: frozenset[str] = frozenset()) -> None:
        """Add annotations to a message, except those named in `own`, for which it has fields of
        their own."""
        for annotation in annotations:
            if annotation.bracket == "[":
                self._structured(target.structured_annotations.add(), annotation)
            elif annotation.name not in _REPRESENTED_ELSEWHERE | own:
                target.annotations.append(annotation_text(annotation))

    def document(self, target: Any, annotations: list[Any]) -> None:
        """Fill in `doc` from ``@brief`` and ``@description``."""
        for annotation in annotations:
            if annotation.name in ("brief", "description") and annotation.bracket == "(":
                text = string_of(annotation)
                if text is None:
                    self.reporter.error(annotation.span, f"@{annotation.name} takes one string")
                else:
                    setattr(target.doc, annotation.name, text)

    def number(self, annotation: syntax.Annotation) -> int:
        """Return the number in an annotation's brackets; report an error unless it stands there
        alone."""
        number = number_in(annotation, self.parse)
        self.reporter.error_if(
            number is None, annotation.span, f"@{annotation.name} takes one number"
        )
        return number or 0

    def _structured(self, target: Any, annotation: syntax.Annotation) -> None:
        target.name = annotation.name
        if not annotation.body:
            return
        has_pairs = len(annotation.body) > 1 and annotation.body[1].text == "="
        pairs = key_values(annotation, self.parse) if has_pairs else None
        if pairs is not None:
            for key, value, _ in pairs:
                pair = target.kv_pair_list.kv_pairs.add(key=key)
                self._literal(pair.value, value)
        else:
            for item in self.parse(annotation):
                self._literal(target.expression_list.expressions.add(), item)

    def _literal(self, target: Any, node: syntax.Expression) -> None:
        value = node.constant
        match value:
            case bool():
                target.bool_value = value
            case str():
                target.string_value = value
            case int() if -(1 << 63) <= value < 1 << 63:
                target.int64_value = value
            case _:
                self.reporter.error(
                    node.span,
                    "a structured annotation holds strings, truth values and numbers of 64 bits; "
                    "write a larger number as a string",
                )
