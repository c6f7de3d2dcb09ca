"""P4Info identifiers and aliases, the same as p4c's for the same names.

P4Runtime specification, section "ID Allocation for P4Info Objects": 8 bits of type, 24 bits of the
compiler's choice. p4c takes Bob Jenkins' one-at-a-time hash of the name, the next free number where
two names collide, and an ``@id`` annotation before either.
"""

from collections import Counter
from collections.abc import Iterable

from weft.base.errors import refuse

PREFIXES = {
    "action": 0x01, "table": 0x02, "value_set": 0x03, "controller_header": 0x04,
    "action_profile": 0x11, "counter": 0x12, "direct_counter": 0x13, "meter": 0x14,
    "direct_meter": 0x15, "register": 0x16, "digest": 0x17,
}  # fmt: skip


def one_at_a_time(name: str) -> int:
    """Return Bob Jenkins' one-at-a-time hash, 32 bits."""
    value = 0
    for octet in name.encode():
        value = (value + octet) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


class Identifiers:
    """The identifiers of all the objects of a program."""

    def __init__(self, objects: Iterable[tuple[str, str, int | None]]) -> None:
        """Take `objects`: kind (a key of `PREFIXES`), name, and the number that ``@id`` gives if
        any.

        Raises ValueError if a given number has another kind's prefix or is given twice.
        """
        self._ids: dict[tuple[str, str], int] = {}
        names: set[str] = set()
        taken: set[int] = set()
        pending: dict[str, set[str]] = {kind: set() for kind in PREFIXES}
        for kind, name, given in objects:
            if (kind, name) in self._ids or name in pending[kind]:
                continue
            names.add(name)
            if given is None:
                pending[kind].add(name)
                continue
            prefix = PREFIXES[kind] << 24
            refuse(
                given >> 24 not in (0, PREFIXES[kind]),
                f"@id({given:#x}) of '{name}' must have the prefix {PREFIXES[kind]:#04x}",
                ValueError,
            )
            number = prefix | (given & 0xFFFFFF)
            refuse(number in taken, f"@id({given:#x}) of '{name}' is given twice", ValueError)
            taken.add(number)
            self._ids[kind, name] = number
        for kind, unnumbered in pending.items():
            for name in sorted(unnumbered):
                suffix = one_at_a_time(name) & 0xFFFFFF
                while (number := (PREFIXES[kind] << 24) | suffix) in taken or suffix == 0:
                    suffix = (suffix + 1) & 0xFFFFFF
                taken.add(number)
                self._ids[kind, name] = number
        self._suffixes = Counter(suffix for name in names for suffix in _suffixes(name))

    def of(self, kind: str, name: str) -> int:
        """Return the identifier of an object."""
        return self._ids[kind, name]

    def alias(self, name: str) -> str:
        """Return the shortest suffix of the name that no other name has."""
        return next((item for item in _suffixes(name) if self._suffixes[item] < 2), name)


def _suffixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
