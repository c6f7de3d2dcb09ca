"""What may be without a value, and which headers may be invalid, at a place in a program.

Facts are all of the kind "there is a way here on which ...", so those of two ways that meet are
put together. Only what a parser, control, action or function makes itself is followed: its
variables and its ``out`` parameters, with the fields of structs and the headers in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

from weft.switch.compiler import syntax
from weft.switch.compiler.types import StructType, Type, resolved, scalar_width

FieldPath = tuple[str, ...]
PlaceKey = tuple[int, FieldPath]
"""A declaration (its id) and the names of fields from there."""


@dataclass
class Facts:
    """These facts hold at one place in a program."""

    unset: set[PlaceKey] = field(default_factory=set)
    """Values that may not have been set."""
    invalid: set[PlaceKey] = field(default_factory=set)
    """Headers that may be invalid."""
    valid: set[PlaceKey] = field(default_factory=set)
    """Headers that may be valid, of those that may be invalid."""

    def copy(self) -> "Facts":
        """Return facts of their own that are the same now."""
        return Facts(set(self.unset), set(self.invalid), set(self.valid))

    def join(self, other: "Facts") -> "Facts":
        """Return the facts where two ways meet."""
        # A header that only one side follows is valid on the other, or not known to be invalid.
        one_sided = (self.invalid | self.valid) ^ (other.invalid | other.valid)
        return Facts(
            self.unset | other.unset,
            self.invalid | other.invalid,
            self.valid | other.valid | one_sided,
        )

    def nothing(self) -> bool:
        """Return whether nothing that may be unset or invalid is known."""
        return not (self.unset or self.invalid)

    def begin(self, declaration: syntax.SyntaxNode, kind: Type) -> None:
        """Note that a variable or ``out`` parameter begins without a value, with its headers
        invalid."""
        for path, is_header in leaves(kind):
            key = (id(declaration), path)
            self.valid.discard(key)
            (self.invalid if is_header else self.unset).add(key)

    def set(self, key: PlaceKey) -> None:
        """Note that all at `key` gets a value. Headers there are no longer followed."""
        for facts in (self.unset, self.invalid, self.valid):
            if key in facts:
                facts.discard(key)
            elif any(item[0] == key[0] for item in facts):
                facts -= {item for item in facts if below(item, key)}

    def set_valid(self, key: PlaceKey, valid: bool) -> None:
        """Note that a header is valid or invalid, since it was made so or tested."""
        self.valid.discard(key)
        (self.invalid.discard if valid else self.invalid.add)(key)


def below(item: PlaceKey, key: PlaceKey) -> bool:
    """Return whether a key is another key, or that of a field in it."""
    return item[0] == key[0] and item[1][: len(key[1])] == key[1]


def joined(ways: list[Facts | None]) -> Facts | None:
    """Return the facts where several ways meet. None stands for a way that does not get there."""
    reaching = [item for item in ways if item is not None]
    return reduce(Facts.join, reaching) if reaching else None


def leaves(kind: Type | None, path: FieldPath = ()) -> Iterator[tuple[FieldPath, bool]]:
    """Yield the paths of the values (with False) and headers (with True) in a type. Those in
    stacks, unions and tuples are left out."""
    bare = None if kind is None else resolved(kind)
    if isinstance(bare, StructType):
        match bare.kind:
            case "header":
                yield path, True
            case "struct":
                for name, item in bare.fields.items():
                    yield from leaves(item, (*path, name))
    elif bare is not None and scalar_width(bare) is not None:
        yield path, False


def key_of(node: syntax.Expression | None) -> PlaceKey | None:
    """Return the variable or parameter that an expression names, or the fields of it; None for
    others."""
    names: list[str] = []
    while isinstance(node, syntax.MemberAccess):
        names.append(node.name)
        node = node.base
    if isinstance(node, syntax.Name) and isinstance(
        node.declaration, (syntax.Variable, syntax.Parameter)
    ):
        return id(node.declaration), tuple(reversed(names))
    return None


def written_key(node: syntax.Expression) -> PlaceKey | None:
    """Return what an assignment to an expression sets. A slice counts as the whole."""
    while isinstance(node, syntax.Slice):
        node = node.base
    return key_of(node)
