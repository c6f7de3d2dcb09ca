"""Controls that BMv2 keeps as lists of calls, where they are more than that: with conditions,
computations, and variables that change.

They become code at the end of the pipeline before them, or at the start of the one behind. What a
deparser emits under a condition is then a copy of the header, which is valid only where the
condition held.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from weft.switch.compiler import ir
from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.lower.exits import contained
from weft.switch.compiler.lower.externs import ExternCall
from weft.switch.compiler.lower.lists import ListLowering, NotAList
from weft.switch.compiler.lower.storage import (
    PLACES,
    BlockInstance,
    Environment,
    ExternInstance,
    HeaderPlace,
    LoweredValue,
    StackPlace,
    StructPlace,
    UnionPlace,
    atoms,
    inside,
)
from weft.switch.compiler.simplify import bodies, simplify
from weft.switch.compiler.syntax import type_of


class TailLowering:
    """The lowering of such controls: to lists, or to code, which is returned."""

    def __init__(self, lists: ListLowering) -> None:
        self.lists = lists
        self.body, self.writer = lists.body, lists.body.writer
        self.shared, self.program = self.writer.shared, lists.program
        self.places = self.body.expressions.places
        self.emitted: dict[str, HeaderPlace] = {}
        self.body.externs.methods["packet_out", "emit"] = self._emit

    def lower(
        self,
        instance: BlockInstance,
        env: Environment,
        as_list: Callable[[], None],
        functions: Mapping[str, Callable[[ExternCall], None]],
    ) -> list[ir.Code]:
        """Lower a control in its environment by `as_list`, and return nothing; or its code, if it
        is no list. That may call these extern functions."""
        parts: list[list[Any]] = [
            self.program.deparsers,
            self.program.calculations,
            self.program.checksums,
        ]
        lengths = [len(part) for part in parts]
        position = len(self.writer.code)
        try:
            as_list()
        except NotAList:
            del self.writer.code[position:]
            for part, length in zip(parts, lengths, strict=True):
                del part[length:]
            return self.code(instance, env, functions)
        return []

    def code(
        self,
        instance: BlockInstance,
        env: Environment,
        functions: Mapping[str, Callable[[ExternCall], None]],
    ) -> list[ir.Code]:
        """Return the code of a control."""
        externs = self.body.externs
        before, externs.functions = externs.functions, dict(functions)
        code = self.body.instances.run(instance, env)
        externs.functions = before
        return simplify(contained(self.shared, code))

    def deparser(
        self, instance: BlockInstance, arguments: list[LoweredValue], functions: Collection[str]
    ) -> list[ir.Code]:
        """Lower a deparser, which may call some extern functions besides what emits."""
        env = self.lists.environment(instance, arguments)
        known, count = self.body.externs.functions, len(self.program.deparsers)
        code = self.lower(
            instance,
            env,
            lambda: self.lists.deparser_calls(instance, env, functions, "deparser"),
            {name: known[name] for name in functions},
        )
        if self.program.deparsers[count:]:
            return []
        for action in self.program.actions:
            for span in _emits(action.body):
                self.shared.reporter.error(
                    span, "not supported: emit() in an action that a table runs (BMv2)"
                )
        headers = [item for item in arguments if isinstance(item, PLACES)]
        result = ir.LoweredDeparser("deparser")
        self.program.deparsers.append(result)
        given = set().union(*map(atoms, headers))
        copies: list[HeaderPlace] = []
        code = self._ordered(code, result.order, given, copies)
        reset = [ir.Do("remove_header", (ir.Reference("header", copy.name),)) for copy in copies]
        return [*reset, *code]

    def _emit(self, call: ExternCall, base: ExternInstance) -> None:
        argument = call.target.argument("hdr")
        value = self.body.expressions.value(argument, call.env)
        if not isinstance(value, (HeaderPlace, StructPlace, UnionPlace, StackPlace)):
            place = self.writer.temporary(type_of(argument))
            self.places.assign(place, value, argument)
            value = place
        self._emit_headers(value)

    def _emit_headers(self, value: LoweredValue) -> None:
        if isinstance(value, HeaderPlace):
            self.shared.storage.in_packets.add(value.type)
            self.emitted[value.name] = value
            self.writer.do("emit", ir.Reference("header", value.name))
        elif isinstance(value, PLACES):
            for item in inside(value):
                self._emit_headers(item)

    def _ordered(
        self,
        code: list[ir.Code],
        order: list[str],
        given: Collection[str],
        copies: list[HeaderPlace],
    ) -> list[ir.Code]:
        """Return the code without what is emitted, which goes to `order`: one of the headers that
        are given as it is, any other as a copy, which the code makes."""
        result: list[ir.Code] = []
        for item in code:
            match item:
                case ir.Do("emit", (ir.Reference(name=name),)):
                    header = self.emitted[name]
                    if name in given:
                        order.append(name)
                        continue
                    copy = self.shared.storage.header(f"{name}_emitted", header.type)
                    copies.append(copy)
                    order.append(copy.name)
                    operands = (
                        ir.Reference("header", copy.name),
                        ir.Reference("header", name),
                    )
                    result.append(ir.Do("assign_header", operands, item.span))
                case ir.Branch():
                    then, otherwise = (
                        self._ordered(body, order, (), copies)
                        for body in (item.then, item.otherwise)
                    )
                    result.append(replace(item, then=then, otherwise=otherwise))
                case ir.Apply():
                    hit, miss = (
                        body and self._ordered(body, order, (), copies)
                        for body in (item.hit, item.miss)
                    )
                    cases = item.cases and {
                        name: self._ordered(body, order, (), copies)
                        for name, body in item.cases.items()
                    }
                    rest = self._ordered(item.otherwise, order, (), copies)
                    result.append(ir.Apply(item.table, hit, miss, cases, rest, item.span))
                case ir.Labelled():
                    body = self._ordered(item.body, order, (), copies)
                    result.append(replace(item, body=body))
                case ir.Repeat():
                    emits = len(order)
                    body = self._ordered(item.body, order, (), copies)
                    self.shared.reporter.error_if(
                        len(order) > emits,
                        item.span,
                        "not supported: emit() in a loop whose number of rounds is not known",
                    )
                    result.append(replace(item, body=body))
                case _:
                    result.append(item)
        return result


def _emits(code: list[ir.Code]) -> Iterator[Span]:
    """Yield where code emits."""
    for item in code:
        if isinstance(item, ir.Do) and item.operation == "emit":
            yield item.span
        for body in bodies(item):
            yield from _emits(body)
