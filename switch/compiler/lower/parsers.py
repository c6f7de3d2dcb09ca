"""Lowering of parsers to BMv2's parse states.

A parser state becomes one parse state, or several where it has an ``if`` or runs another parser.
Select expressions become values and masks over byte-padded keys (docs/JSON_format.md, "parsers").
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.check.calls import Target
from weft.switch.compiler.check.operations import type_of
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.lower.controls import ControlLowering, of_instance
from weft.switch.compiler.ranges import prefixes
from weft.switch.compiler.shared import Shared
from weft.switch.compiler.simplify import leaves, simplify
from weft.switch.compiler.storage import FieldPlace
from weft.switch.compiler.types import BOOL, is_signed, scalar_width
from weft.switch.compiler.values import BlockInstance, Environment, ValueSetInstance, applied

MAXIMUM_CASES = 4096


@dataclass
class _Running:
    """A parser that is being lowered: what its states are called, and where accept leads."""

    instance: BlockInstance
    environment: Environment
    prefix: str
    accept: str | None


class ParserLowering(ControlLowering):
    context = "parser"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.states: list[ir.State] = shared.program.states
        self.names: set[str] = set()
        self.running: _Running

    def top_parser(self, instance: BlockInstance, arguments: list[object]) -> None:
        """Lower the parser that the architecture runs."""
        parser = instance.declaration
        assert isinstance(parser, syntax.Parser)
        env = applied(instance)
        for parameter, argument in zip(parser.parameters, arguments, strict=True):
            env.bind(parameter, argument)  # type: ignore[arg-type]
        self.parser(_Running(instance, env, "", None))

    def parser(self, running: _Running) -> str:
        """Lower a parser's states; the name of the first."""
        before = getattr(self, "running", None)
        self.running = running
        parser = running.instance.declaration
        assert isinstance(parser, syntax.Parser)

        def variables() -> None:
            for item in parser.locals:
                if isinstance(item, syntax.Variable):
                    self.declare_variable(item, running.environment)
                    self.initialize_variable(item, running.environment)

        reachable = _reachable(parser)
        initial = self.captured(variables)
        for state in parser.states:
            self.names.add(running.prefix + state.name)
        first = running.prefix + "start"
        loops = any(_leads_to(state, "start") for state in parser.states)
        if initial and loops:
            # Variables are initialised once, also where 'start' is entered again.
            first = self.fresh(running.prefix + "start_0")
            beginning = ir.State(first)
            self.states.append(beginning)
            self.operations(initial, beginning, running.prefix + "start", {})
            initial = []
        for state in sorted(parser.states, key=lambda item: item.name != "start"):
            if state.name in reachable:
                self.state(state, initial if state.name == "start" else [], running)
        if before is not None:
            self.running = before
        return first

    def fresh(self, name: str) -> str:
        candidate, count = name, 0
        while candidate in self.names:
            candidate, count = f"{name}_{count}", count + 1
        self.names.add(candidate)
        return candidate

    def state(self, node: syntax.ParserState, initial: list[ir.Code], running: _Running) -> None:
        env = Environment(running.environment, running.environment.path)
        before, self.span = self.span, node.span
        transition = node.transition
        key: list[_KeyGroup] = []

        def body() -> None:
            self.statements(node.statements, env)
            if transition is not None and transition.cases is not None:
                for item in transition.keys:
                    self.span = item.span
                    values = self.flat(self.value(item, env), type_of(item), item)
                    key.append(self._key_items(values, item))

        try:
            code = simplify(initial + self.captured(body))
        except Abandon:
            self.span = before
            return
        state = ir.State(running.prefix + node.name)
        self.states.append(state)
        last = self.operations(code, state, None, {})
        if last is not None:
            self._transition(transition, last, key, env, running)
        self.span = before

    def _key_items(
        self, values: list[tuple[ir.Expression, int]], node: syntax.Expression
    ) -> list[tuple[ir.Expression, int]]:
        """Keys that BMv2 can select on: fields of headers, others through a variable."""
        result: list[tuple[ir.Expression, int]] = []
        for expression, width in values:
            if isinstance(expression, (ir.LastField, ir.LastUnionField)):
                result.append((expression, width))
            else:
                # A number too: BMv2 has no constant keys.
                if isinstance(expression, ir.Number):
                    expression = ir.Operation("|", expression, ir.Number(0))
                result += self.stored([(expression, width)], node)
        return result

    # Operations

    def operations(
        self, code: list[ir.Code], state: ir.State, following: str | None,
        labels: dict[int, str | None],
    ) -> ir.State | None:  # fmt: skip
        """Put code into `state`, and into more states where it branches.

        The state in which the code ends. With `following`, that one goes on to it, and None is
        returned.
        """
        current: ir.State | None = state
        for item in code:
            if current is None:
                break
            if isinstance(item, ir.Do):
                current.operations.append(item)
            elif isinstance(item, ir.Labelled):
                current = self._labelled(item, current, labels)
            elif isinstance(item, ir.Leave):
                self._go(current, labels[item.label])
                current = None
            elif isinstance(item, ir.Branch):
                current = self._branch(item, current, labels)
            elif isinstance(item, ir.Repeat):
                again = ir.State(self.fresh(f"{state.name}_again"))
                self._go(current, again.name)
                self.states.append(again)
                self.operations(item.body, again, again.name, labels)
                current = None
            elif isinstance(item, ir.RunParser):
                join = ir.State(self.fresh(f"{state.name}_after"))
                running: _Running = item.parser
                running.accept = join.name
                self._go(current, self.parser(running))
                self.states.append(join)
                current = join
        if current is not None and following is not None:
            self._go(current, following)
            return None
        return current

    def _go(self, state: ir.State, name: str | None) -> None:
        state.cases.append(ir.TransitionCase("default", name))

    def _labelled(
        self, item: ir.Labelled, current: ir.State, labels: dict[int, str | None]
    ) -> ir.State | None:
        if not leaves(item.body, item.label):
            return self.operations(item.body, current, None, labels)
        join = ir.State(self.fresh(f"{current.name}_after"))
        self.operations(item.body, current, join.name, {**labels, item.label: join.name})
        self.states.append(join)
        return join

    def _branch(
        self, item: ir.Branch, current: ir.State, labels: dict[int, str | None]
    ) -> ir.State:
        """``if``: the condition goes into a variable that the transition selects on."""
        flag = self.temporary(BOOL, "condition")
        assert isinstance(flag, FieldPlace)
        field = ir.Field(flag.header, flag.name)
        condition = arithmetic.number(item.condition)
        current.operations.append(ir.Do("assign", (field, condition), item.span))
        names = [self.fresh(f"{current.name}_{side}") for side in ("true", "false", "after")]
        join = ir.State(names[2])
        current.key = [(field, 1)]
        current.cases = [
            ir.TransitionCase("hexstr", names[0], 1),
            ir.TransitionCase("default", names[1]),
        ]
        for name, code in zip(names, (item.then, item.otherwise), strict=False):
            side = ir.State(name)
            self.states.append(side)
            self.operations(code, side, join.name, labels)
        self.states.append(join)
        return join

    def apply_parser(self, node: syntax.Call, target: Target, env: Environment) -> None:
        """Run another parser's states, then come back."""
        instance = self.block_instance(node, target, env)
        callee = applied(instance)
        copies = self.bind(of_instance(target, instance), env, callee, isolated=False)
        prefix = f"{self.running.prefix}{instance.path.rsplit('.', 1)[-1]}."
        number = 0
        while prefix + "start" in self.names:
            prefix = f"{self.running.prefix}{instance.path.rsplit('.', 1)[-1]}_{number}."
            number += 1
        self.names.add(prefix + "start")
        self.code.append(ir.RunParser(_Running(instance, callee, prefix, None), node.span))
        for copy in copies:
            self.assign(copy.place, copy.value, copy.node)

    # Transitions

    def _target(self, name: str, running: _Running) -> str | None:
        if name == "accept":
            return running.accept
        if name == "reject":
            return None  # v1model: parsing ends, the packet goes on to ingress
        return running.prefix + name

    def _transition(
        self, node: syntax.Transition | None, state: ir.State, key: list[_KeyGroup],
        env: Environment, running: _Running,
    ) -> None:  # fmt: skip
        if node is None:
            self._go(state, None)
            return
        if node.cases is None:
            self._go(state, self._target(node.state or "", running))
            return
        state.key = [item for group in key for item in group]
        widths = [[width for _, width in group] for group in key]
        for case in node.cases:
            try:
                self._case(case, state, widths, env, running)
            except Abandon:
                continue
            if len(state.cases) > MAXIMUM_CASES:
                self.reporter.error(
                    case.span, f"not supported: the ranges need more than {MAXIMUM_CASES} cases"
                )
                return
        if not any(case.kind == "default" for case in state.cases):
            self._go(state, self._no_match())

    def _no_match(self) -> str:
        """A state for where no case of a select matches: it signals error.NoMatch."""
        name = "no_match"
        if not any(state.name == name for state in self.states):
            number = self.shared.program.errors.index("NoMatch")
            verify = ir.Do("verify", (ir.Truth(False), ir.Number(number)))
            self.states.append(ir.State(name, [verify], [], [ir.TransitionCase("default", None)]))
        return name

    def _case(
        self, case: syntax.SelectCase, state: ir.State, widths: list[list[int]], env: Environment,
        running: _Running,
    ) -> None:  # fmt: skip
        keyset = case.keyset
        following = self._target(case.state, running)
        if isinstance(keyset, syntax.AnyKeyset):
            if not any(item.kind == "default" for item in state.cases):
                self._go(state, following)
            return
        if isinstance(keyset, syntax.Name) and isinstance(keyset.declaration, syntax.ValueSet):
            value = env.find(keyset.declaration)
            assert isinstance(value, ValueSetInstance)
            value.object.is_used = True
            state.cases.append(ir.TransitionCase("parse_vset", following, value.object.name))
            return
        if any(item.kind == "default" for item in state.cases):
            return  # never reached
        items = keyset.items if isinstance(keyset, syntax.TupleKeyset) else [keyset]
        alternatives: list[list[tuple[int, int]]] = []
        for item, group in zip(items, widths, strict=True):
            if isinstance(item, syntax.AnyKeyset):
                alternatives += [[(0, 0)] for _ in group]
            elif not isinstance(item, _SETS) and scalar_width(type_of(item)) is None:
                numbers = self.flat(self.value(item, env), type_of(item), item)
                for (number, _), width in zip(numbers, group, strict=True):
                    full = arithmetic.mask_of(width)
                    alternatives.append([(self._number_in(number, item) & full, full)])
            else:
                alternatives.append(self._matches(item, group[0], env))
        full = _join([(arithmetic.mask_of(width), width) for _, width in state.key])
        for values, masks in _product(alternatives, [width for _, width in state.key]):
            mask = None if masks == full else masks
            state.cases.append(ir.TransitionCase("hexstr", following, values & masks, mask))

    def _number_in(self, value: ir.Expression, node: syntax.Expression) -> int:
        if not isinstance(value, ir.Number):
            raise self.fail(node, "this must be known at compile time")
        return value.value

    def _matches(
        self, node: syntax.Expression, width: int, env: Environment
    ) -> list[tuple[int, int]]:
        """The (value, mask) pairs that one key set stands for."""
        full = arithmetic.mask_of(width)
        if isinstance(node, syntax.AnyKeyset):
            return [(0, 0)]
        if isinstance(node, syntax.MaskKeyset):
            return [(self._known(node.value, env) & full, self._known(node.mask, env) & full)]
        if isinstance(node, syntax.RangeKeyset):
            low, high = self._known(node.low, env), self._known(node.high, env)
            if is_signed(type_of(node.low)) and low < 0 <= high:
                return [*prefixes(low & full, full, width), *prefixes(0, high, width)]
            return prefixes(low & full, high & full, width)
        if scalar_width(type_of(node)) is None:
            raise self.fail(node, "not supported: this key set")
        return [(self._known(node, env) & full, full)]


