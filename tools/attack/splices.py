"""P4 programs made of parts of others: what stands in a place of a syntax tree is put into others
of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import Reporter, Span
from weft.switch.compiler.parse.parser import parse_program
from weft.switch.compiler.parse.preprocess import preprocess

_KINDS: tuple[type[syntax.SyntaxNode], ...] = (
    syntax.Parameter, syntax.StructField, syntax.ParserState, syntax.Declaration, syntax.Statement,
    syntax.TypeReference, syntax.Expression, syntax.Annotation, syntax.KeyElement,
    syntax.ActionReference, syntax.Entry, syntax.Property, syntax.SelectCase, syntax.SwitchCase,
    syntax.Transition,
)  # fmt: skip
"""What can stand in each other's place; the first that fits a node is its kind."""

_ODD = (
    "0", "-1", "8w0", "8s255", "1w1", "65536w1", "99999999999999999999", "true", '"text"', "{#}",
    "{ }", "{ 1, ... }", "...", "{ x = 1 }", "error.NoError", "(bit<8>) 1", "hdr", "meta", "hdr.h",
    "this", "_", "default", "1 &&& 1", "1 .. 2", "exact", "NoAction", "NoAction()", "f<bit<8>>(1)",
)  # fmt: skip
_ODD_TYPES = (
    "bit<0>", "bit<65536>", "int<1>", "varbit<8>", "void", "string", "error", "match_kind", "int",
    "tuple<>", "tuple<bit<8>, bool>", "list<bit<8>>", "bit<8>[2]", "packet_in", "headers_t",
    "register<bit<8>>", "bit<(1 + 1)>",
)  # fmt: skip


class Splicer:
    """A splicer has some programs, and puts parts of them into each other."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.texts: dict[Path, str] = {}
        self.places: dict[Path, list[tuple[str, int, int]]] = {}
        self.parts: dict[str, list[str]] = {"Expression": [*_ODD], "TypeReference": [*_ODD_TYPES]}
        for path in paths:
            text = self.texts[path] = path.read_text()
            self.places[path] = list(_places(path, text))
            for kind, begin, end in self.places[path]:
                self.parts.setdefault(kind, []).append(text[begin:end])

    def splice(self, random: Random) -> str:
        """Return a program in which a few parts are replaced, doubled or left out."""
        path = random.choice(list(self.texts))
        text, places = self.texts[path], self.places[path]
        chosen = random.sample(places, min(len(places), random.choice((1, 1, 1, 2, 4))))
        for kind, begin, end in sorted(chosen, key=lambda place: -place[1]):
            own = text[begin:end]
            near = [self.texts[path][one:other] for what, one, other in places if what == kind]
            match random.randrange(10):
                case 0:
                    new = ""
                case 1:
                    new = f"{own} {random.choice(near)}"
                case 2:
                    new = random.choice(self.parts[random.choice(list(self.parts))])
                case 3 | 4 | 5:
                    new = random.choice(self.parts[kind])
                case _:  # whose names are known here
                    new = random.choice(near)
            text = f"{text[:begin]}{new}{text[end:]}"
        # Includes are looked for beside a file, and the program that is made is elsewhere.
        return text.replace('#include "', f'#include "{path.parent}/')


def _places(path: Path, text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the kind, beginning and end of each part of a program that is in its own file."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column - 1

    preprocessed = preprocess(path, (), {})
    program = parse_program(preprocessed, Reporter(preprocessed.sources))
    own = program.declarations[-1].span.file  # what a program includes stands before its last part
    seen: set[Span] = set()
    for declaration in program.declarations:
        for node in syntax.walk(declaration):
            span = node.span
            kind = next((kind for kind in _KINDS if isinstance(node, kind)), None)
            if kind is None or span.file != own or span in seen:
                continue
            seen.add(span)
            begin, end = offset(span.line, span.column), offset(span.end_line, span.end_column)
            if begin < end:
                yield kind.__name__, begin, end
