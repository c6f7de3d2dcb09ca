"""The members of a parser's value sets as their controller sees them: checks and encoding."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.base.errors import refuse
from weft.switch.engine.control import AlreadyExists, Exact, InvalidKey, Key, Lpm, Range, TableFull
from weft.switch.engine.groups import Groups, ValueSet
from weft.switch.engine.program import KeyField
from weft.switch.engine.tables import encode_key, normal_key

Members = list[tuple[Key, ...]]
Pairs = list[list[tuple[int, int]]]


@dataclass
class ValueSetState:
    """A value set and what is in it. ``widths``: of the parts of the keys that look it up."""

    value_set: ValueSet
    widths: tuple[int, ...]
    members: Members = field(default_factory=list)

    @property
    def what(self) -> str:
        """Its name, for messages."""
        return f"value set {self.value_set.name!r}"

    def replace(self, members: Iterable[tuple[Key, ...]]) -> None:
        """Set all members; raises InvalidKey, TableFull, AlreadyExists."""
        checked = [self._member(member) for member in members]
        refuse(
            len(checked) > self.value_set.size,
            f"{self.what} has room for {self.value_set.size} members, not {len(checked)}",
            TableFull,
        )
        refuse(
            len(set(checked)) != len(checked),
            f"{self.what}: a member is given twice",
            AlreadyExists,
        )
        self.members, before = checked, self.members
        try:
            self.encode()
        except InvalidKey:
            self.members = before
            raise

    def _member(self, member: tuple[Key, ...]) -> tuple[Key, ...]:
        if len(member) == 1 and len(self.widths) > 1 and isinstance(member[0], Exact):
            member = self._split(member[0].value)
        refuse(
            len(member) != len(self.widths),
            f"{self.what} has {len(self.widths)} fields, not {len(member)}",
            InvalidKey,
        )
        kinds = {Exact: "exact", Lpm: "lpm", Range: "range"}
        return tuple(
            normal_key(
                self.what,
                key,
                KeyField(str(place), kinds.get(type(key), "ternary"), width, None, None),
            )
            for place, (key, width) in enumerate(zip(member, self.widths, strict=True))
        )

    def _split(self, value: int) -> tuple[Key, ...]:
        """Return all fields as one number, as BMv2's command line gives them."""
        keys: list[Key] = []
        for width in reversed(self.widths):
            keys.insert(0, Exact(value & ((1 << width) - 1)))
            value >>= width
        refuse(value, f"{self.what} has {sum(self.widths)} bits, a member has more", InvalidKey)
        return tuple(keys)

    def encode(self) -> tuple[Pairs, list[bool]]:
        """Return of each member a (value, mask) or (low, high) pair for each part, and which parts
        are ranges."""
        parts = range(len(self.widths))
        ranges = [any(isinstance(member[k], Range) for member in self.members) for k in parts]
        return [
            [self._pair(member[k], self.widths[k], ranges[k]) for k in parts]
            for member in self.members
        ], ranges

    def _pair(self, key: Key, width: int, as_range: bool) -> tuple[int, int]:
        first, second = encode_key(key, width)
        if not as_range or isinstance(key, Range):
            return first, second
        rest = ((1 << width) - 1) & ~second
        refuse(
            rest & (rest + 1),
            f"{self.what}: {key} cannot be together with a range in the same field",
            InvalidKey,
        )
        return first, first | rest


def value_set_states(groups: Groups) -> dict[str, ValueSetState]:
    """Return the value sets of a program, empty."""
    states = {}
    for name, value_set in groups.value_sets.items():
        widths = {use.widths for use in groups.uses if use.value_set == name}
        states[name] = ValueSetState(value_set, min(widths, default=(value_set.bits,)))
    return states