_SETS = (syntax.MaskKeyset, syntax.RangeKeyset)
_KeyGroup = list[tuple[ir.Expression, int]]
"""The numbers that one of a select's keys consists of, with their widths."""


def _bytes(width: int) -> int:
    return (width + 7) // 8


def _join(items: list[tuple[int, int]]) -> int:
    """Values one after another, each padded to whole bytes."""
    result = 0
    for value, width in items:
        result = (result << (8 * _bytes(width))) | value
    return result


def _product(alternatives: list[list[tuple[int, int]]], widths: list[int]) -> list[tuple[int, int]]:
    combined: list[tuple[int, int]] = [(0, 0)]
    for options, width in zip(alternatives, widths, strict=True):
        shift = 8 * _bytes(width)
        combined = [
            ((value << shift) | more_value, (mask << shift) | more_mask)
            for value, mask in combined
            for more_value, more_mask in options
        ]
        if len(combined) > MAXIMUM_CASES:
            return combined
    return combined


def _leads_to(state: syntax.ParserState, name: str) -> bool:
    transition = state.transition
    if transition is None:
        return False
    return transition.state == name or any(case.state == name for case in transition.cases or ())


def _reachable(parser: syntax.Parser) -> set[str]:
    states = {state.name: state for state in parser.states}
    found: set[str] = set()
    waiting = ["start"]
    while waiting:
        name = waiting.pop()
        if name in found or name not in states:
            continue
        found.add(name)
        waiting += [other for other in states if _leads_to(states[name], other)]
    return found
