"""The mutants of a module: every small change that is made to its source.

The operators are those of PIT and mutmut (bounds and sense of comparisons, arithmetic, constants,
removed statements, returned values and so on). Only these are taken over: PIT is for Java, mutmut 2
and cosmic-ray write each mutant to the working tree and start pytest for it, which takes seconds
before a test has run, and none of them runs compiled kernels in their plain form.

Strings, f-strings, docstrings, annotations, decorators, imports and what only type checkers see are
left as they are. A plain name's assignment is not removed: the name would be missing, which any
test notices.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

OPERATORS: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("//",)),
    ast.Div: ("/", ("*",)),
    ast.FloorDiv: ("//", ("*",)),
    ast.Mod: ("%", ("*",)),
    ast.Pow: ("**", ("*",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.BitXor: ("^", ("&",)),
    ast.And: ("and", ("or",)),
    ast.Or: ("or", ("and",)),
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
"""How an operator is written, and what takes its place."""

UNARY = {ast.USub: "-", ast.Invert: "~", ast.Not: "not"}
"""Operators that are left out."""

EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any",
             "minimum": "maximum", "maximum": "minimum"}  # fmt: skip
"""Functions with the same arguments and the opposite meaning."""

Span = tuple[int, int]
"""Where a text begins and ends, in bytes of the source."""


@dataclass(frozen=True)
class Mutant:
    """One change to one module."""

    path: str
    """Of the module, from the checkout's root."""
    function: str
    """The qualified name of the function or class that is changed; empty at the module's level."""
    line: int
    """Where the change begins."""
    statement: int
    """The line of the statement that is changed, which tests reach or do not."""
    names: tuple[str, ...]
    """Of what is run when the module is imported: the names that it is known by."""
    operator: str
    before: str
    after: str
    span: Span
    text: str
    """What takes the place of the source's text at ``span``."""
    early: bool = False
    """Whether it takes effect when the module is imported, not when a function is called."""
    number: int = 1
    """Of the same changes to the same function, counted from 1."""

    @property
    def key(self) -> str:
        """What the mutant is called, whatever lines are added elsewhere."""
        place = f"{self.path}:{self.function}" if self.function else self.path
        more = f" #{self.number}" if self.number > 1 else ""
        return f"{place}: {self.before} -> {self.after}{more}"

    def applied(self, source: str) -> str:
        """The module's source with the change; lines stay where they were."""
        data = source.encode()
        first, end = self.span
        lost = data[first:end].count(b"\n") - self.text.count("\n")
        return (data[:first] + self.text.encode() + b"\\\n" * lost + data[end:]).decode()


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its source; each of them compiles."""
    found = _Finder(path, source).find()
    counts: Counter[tuple[str, str, str]] = Counter()
    numbered = []
    for mutant in sorted(found, key=lambda each: (each.span, each.text)):
        same = mutant.function, mutant.before, mutant.after
        counts[same] += 1
        numbered.append(replace(mutant, number=counts[same]))
    return numbered


@dataclass(frozen=True)
class _Place:
    function: str = ""
    statement: int = 1
    names: tuple[str, ...] = ()
    early: bool = True


class _Finder:
    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.data = source.encode()
        self.lines = [0]
        for line in self.data.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.tree = ast.parse(source)

    def find(self) -> Iterator[Mutant]:
        return self._block(self.tree.body, _Place())

    def _block(self, body: Iterable[ast.stmt], place: _Place) -> Iterator[Mutant]:
        for statement in body:
            if not _is_for_readers(statement):
                yield from self._statement(statement, place)

    def _statement(self, statement: ast.stmt, outer: _Place) -> Iterator[Mutant]:
        place = replace(outer, statement=statement.lineno)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = replace(
                place,
                function=_joined(outer.function, statement.name),
                names=(),
                early=False,
            )
            for default in (*statement.args.defaults, *statement.args.kw_defaults):
                if default is not None:
                    # Who calls the function reaches its defaults.
                    called = replace(inside, statement=_first_line(statement.body), early=True)
                    yield from self._expression(default, called)
            yield from self._block(statement.body, inside)
            return
        if isinstance(statement, ast.ClassDef):
            inside = replace(place, function=_joined(outer.function, statement.name))
            yield from self._block(statement.body, inside)
            return
        if outer.early:
            of_class = outer.function.rpartition(".")[2]
            names = (*_names_of(statement), *([of_class] if of_class else []))
            place = replace(place, names=names)
        yield from self._whole(statement, place)
        for name, value in ast.iter_fields(statement):
            if name in ("annotation", "target", "targets") and not _is_stored_at(value):
                continue
            if name == "test" and isinstance(statement, (ast.If, ast.While)):
                yield from self._condition(value, place)
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    yield from self._block([child], place)
                elif isinstance(child, ast.expr):
                    yield from self._expression(child, place)
                elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                    yield from self._block(child.body, place)
                elif isinstance(child, ast.withitem):
                    yield from self._expression(child.context_expr, place)

    def _whole(self, statement: ast.stmt, place: _Place) -> Iterator[Mutant]:
        span = self._span(statement)
        if isinstance(statement, ast.Return) and statement.value is not None:
            if not _is_none(statement.value):
                yield self._mutant(place, "returned value", statement, span, "return None")
        elif isinstance(statement, ast.Break):
            yield self._mutant(place, "break", statement, span, "continue")
        elif isinstance(statement, ast.Continue):
            yield self._mutant(place, "continue", statement, span, "break")
        elif _is_removable(statement):
            yield self._mutant(place, "removed statement", statement, span, "pass")
        if isinstance(statement, ast.AugAssign):
            yield from self._operator(statement, statement.op, place, statement.target,
                                      statement.value)  # fmt: skip

    def _condition(self, test: ast.expr, place: _Place) -> Iterator[Mutant]:
        """A condition without an operator of its own, the other way round."""
        if isinstance(test, (ast.Compare, ast.BoolOp, ast.Constant, ast.NamedExpr)):
            return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        yield self._mutant(place, "condition", test, self._span(test),
                           f"(not {self._text(test)})", f"not {ast.unparse(test)}")  # fmt: skip

    def _expression(self, node: ast.AST, place: _Place) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.BinOp):
            if not _is_type(node):
                yield from self._operator(node, node.op, place, node.left, node.right)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._operator(node, node.op, place, left, right)
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
                yield from self._operator(node, operator, place, left, right)
        elif isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            text = self._text(node)[len(UNARY[type(node.op)]) :].strip()
            yield self._mutant(
                place, "unary operator", node, self._span(node), text, ast.unparse(node.operand)
            )
        elif isinstance(node, ast.Constant):
            yield from self._constant(node, place)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in EXCHANGED and isinstance(node.ctx, ast.Load):
                end = self._span(node)[1]
                span = end - len(name), end
                yield self._mutant(place, "function", node, span, EXCHANGED[name],
                                   ast.unparse(node)[: -len(name)] + EXCHANGED[name])  # fmt: skip
        elif isinstance(node, ast.Slice):
            for bound in (node.lower, node.upper):
                if bound is not None:
                    yield self._slice(node, bound, place)
        elif isinstance(node, ast.IfExp):
            yield from self._condition(node.test, place)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from self._condition(test, place)
        for child in ast.iter_child_nodes(node):
            yield from self._expression(child, place)

    def _slice(self, node: ast.Slice, bound: ast.expr, place: _Place) -> Mutant:
        kept = ast.Slice(
            None if bound is node.lower else node.lower,
            None if bound is node.upper else node.upper,
            node.step,
        )
        return self._mutant(place, "slice", node, self._bracketed(bound), "", ast.unparse(kept))

    def _bracketed(self, node: ast.expr) -> Span:
        """Where a node is, with the parentheses around it."""
        first, end = self._span(node)
        while self.data[:first].rstrip()[-1:] == b"(" and self.data[end:].lstrip()[:1] == b")":
            first = len(self.data[:first].rstrip()) - 1
            end = len(self.data) - len(self.data[end:].lstrip()) + 1
        return first, end

    def _constant(self, node: ast.Constant, place: _Place) -> Iterator[Mutant]:
        if isinstance(node.value, bool):
            others = [str(not node.value)]
        elif isinstance(node.value, int):
            others = [str(node.value + 1), f"({node.value - 1})" if node.value < 1
                      else str(node.value - 1)]  # fmt: skip
        elif isinstance(node.value, float):
            others = [repr(node.value + 1.0)]
        else:
            return
        for other in others:
            yield self._mutant(place, "constant", node, self._span(node), other, other.strip("()"))

    def _operator(
        self, node: ast.AST, operator: ast.AST, place: _Place, left: ast.expr, right: ast.expr
    ) -> Iterator[Mutant]:
        symbol, others = OPERATORS.get(type(operator), ("", ()))
        if not symbol:
            return
        gap = self._span(left)[1], self._span(right)[0]
        between = self.data[gap[0] : gap[1]].decode()
        at = between.find(symbol)
        if at < 0:
            return  # written in two lines, or behind a comment
        first = gap[0] + len(between[:at].encode())
        whole = ast.unparse(node)
        start = len(ast.unparse(left))
        for other in others:
            span = first, first + len(symbol)
            after = f"{symbol} to {other}"
            if ast.unparse(node).count(f" {symbol} ") == 1:
                after = whole.replace(f" {symbol} ", f" {other} ")
            elif whole.startswith(f" {symbol} ", start):
                after = f"{whole[:start]} {other} {whole[start + len(symbol) + 2 :]}"
            elif isinstance(node, ast.AugAssign):
                after = whole.replace(f" {symbol}= ", f" {other}= ", 1)
            yield self._mutant(place, "operator", node, span, other, after, line=left.end_lineno)

    def _mutant(
        self,
        place: _Place,
        operator: str,
        node: ast.AST,
        span: Span,
        text: str,
        after: str | None = None,
        line: int | None = None,
    ) -> Mutant:
        before = ast.unparse(node)
        line = getattr(node, "lineno", place.statement) if line is None else line
        return Mutant(
            self.path, place.function, line, place.statement, place.names, operator, before,
            text if after is None else after, span, text, place.early,
        )  # fmt: skip

    def _span(self, node: ast.AST) -> Span:
        positions = [
            self.lines[getattr(node, f"{end}lineno") - 1] + getattr(node, f"{end}col_offset")
            for end in ("", "end_")
        ]
        return positions[0], positions[1]

    def _text(self, node: ast.AST) -> str:
        first, end = self._span(node)
        return self.data[first:end].decode()


def _joined(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _first_line(body: list[ast.stmt]) -> int:
    return next((each.lineno for each in body if not _is_for_readers(each)), body[0].lineno)


def _is_for_readers(statement: ast.stmt) -> bool:
    """Docstrings, imports, and what only type checkers see."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    if isinstance(statement, ast.ClassDef):
        return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in statement.bases)
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal))


def _is_removable(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    if isinstance(statement, ast.Assign):
        return _is_stored_at(statement.targets)
    return isinstance(statement, (ast.AugAssign, ast.Raise, ast.Delete))


def _is_stored_at(value: object) -> bool:
    """Whether what is assigned to are items or attributes, which were there before."""
    targets = value if isinstance(value, list) else [value]
    return all(isinstance(each, (ast.Attribute, ast.Subscript)) for each in targets)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_type(node: ast.BinOp) -> bool:
    """Whether ``A | B`` is a union of types, as far as can be seen."""
    known = {"int", "str", "float", "bytes", "bool", "list", "dict", "tuple"}
    return isinstance(node.op, ast.BitOr) and any(
        _is_none(side) or (isinstance(side, ast.Name) and side.id in known)
        for side in (node.left, node.right)
    )


def _names_of(statement: ast.stmt) -> tuple[str, ...]:
    targets: list[ast.AST] = []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return tuple(
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    )
