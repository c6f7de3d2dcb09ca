"""From a control's code to BMv2's graph of tables and conditions."""

from pathlib import PurePath

from weft.switch.compiler import ir
from weft.switch.compiler.diagnostics import NOWHERE, Span
from weft.switch.compiler.lower.shared import Shared
from weft.switch.compiler.lower.storage import unique
from weft.switch.compiler.simplify import bodies, simplify
from weft.switch.compiler.types import BitType


class PipelineBuilder:
    """A builder turns a control's code into BMv2's graph: each node names the one that comes next.

    The code is walked backwards, so that what follows is always known: ``return`` goes to what
    follows the call, ``exit`` to the end of the pipeline.
    """

    def __init__(self, shared: Shared, name: str) -> None:
        self.shared = shared
        self.pipeline = ir.LoweredPipeline(name)
        self.by_name: dict[str, ir.PipelineNode] = {}
        self.renamed: dict[str | None, str | None] = {}
        self.applications: dict[str, list[ir.TableNode]] = {}
        """Of each table, what may follow it: one for each place that it is applied at, unless two
        have the same."""

    def build(self, code: list[ir.Code]) -> ir.LoweredPipeline:
        """Return the graph of a control's code."""
        self.pipeline.first = self._sequence(simplify(code), None, {})
        for name, applications in self.applications.items():
            self._add_table(name, applications)
        self._rename()
        self._order(self.pipeline.first)
        return self.pipeline

    def _rename(self) -> None:
        """Put the names of tables and of loops' first nodes in place of what stood for them."""
        for placeholder, name in self.renamed.items():
            while name in self.renamed:
                name = self.renamed[name]
            self.renamed[placeholder] = name
        for node in self.by_name.values():
            for field in ("true_next", "false_next", "next_hit", "next_miss", "default_next"):
                if getattr(node, field, None) in self.renamed:
                    setattr(node, field, self.renamed[getattr(node, field)])
            if isinstance(node, ir.TableNode) and node.next_by_action is not None:
                node.next_by_action = {
                    action: self.renamed.get(name, name)
                    for action, name in node.next_by_action.items()
                }
        self.pipeline.first = self.renamed.get(self.pipeline.first, self.pipeline.first)

    def _repeat(self, item: ir.Repeat, labels: dict[int, str | None]) -> str | None:
        """Make a cycle. The name of its first node is known only when the last one is made."""
        placeholder = f"\0{id(item)}"
        first = self._sequence(item.body, placeholder, labels)
        self.shared.reporter.fail_if(
            first in (None, placeholder), item.span, "this loop does nothing and never ends"
        )
        self.renamed[placeholder] = first
        return first

    def _sequence(
        self, code: list[ir.Code], following: str | None, labels: dict[int, str | None]
    ) -> str | None:
        """Make nodes that run `code` and go on to `following`; return the name of the first."""
        run: list[ir.Code] = []
        for item in reversed(code):
            if isinstance(item, ir.Do) or is_loop_of_primitives(item):
                run.insert(0, item)
                continue
            if isinstance(item, (ir.Leave, ir.Stop)):
                run, following = [], labels[item.label] if isinstance(item, ir.Leave) else None
                continue
            run, following = [], self._action(run, following)
            match item:
                case ir.Labelled():
                    following = self._sequence(
                        item.body, following, {**labels, item.label: following}
                    )
                case ir.Branch():
                    following = self._branch(item, following, labels)
                case ir.Apply():
                    following = self._apply(item, following, labels)
                case ir.Repeat():
                    following = self._repeat(item, labels)
        return self._action(run, following)

    def _action(self, run: list[ir.Code], following: str | None) -> str | None:
        """Make a table without key, whose only action does what stands between tables and
        conditions."""
        if not run:
            return following
        span = _span(run[0])
        stem = "".join(item if item.isalnum() else "_" for item in PurePath(span.file).stem)
        candidate = unique(f"{stem}{span.line}", self.shared.generated_names)
        action = ir.LoweredAction(candidate, [], span, [], list(run), hidden=True)
        self.shared.program.actions.append(action)
        table = ir.LoweredTable(f"tbl_{candidate}", [], span, hidden=True)
        table.actions = [ir.ActionChoice(action)]
        table.default_action, table.default_constant = action, True
        node = ir.TableNode(table, {action.name: following}, default_next=following)
        self.by_name[node.name] = node
        return node.name

    def _branch(
        self, item: ir.Branch, following: str | None, labels: dict[int, str | None]
    ) -> str | None:
        true_next = self._sequence(item.then, following, labels)
        false_next = self._sequence(item.otherwise, following, labels)
        if true_next == false_next:
            return true_next
        name = f"node_{next(self.shared.conditions)}"
        self.by_name[name] = ir.ConditionNode(
            name, item.condition, true_next, false_next, item.span
        )
        return name

    def _apply(
        self, item: ir.Apply, following: str | None, labels: dict[int, str | None]
    ) -> str | None:
        table = item.table
        node = ir.TableNode(table)
        if item.hit is not None or item.miss is not None:
            node.next_hit = self._sequence(item.hit or [], following, labels)
            node.next_miss = self._sequence(item.miss or [], following, labels)
            node.default_next = node.next_miss
        else:
            otherwise = (
                following
                if item.cases is None
                else self._sequence(item.otherwise, following, labels)
            )
            node.next_by_action = {}
            shared: dict[int, str | None] = {}  # cases of one block lead to the same nodes
            for choice in table.actions:
                case = None if item.cases is None else item.cases.get(choice.action.name)
                if case is not None and id(case) not in shared:
                    shared[id(case)] = self._sequence(case, following, labels)
                node.next_by_action[choice.action.name] = (
                    otherwise if case is None else shared[id(case)]
                )
            node.default_next = (
                otherwise
                if table.default_action is None
                else node.next_by_action[table.default_action.name]
            )
        applications = self.applications.setdefault(node.name, [])
        if node not in applications:
            applications.append(node)
        return _application(node.name, applications.index(node))

    def _add_table(self, name: str, applications: list[ir.TableNode]) -> None:
        """Add the node of a table, to which BMv2 gives one successor for each outcome. Where it is
        applied at places with different code after it, a field says at which it is."""
        if len(applications) == 1:
            self.by_name[name] = applications[0]
            self.renamed[_application(name, 0)] = name
            return
        table = applications[0].table
        field = self.shared.storage.scalar(f"{name}_place", BitType(16)).field
        by_action = [
            item.next_by_action for item in applications if item.next_by_action is not None
        ]
        goes_by_hit = len(by_action) < len(applications)
        before: list[ir.Code] = []
        outcomes: list[tuple[str | None, str | None]] = []
        if goes_by_hit and any(len({*names.values()}) > 1 for names in by_action):
            ran = self.shared.storage.scalar(f"{name}_action", BitType(16)).field
            before = [ir.Do("assign", (ran, ir.Number(0)), table.span)]
            for number, choice in enumerate(table.actions, 1):
                choice.action.body.insert(0, ir.Do("assign", (ran, ir.Number(number)), table.span))
            outcomes = [self._by_noted_action(item, ran) for item in applications]
        elif goes_by_hit:
            outcomes = [
                (item.next_hit, item.next_miss)
                if item.next_by_action is None
                else (item.default_next, item.default_next)
                for item in applications
            ]
        for number in range(len(applications)):
            noted = ir.Do("assign", (field, ir.Number(number)), table.span)
            self.renamed[_application(name, number)] = self._action([noted, *before], name)

        def one_of(names: list[str | None]) -> str | None:
            result = names[-1]
            for number, following in reversed(list(enumerate(names[:-1]))):
                result = self._where(field, number, following, result, table.span)
            return result

        node = ir.TableNode(table)
        if goes_by_hit:
            node.next_hit = one_of([hit for hit, _ in outcomes])
            node.next_miss = node.default_next = one_of([miss for _, miss in outcomes])
        else:
            node.next_by_action = {
                action: one_of([names[action] for names in by_action]) for action in by_action[0]
            }
            node.default_next = one_of([item.default_next for item in applications])
        self.by_name[name] = node

    def _where(
        self, field: ir.HeaderField, value: int, then: str | None, otherwise: str | None, span: Span
    ) -> str | None:
        """Return what goes on to `then` where a field has a value, and to `otherwise` elsewhere."""
        if then == otherwise:
            return then
        name = f"node_{next(self.shared.conditions)}"
        here = ir.OperatorCall("==", field, ir.Number(value))
        self.by_name[name] = ir.ConditionNode(name, here, then, otherwise, span)
        return name

    def _by_noted_action(
        self, item: ir.TableNode, ran: ir.HeaderField
    ) -> tuple[str | None, str | None]:
        """Return what follows a hit and a miss, if actions note by a field that they ran."""
        if item.next_by_action is None:
            return item.next_hit, item.next_miss
        result = item.default_next
        for number, choice in enumerate(item.table.actions, 1):
            following = item.next_by_action[choice.action.name]
            result = self._where(ran, number, following, result, item.table.span)
        return result, result

    def _order(self, first: str | None) -> None:
        """List the nodes in the order in which a packet can meet them; drop those it cannot."""
        waiting = [first]
        seen: set[str] = set()
        while waiting:
            if (name := waiting.pop()) is not None and name not in seen:
                seen.add(name)
                node = self.by_name[name]
                self.pipeline.nodes.append(node)
                waiting += reversed(successors(node))


