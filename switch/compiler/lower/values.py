"""What names and expressions stand for while a program is lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import local_name
from weft.switch.compiler.lower.storage import (
    PLACES,
    FieldPlace,
    Place,
    StackPlace,
    StructPlace,
    atoms,
)
from weft.switch.compiler.types import VOID, Type


@dataclass(eq=False)
class Composite:
    """A struct, header or tuple value that has no place; `valid` is False for ``{#}``."""

    type: Type
    members: dict[str, Value]
    valid: bool = True


@dataclass(eq=False)
class ExternInstance:
    """An instance of an extern object; `object` is what BMv2 has for it, if anything."""

    kind: str
    name: str
    object: ir.Object | None = None


@dataclass(eq=False)
class BlockInstance:
    """An instance of a parser or control; `path` is its name in the control plane."""

    declaration: syntax.Parser | syntax.Control
    path: str
    environment: Environment
    applications: list[Environment] = field(default_factory=list)
    """Kept, as tables and actions are known by the environment that they are applied in."""


@dataclass(eq=False)
class ValueSetInstance:
    object: ir.ValueSet


def parts(value: Value) -> list[Value]:
    """The members of a struct or tuple, the elements of a stack or array."""
    match value:
        case StackPlace():
            return list(value.elements)
        case StructPlace() | Composite():
            return list(value.members.values())
    return []


def reads(value: Value) -> set[str]:
    """The header instances and fields that a value is computed from."""
    if isinstance(value, PLACES):
        index = getattr(value, "index", None)
        return atoms(value) | (reads(index) if isinstance(index, ir.Expression) else set())
    match value:
        case Composite():
            return set().union(*map(reads, value.members.values()))
        case ir.Field():
            return atoms(FieldPlace(value.header, value.name, VOID))
        case ir.LastField() | ir.LastUnionField():
            return {f"{value.stack}[]"}
        case ir.Reference():
            return {value.name, f"{value.name}[]"}
    operands = ir.operands(value) if isinstance(value, ir.Expression) else []
    return set().union(*map(reads, operands))


Value = ir.Expression | Place | Composite | ExternInstance | BlockInstance | ValueSetInstance


@dataclass(eq=False)
class Environment:
    """What declarations stand for, in one instance of a block or one call."""

    parent: Environment | None = None
    path: str = ""
    owns_actions: bool = False  # of an applied control: its actions see this environment
    order: tuple[int, ...] = ()  # place of the instance among all declarations
    values: dict[int, Value] = field(default_factory=dict)

    def bind(self, declaration: syntax.Node, value: Value) -> None:
        self.values[id(declaration)] = value

    def find(self, declaration: syntax.Node) -> Value | None:
        environment: Environment | None = self
        while environment is not None:
            if id(declaration) in environment.values:
                return environment.values[id(declaration)]
            environment = environment.parent
        return None

    def inner(self, values: Mapping[syntax.Variable, Value] | None = None) -> Environment:
        """An environment inside this one, in which variables stand for the values given."""
        bound = {id(variable): value for variable, value in (values or {}).items()}
        return Environment(self, self.path, values=bound)

    def owner(self) -> Environment:
        """The environment of the applied control that this one is inside of."""
        environment = self
        while not environment.owns_actions and environment.parent is not None:
            environment = environment.parent
        return environment


def applied(instance: BlockInstance, arguments: Sequence[Value] = ()) -> Environment:
    """The environment for one application of a parser's or control's instance.

    The arguments, if there are any, are those of all its parameters.
    """
    environment = instance.environment
    result = Environment(environment, instance.path, owns_actions=True, order=environment.order)
    instance.applications.append(result)
    if arguments:
        for parameter, argument in zip(instance.declaration.parameters, arguments, strict=True):
            result.bind(parameter, argument)
    return result


def full_name(path: str, declaration: syntax.Declaration) -> str:
    """The control-plane name of something declared at `path` (section "Control plane names")."""
    name = local_name(declaration)
    if name.startswith("."):
        return name[1:]
    return f"{path}.{name}" if path else name
