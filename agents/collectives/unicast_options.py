"""Options that unicast algorithms have, for those who ask without loading numpy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.agents.collectives.names import BLOCK_BYTES, MAX_SIZE_BYTES
from weft.base.option import SIZE, UNICAST, option


@dataclass(frozen=True)
class UnicastOptions:
    """What is asked of unicast algorithms."""

    block_bytes: int | None = option(
        None,
        SIZE,
        "What unicast algorithms pass on at a time.",
        group=UNICAST,
        name="block",
        metavar="SIZE",
        between=(1, MAX_SIZE_BYTES),
        default_text=f"{SIZE.write(BLOCK_BYTES)}, or an eighth of a shard",
        who="it is for unicast algorithms (multicast has chunk, switch values)",
    )
    """They pass on blocks of so many bytes, rounded up to whole packets; by default 64 KiB, or an
    eighth of the largest shard where that is less."""


def asked_block_bytes(own: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> int:
    """Return the bytes of a block that are asked for among own options; 0: none are."""
    return dict(own).get("block_bytes") or 0
