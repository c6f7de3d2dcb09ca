"""What p4/fabric.p4 has with its features, as its P4Info says: full names by short ones, sizes."""

from collections import defaultdict
from functools import cache
from typing import Any

from google.protobuf import text_format

from weft.base.errors import refuse
from weft.controller.feature import featured_program
from weft.switch.messages import p4info_pb2

AGGREGATION_FRAME_BYTES = 14 + 20 + 8 + 12 + 8 + 4 + 16 + 4
"""Of a packet without values: Ethernet to the aggregation header, and ICRC."""
MAX_ECN_THRESHOLD = (1 << 19) - 1
"""v1model's queue depths have 19 bits."""


@cache
def name(short: str) -> str:
    """Return the full name of what the program calls ``short``:
    ``FabricIngress.forwarding.ipv4_route`` of ``ipv4_route``, ``hdr.ipv4.dst_addr`` of
    ``dst_addr``.

    ``short`` is the end of one name alone, of a table, an action, a key field, a profile, a counter
    or a register; after a dot of it, if it is not the whole. Raises InputError for any other.
    """
    full = _ends()[short]
    which = f"{len(full)} of that name: {', '.join(sorted(full))}" if full else "no such name"
    refuse(len(full) != 1, f"{short!r}: the fabric's program has {which}")
    return next(iter(full))


@cache
def size(short: str) -> int:
    """Return how many entries a table has room for, or how many cells a counter or register has."""
    full = name(short)
    info = _p4info()
    return next(
        int(one.size)
        for one in (*info.tables, *info.counters, *info.registers)
        if one.preamble.name == full
    )


@cache
def _p4info() -> Any:
    return text_format.Parse(featured_program().p4info.read_text(), p4info_pb2.P4Info())


@cache
def _ends() -> defaultdict[str, set[str]]:
    """Return by every end of a name the names that end so."""
    info = _p4info()
    objects = (info.tables, info.actions, info.action_profiles, info.counters, info.registers,
               info.direct_counters)  # fmt: skip
    names = {
        *(one.preamble.name for kind in objects for one in kind),
        *(field.name for table in info.tables for field in table.match_fields),
    }
    found: defaultdict[str, set[str]] = defaultdict(set)
    for full in names:
        parts = full.split(".")
        for first in range(len(parts)):
            found[".".join(parts[first:])].add(full)
    return found
