"""Which types may stand where (specification, section "Type nesting rules" and those on each
type)."""

from weft.switch.compiler import syntax
from weft.switch.compiler.types import (
    ActionEnumType,
    ApplyResultType,
    BitType,
    BlockTypeType,
    BoolType,
    CallableType,
    DontCareType,
    EnumType,
    ErrorType,
    ExternType,
    IntegerType,
    IntType,
    ListType,
    MatchKindType,
    NewType,
    PackageTypeType,
    SerializableEnumType,
    SetType,
    StackType,
    StringType,
    StructType,
    TableType,
    TupleType,
    Type,
    TypeVariable,
    UnknownType,
    VarbitType,
    VoidType,
    base_type,
    is_header,
    is_union,
    member_types,
    resolved,
)

BLOCKS = (BlockTypeType, PackageTypeType)
INSTANCES = (ExternType, *BLOCKS)
"""The types of what is instantiated; such things are not copied."""
NO_VALUES = (
    VoidType, DontCareType, TableType, CallableType, ApplyResultType, ActionEnumType, SetType,
    *INSTANCES,
)  # fmt: skip
"""The types of what cannot be stored or copied."""
_NO_FIELDS = (*NO_VALUES, IntegerType, StringType, MatchKindType, ListType)
_NO_ALIASES = (VoidType, DontCareType, MatchKindType)
_NEW_TYPE_BASES = (BitType, IntType, BoolType, UnknownType)
"""What ``type`` takes, besides such types themselves."""


def field_problem(kind: Type, owner: str) -> bool:
    """Return whether a header, header union or struct (`owner` tells which) may not have a field
    of a type."""
    bare = resolved(kind)
    if isinstance(bare, (TypeVariable, UnknownType)):
        return False
    match owner:
        case "header_union":
            return not is_header(bare)
        case "header":
            return not (isinstance(bare, VarbitType) or _fits_in_header(bare))
    return isinstance(bare, _NO_FIELDS)


def _fits_in_header(kind: Type) -> bool:
    """Return whether a header, or a struct in a header, may have a field of a type."""
    bare = resolved(kind)
    if isinstance(bare, StructType):
        return bare.kind == "struct" and all(map(_fits_in_header, bare.fields.values()))
    if isinstance(bare, StackType):
        return _fits_in_header(bare.element)
    return isinstance(
        bare, (BitType, IntType, BoolType, SerializableEnumType, TypeVariable, UnknownType)
    )


def nesting_problem(kind: Type) -> str:
    """Return what is wrong with a type that is made of others, once it is known which; empty if
    nothing is."""
    match kind:
        case StructType() if kind.arguments:
            what = kind.kind.replace("_", " ")
            for name, item in kind.fields.items():
                if field_problem(item, kind.kind):
                    return f"a {what} cannot have a field of type {item}: '{name}' of {kind}"
        case TupleType():
            for item in kind.elements:
                if isinstance(resolved(item), _NO_FIELDS):
                    return f"a tuple cannot have an element of type {item}"
        case ListType() if isinstance(resolved(kind.element), (VoidType, *BLOCKS)):
            return f"there are no lists of {kind.element}"
    return ""


def parameter_problem(parameter: syntax.Parameter, kind: Type, of: str) -> str:
    """Return why a parameter cannot have a type; empty if it can.

    `of` tells what has the parameter: action, function, extern, block, block type, package, or the
    constructor of an extern, parser or control.
    """
    bare = resolved(kind)
    directed = bool(parameter.direction)
    constructs = of == "package" or of.endswith(" constructor")
    if directed and constructs:
        what = "package" if of == "package" else "constructor"
        return f"a parameter of a {what} has no direction"
    match bare:
        case VoidType():
            return f"a parameter cannot have type {kind}"
        case BlockTypeType(declaration=syntax.ParserDeclaration() | syntax.ControlDeclaration()):
            return (
                f"a parameter cannot have the type of {kind}, which has a body; declare a type, "
                f"such as '{bare.kind} name(...);'"
            )
        case ExternType() | BlockTypeType() | PackageTypeType() if directed:
            return f"a parameter of type {kind} cannot have a direction"
        case PackageTypeType() if of != "package":
            return f"only a package has parameters of type {kind}"
        case BlockTypeType() if of not in ("package", f"{bare.kind} constructor"):
            return (
                f"only packages, and constructors of {bare.kind}s, have parameters of type {kind}"
            )
        case ExternType() | IntegerType() if of == "action":
            return f"a parameter of an action cannot have type {kind}"
        case IntegerType() | StringType() if directed:
            return f"a parameter of type {kind} cannot have a direction"
    return ""


def inferred_problem(parameter: syntax.Parameter, kind: Type, constructs: bool = False) -> str:
    """Return what is wrong with the type that a parameter gets from type arguments, or from what it
    is given; empty if nothing is."""
    bare = resolved(kind)
    refused: tuple[type[Type], ...] = () if constructs else (VoidType, *BLOCKS)
    if parameter.direction:
        refused = (*NO_VALUES, StringType, MatchKindType)
    if isinstance(bare, refused) and not isinstance(bare, DontCareType):
        return f"'{parameter.direction} {kind} {parameter.name}'".replace("' ", "'")
    return ""


def return_problem(kind: Type) -> bool:
    """Return whether nothing gives a value of a type."""
    return isinstance(resolved(kind), INSTANCES)


def method_return_problem(kind: Type) -> bool:
    """Return whether no method of an extern gives a value of a type."""
    return return_problem(kind) or isinstance(resolved(kind), (IntegerType, StringType))


def alias_problem(kind: Type, is_new: bool) -> str:
    """Return why ``typedef``, or ``type`` if `is_new`, cannot name a type; empty if it can."""
    if not is_new:
        return f"'typedef' cannot name the type {kind}" if isinstance(kind, _NO_ALIASES) else ""
    if isinstance(resolved(kind), _NEW_TYPE_BASES):
        return ""
    return f"'type' makes a new type of bit<N>, int<N>, bool or such a type, not of {kind}"


def type_without_default(kind: Type) -> Type | None:
    """Return what in a type has no default value (specification, section "Default values"); None if
    all has one."""
    if isinstance(kind, (NewType, ListType, MatchKindType, TypeVariable)):
        return kind
    if not isinstance(kind, (StructType, TupleType)) or is_header(kind) or is_union(kind):
        return None
    return next(filter(None, map(type_without_default, member_types(kind).values())), None)


def is_emitted(kind: Type) -> bool:
    """Return whether ``emit`` takes a type: headers, and what is made of them."""
    bare = resolved(kind)
    if is_header(bare) or is_union(bare) or isinstance(bare, (TypeVariable, UnknownType)):
        return True
    return isinstance(bare, (StructType, TupleType, StackType)) and all(
        map(is_emitted, member_types(bare).values())
    )


def has_unsized(kind: Type) -> bool:
    """Return whether a type is, or has a member of, one whose size in bits is not specified."""
    bare = resolved(kind)
    return isinstance(bare, (EnumType, ErrorType)) or any(
        map(has_unsized, member_types(bare).values())
    )


def fixed_width_problem(kind: Type) -> str:
    """Return what in a type has no width that is known; empty if all of it has one."""
    bare = base_type(kind)
    match bare:
        case StructType():
            return next(filter(None, map(fixed_width_problem, bare.fields.values())), "")
        case TupleType():
            return next(filter(None, map(fixed_width_problem, bare.elements)), "")
        case StackType():
            return fixed_width_problem(bare.element)
        case BitType() | IntType() | BoolType() | TypeVariable() | UnknownType():
            return ""
    return str(kind)
