"""Lowering of parsers to BMv2's parse states.

A parser state becomes one parse state, or several where it has an ``if`` or runs another parser.
Select expressions become values and masks over byte-padded keys (docs/JSON_format.md, "parsers"),
ranges of numbers among them.
"""

from dataclasses import dataclass

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.diagnostics import NOWHERE, Abandon
from weft.switch.compiler.lower.body import BodyLowering, MakeExterns
from weft.switch.compiler.lower.expressions import Numbers
from weft.switch.compiler.lower.shared import Shared
from weft.switch.compiler.lower.storage import (
    BlockInstance,
    Environment,
    LoweredValue,
    applied,
    unique,
)
from weft.switch.compiler.simplify import leaves, simplify
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import BOOL, is_signed, scalar_width

MAXIMUM_CASES = 4096


def prefixes(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """Return the fewest (value, mask) pairs that cover `low` to `high`, both included, in `width`
    bits.

    There are none if `low` is larger than `high`.
    """
    full = (1 << width) - 1
    result: list[tuple[int, int]] = []
    while low <= high:
        size = (low & -low) or (1 << width)
        while size > high - low + 1:
            size >>= 1
        result.append((low, full & ~(size - 1)))
        low += size
    return result


@dataclass
class _ParserRun:
    """A parser that is being lowered has names for its states, and a state to which accept
    leads."""

    instance: BlockInstance
    environment: Environment
    prefix: str
    accept: str | None


class ParserLowering:
    """The lowering of parsers to states, those that they run included."""

    def __init__(self, shared: Shared, externs: MakeExterns) -> None:
        self.shared = shared
        self.body = BodyLowering(shared, externs, "parser", self._apply)
        self.writer = self.body.writer
        self.states: list[ir.ParseState] = []
        self.names: set[str] = set()
        self.running: _ParserRun | None = None

    def top_parser(
        self, instance: BlockInstance, arguments: list[LoweredValue], name: str = "parser"
    ) -> None:
        """Lower a parser that the architecture runs, which the JSON calls by a name."""
        self.states, self.names = [], set()
        self.shared.program.parsers.append(ir.LoweredParser(name, self.states))
        self.parser(_ParserRun(instance, applied(instance, arguments), "", None))

    def parser(self, running: _ParserRun) -> str:
        """Lower a parser's states; return the name of the first."""
        before, self.running = self.running, running
        parser = running.instance.declaration
        assert isinstance(parser, syntax.ParserDeclaration)
        reachable = parser.reachable()
        initial = self.writer.captured(
            lambda: self.body.expressions.declare_all(parser.locals, running.environment)
        )
        self.names |= {running.prefix + state.name for state in parser.states}
        first = running.prefix + "start"
        loops = any("start" in state.next_states() for state in parser.states)
        if initial and loops:
            # Variables are initialised once, also where 'start' is entered again.
            first = unique(running.prefix + "start_0", self.names)
            beginning = ir.ParseState(first)
            self.states.append(beginning)
            self.operations(initial, beginning, running.prefix + "start", {})
            initial = []
        for state in sorted(parser.states, key=lambda item: item.name != "start"):
            if state.name in reachable:
                self.state(state, initial if state.name == "start" else [], running)
        self.running = before
        return first

    def state(self, node: syntax.ParserState, initial: list[ir.Code], running: _ParserRun) -> None:
        """Lower a state; `initial` is the code that runs before its statements."""
        env = running.environment.inner()
        before, self.writer.span = self.writer.span, node.span
        transition = node.transition
        key: list[Numbers] = []

        def body() -> None:
            self.body.statements.statements(node.statements, env)
            if transition is not None and transition.cases is not None:
                for item in transition.keys:
                    self.writer.span = item.span
                    key.append(self._key_items(self.body.expressions.numbers(item, env), item))

        try:
            code = simplify(initial + self.writer.captured(body))
        except Abandon:
            self.writer.span = before
            return
        state = ir.ParseState(running.prefix + node.name, span=node.span)
        self.states.append(state)
        last = self.operations(code, state, None, {})
        if last is not None:
            last.transition_span = transition.span if transition else NOWHERE
            self._transition(transition, last, key, env, running)
        self.writer.span = before

    def _key_items(self, values: Numbers, node: syntax.Expression) -> Numbers:
        """Return keys that BMv2 can select on. What is no field of a header goes through a
        variable."""
        result: Numbers = []
        for expression, width in values:
            if isinstance(expression, ir.Number):  # BMv2 has no constant keys
                expression = ir.OperatorCall("|", expression, ir.Number(0))
            if not isinstance(expression, (ir.LastField, ir.LastUnionField, ir.HeaderField)):
                expression = self.body.expressions.stored_number(expression, width, node)
            result.append((expression, width))
        return result

    # Operations

    def operations(
        self, code: list[ir.Code], state: ir.ParseState, following: str | None,
        labels: dict[int, str | None],
    ) -> ir.ParseState | None:  # fmt: skip
        """Put code into `state`, and into more states where it branches.

        Return the state in which the code ends. If `following` is given that state goes on to it,
        and None is returned.
        """
        current: ir.ParseState | None = state
        for item in code:
            if current is None:
                break
            match item:
                case ir.Do():
                    current.operations.append(item)
                case ir.Labelled():
                    current = self._labelled(item, current, labels)
                case ir.Leave():
                    self._go(current, labels[item.label])
                    current = None
                case ir.Branch():
                    current = self._branch(item, current, labels)
                case ir.Repeat():
                    again = ir.ParseState(unique(f"{state.name}_again", self.names))
                    self._go(current, again.name)
                    self.states.append(again)
                    self.operations(item.body, again, again.name, labels)
                    current = None
                case ir.RunParser():
                    join = ir.ParseState(unique(f"{state.name}_after", self.names))
                    running: _ParserRun = item.parser
                    running.accept = join.name
                    self._go(current, self.parser(running))
                    self.states.append(join)
                    current = join
        if current is not None and following is not None:
            self._go(current, following)
            return None
        return current

    def _go(self, state: ir.ParseState, name: str | None) -> None:
        state.cases.append(ir.TransitionCase("default", name))

    def _labelled(
        self, item: ir.Labelled, current: ir.ParseState, labels: dict[int, str | None]
    ) -> ir.ParseState | None:
        if not leaves(item.body, item.label):
            return self.operations(item.body, current, None, labels)
        join = ir.ParseState(unique(f"{current.name}_after", self.names))
        self.operations(item.body, current, join.name, {**labels, item.label: join.name})
        self.states.append(join)
        return join

    def _branch(
        self, item: ir.Branch, current: ir.ParseState, labels: dict[int, str | None]
    ) -> ir.ParseState:
        """Lower ``if``: put its condition into a variable that the transition selects on."""
        field = self.writer.temporary_field(BOOL, "condition").field
        current.operations.append(
            ir.Do("assign", (field, arithmetic.number(item.condition)), item.span)
        )
        names = [
            unique(f"{current.name}_{side}", self.names) for side in ("true", "false", "after")
        ]
        join = ir.ParseState(names[2])
        current.key = [(field, 1)]
        current.cases = [
            ir.TransitionCase("hexstr", names[0], 1),
            ir.TransitionCase("default", names[1]),
        ]
        for name, code in zip(names, (item.then, item.otherwise), strict=False):
            side = ir.ParseState(name)
            self.states.append(side)
            self.operations(code, side, join.name, labels)
        self.states.append(join)
        return join

    def _apply(self, node: syntax.CallExpression, env: Environment) -> None:
        """Run another parser's states, then come back."""
        assert self.running is not None
        instance, callee, copies = self.body.instances.bound(node, env)
        name = f"{self.running.prefix}{instance.path.rsplit('.', 1)[-1]}"
        prefix, number = f"{name}.", 0
        while prefix + "start" in self.names:
            prefix, number = f"{name}_{number}.", number + 1
        self.names.add(prefix + "start")
        self.writer.code.append(ir.RunParser(_ParserRun(instance, callee, prefix, None), node.span))
        self.body.calls.copy_out(copies)

    # Transitions

    def _target(self, name: str, running: _ParserRun) -> str | None:
        match name:
            case "accept":
                return running.accept
            case "reject":
                return None  # BMv2 ends parsing, and notes the error
        return running.prefix + name

    def _transition(
        self, node: syntax.Transition | None, state: ir.ParseState, key: list[Numbers],
        env: Environment, running: _ParserRun,
    ) -> None:  # fmt: skip
        if node is None or node.cases is None:
            self._go(state, None if node is None else self._target(node.state or "", running))
            return
        state.key = [item for group in key for item in group]
        widths = [[width for _, width in group] for group in key]
        for case in node.cases:
            try:
                self._case(case, state, widths, env, running)
            except Abandon:
                continue
            if len(state.cases) > MAXIMUM_CASES:
                self.shared.reporter.error(
                    case.span, f"not supported: the ranges need more than {MAXIMUM_CASES} cases"
                )
                return
        if not any(case.kind == "default" for case in state.cases):
            self._go(state, self._no_match())

    def _no_match(self) -> str:
        """Return the state for selects of which no case matches; it signals error.NoMatch."""
        name = "no_match"
        if not any(state.name == name for state in self.states):
            verify = ir.Do(
                "verify", (ir.Truth(False), ir.Number(self.shared.program.errors.index("NoMatch")))
            )
            self.states.append(
                ir.ParseState(name, [verify], [], [ir.TransitionCase("default", None)])
            )
        return name

    def _case(
        self, case: syntax.SelectCase, state: ir.ParseState, widths: list[list[int]],
        env: Environment, running: _ParserRun,
    ) -> None:  # fmt: skip
        keyset = case.keyset
        following = self._target(case.state, running)
        match keyset:
            case syntax.AnyKeyset():
                if not any(item.kind == "default" for item in state.cases):
                    self._go(state, following)
                return
            case syntax.Name() if isinstance(keyset.declaration, syntax.ValueSetDeclaration):
                value = env.find(keyset.declaration)
                assert isinstance(value, ir.LoweredValueSet)
                value.is_used = True
                state.cases.append(ir.TransitionCase("parse_vset", following, value.name))
                return
        if any(item.kind == "default" for item in state.cases):
            return  # never reached
        items = keyset.items if isinstance(keyset, syntax.TupleKeyset) else [keyset]
        alternatives: list[list[tuple[int, int]]] = []
        for item, group in zip(items, widths, strict=True):
            if isinstance(item, syntax.AnyKeyset):
                alternatives += [[(0, 0)] for _ in group]
            elif not isinstance(item, _SETS) and scalar_width(type_of(item)) is None:
                for (number, _), width in zip(
                    self.body.expressions.numbers(item, env), group, strict=True
                ):
                    known = self.shared.reporter.needed(
                        number, ir.Number, item.span, "this must be known at compile time"
                    )
                    full = arithmetic.mask_of(width)
                    alternatives.append([(known.value & full, full)])
            else:
                alternatives.append(self._matches(item, group[0], env))
        flat = [width for _, width in state.key]
        ((_, full),) = _product([[(0, arithmetic.mask_of(width))] for width in flat], flat)
        for values, masks in _product(alternatives, flat):
            mask = None if masks == full else masks
            state.cases.append(ir.TransitionCase("hexstr", following, values & masks, mask))

    def _matches(
        self, node: syntax.Expression, width: int, env: Environment
    ) -> list[tuple[int, int]]:
        """Return the (value, mask) pairs that one key set stands for."""
        full = arithmetic.mask_of(width)
        known = self.body.expressions.known
        match node:
            case syntax.MaskKeyset():
                return [(known(node.value, env) & full, known(node.mask, env) & full)]
            case syntax.RangeKeyset():
                low, high = known(node.low, env), known(node.high, env)
                if is_signed(type_of(node.low)) and low < 0 <= high:
                    return [*prefixes(low & full, full, width), *prefixes(0, high, width)]
                return prefixes(low & full, high & full, width)
        return [(known(node, env) & full, full)]


_SETS = (syntax.MaskKeyset, syntax.RangeKeyset)


def _product(alternatives: list[list[tuple[int, int]]], widths: list[int]) -> list[tuple[int, int]]:
    combined: list[tuple[int, int]] = [(0, 0)]
    for options, width in zip(alternatives, widths, strict=True):
        shift = (width + 7) // 8 * 8
        combined = [
            ((value << shift) | more_value, (mask << shift) | more_mask)
            for value, mask in combined
            for more_value, more_mask in options
        ]
        if len(combined) > MAXIMUM_CASES:
            return combined
    return combined