def _application(table: str, number: int) -> str:
    """Return what stands for a place that a table is applied at, until all nodes are made."""
    return f"\0{table}\0{number}"


def is_loop_of_primitives(item: ir.Code) -> bool:
    """Return whether an action can hold a loop: one that applies no table and leaves nothing around
    it."""
    return (
        isinstance(item, ir.Labelled)
        and any(isinstance(inner, ir.Repeat) for inner in item.body)
        and _fits_action(item, frozenset())
    )


def _fits_action(item: ir.Code, labels: frozenset[int]) -> bool:
    match item:
        case ir.Leave():
            return item.label in labels
        case ir.Apply() | ir.Stop():
            return False
    inside = labels | {item.label} if isinstance(item, ir.Labelled) else labels
    return all(_fits_action(inner, inside) for body in bodies(item) for inner in body)


def _span(item: ir.Code) -> Span:
    if isinstance(item, ir.Labelled):
        return _span(item.body[0])
    span = getattr(item, "span", NOWHERE)
    assert isinstance(span, Span)
    return span


def successors(node: ir.PipelineNode) -> list[str | None]:
    """Return the names of the nodes that may come after a node; None stands for the end."""
    if isinstance(node, ir.ConditionNode):
        return [node.true_next, node.false_next]
    if node.next_by_action is not None:
        return [*node.next_by_action.values(), node.default_next]
    return [node.next_hit, node.next_miss]
