"""Options that multicast has of its own, for those who ask without loading numpy."""

from dataclasses import dataclass

from weft.base.option import MULTICAST, OF_ALGORITHMS, SIZE, TEXT, WHOLE, option

ADAPTIVE, PAPER, FETCH_ONLY = CUTOFFS = ("adaptive", "paper", "fetch-only")
"""When an operation fetches what is missing: near the expected time; at five times that time, as
the paper does; or at once, without any multicast."""
MIN_CHUNK_BYTES, MAX_CHUNK_BYTES = 64, 1 << 16
MAX_WORKERS = 16
"""The most workers: each has a multicast group of its own, and a Linux socket may join 20."""


@dataclass(frozen=True)
class MulticastOptions:
    """What is asked of multicast."""

    chains: int | None = option(
        None,
        WHOLE,
        "Chains of the multicast Allgather.",
        group=MULTICAST,
        default_text="as many as ranks",
        used=lambda asked: asked.collective == "allgather",
        who="it is for allgather by multicast",
        filled=lambda asked, known: known.ranks if asked.collective == "allgather" else None,
    )
    """Chains M side by side of an Allgather."""
    workers: int = option(
        1,
        WHOLE,
        "Multicast: subgroups that share nothing, each with trees of its own.",
        group=MULTICAST,
        metavar="W",
        between=(1, MAX_WORKERS),
        who=OF_ALGORITHMS,
    )
    """How many subgroups there are; each has a part of every shard, and groups, trees and a bitmap
    of its own."""
    chunk_bytes: int | None = option(
        None,
        SIZE,
        f"Multicast: unit of recovery, {SIZE.say(MIN_CHUNK_BYTES)} to "
        f"{SIZE.write(MAX_CHUNK_BYTES)}.",
        group=MULTICAST,
        name="chunk",
        metavar="SIZE",
        default_text="the MTU",
        between=(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES),
        who=OF_ALGORITHMS,
        filled=lambda asked, known: asked.mtu,
    )
    """The unit of recovery; by default the path MTU. A larger chunk is several packets."""
    batch: int = option(
        1,
        WHOLE,
        "Multicast: chunks that leave back to back.",
        group=MULTICAST,
        between=(1, 1 << 16),
        who=OF_ALGORITHMS,
    )
    """Packets that leave back to back (the paper: 128)."""
    cutoff: str = option(
        ADAPTIVE,
        TEXT,
        "When to fetch: {choices}.",
        group=MULTICAST,
        choices=CUTOFFS,
        who=OF_ALGORITHMS,
    )
