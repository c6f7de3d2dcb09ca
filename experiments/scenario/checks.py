"""Checks of what a scenario says of its operations, of each option alone and of all together; they
also fill in defaults.

Each function takes what is asked and returns it with what follows from it, or raises `InputError`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import UnionType
from typing import Any, get_args, get_type_hints

from weft.agents.collectives.names import ALGORITHMS
from weft.base.arguments import items, number, text, texts, truth, wholes
from weft.base.arguments import whole as whole_number
from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.option import whole
from weft.base.units import format_seeds, listed, parse_seeds, shown
from weft.experiments.scenario.asked import OPTIONS, Asked
from weft.experiments.scenario.choices import (
    COUNTS,
    DTYPE,
    DTYPES,
    MAX_SLOTS,
    MTUS,
    NOTICE_AFTER_NS,
    REDUCED_DTYPE,
    SLOTS,
    TOPOLOGIES,
    choose,
    flag,
)
from weft.experiments.scenario.families import families
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.network_checks import with_own_network
from weft.experiments.scenario.shape import default_servers
from weft.topo.fabric_program import fabric_macros
from weft.topo.faults import Fault
from weft.topo.switch_kinds import RATE_BPS, check_kind


def _faults(name: str, value: object) -> tuple[Fault, ...]:
    found = items(name, value, "faults", "(Fault.parse('leaf0-spine1:loss=0.1'),)")
    for fault in found:
        if not isinstance(fault, Fault):
            raise InputError(
                f"fault {shown(fault)} is of type {type(fault).__name__}: make a fault of text "
                "by Fault.parse('leaf0-spine1:loss=0.1')"
            )
    return found


_READERS: Mapping[Any, Callable[[str, object], Any]] = {
    bool: truth,
    int: partial(whole_number, example="4"),
    float: partial(number, example="0.5"),
    str: partial(text, example="'h0'"),
    tuple[int, ...]: partial(wholes, example="(1, 2)"),
    tuple[str, ...]: partial(texts, example="('one', 'other')"),
    tuple[Fault, ...]: _faults,
}
"""By the type of a field, what returns a value as the field holds it, or raises `InputError`."""


@cache
def _readers() -> dict[str, tuple[Callable[[str, object], Any], bool]]:
    """Return by field how it is read, and whether it may be None."""
    found = {}
    for field, hint in get_type_hints(Asked).items():
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        found[field] = (_READERS[kinds[0]], type(None) in kinds)
    return found


def with_types(asked: Asked) -> Asked:
    """Check that every value is of its field's type; a list will do where a tuple is meant."""
    values: dict[str, Any] = {}
    for field, (read, optional) in _readers().items():
        value = getattr(asked, field)
        values[field] = None if optional and value is None else read(field, value)
    return Asked(**values)


def check_choices(asked: Asked) -> None:
    """Check every option whose value must be one of some names."""
    for name, row in OPTIONS.items():
        value = getattr(asked, row.field)
        fits = row.besides is not None and isinstance(value, str) and row.besides(value)
        if (
            row.choices
            and value != row.default
            and not fits
            and not (name == "topology" and asked.graph)
        ):
            more = family_of(asked.collective).more_dtypes if name == "dtype" else ()
            choose(name, value, (*row.choices, *more))


def check_ranges(asked: Asked) -> None:
    """Check that every option is within its limits, if it has limits and anything heeds it."""
    of_others = set(COUNTS) - TOPOLOGIES.get(asked.topology, {}).keys()
    for row in OPTIONS.values():
        if row.field not in of_others and asked.heeds(row):
            row.check_range(asked)


def with_algorithms(asked: Asked) -> Asked:
    """Check the algorithms, or fill in the first two of the collective."""
    family = family_of(asked.collective)
    for each in families():
        each.check_names(asked)
    asked = replace(asked, algorithms=tuple(family.with_algorithms(asked)))
    for algorithm in asked.algorithms:
        family.check_algorithm(asked.collective, algorithm)
        refuse(
            asked.algorithms.count(algorithm) > 1,
            f"algorithm {algorithm!r} is named more than once: name it once, and say "
            "repeat (--repeat N) to run it N times",
        )
        heeds = ALGORITHMS.fact(algorithm, "heeds") if algorithm in ALGORITHMS else ()
        strange = ", ".join(sorted({*heeds} - OPTIONS.keys()))
        if strange:
            raise InputError(
                f"algorithm {algorithm!r} heeds {strange}{did_you_mean(strange, OPTIONS)}, which "
                "is no option: let its heeds be names that weft run --help has after --"
            )
    return asked


def with_shape(asked: Asked) -> Asked:
    """Check and fill in how large the network is, and the rate of its links."""
    if asked.mtu not in MTUS:
        raise InputError(
            f"mtu {shown(asked.mtu)} is no path MTU of RoCE: choose {', '.join(map(str, MTUS))} "
            "(bytes of payload a packet)"
        )
    if asked.is_own_network:
        return with_own_network(asked)
    defaults = TOPOLOGIES[asked.topology]
    for name in COUNTS:
        if getattr(asked, name) is not None and name not in defaults:
            raise InputError(
                f"{flag(name)} {shown(getattr(asked, name))} means nothing for --topology "
                f"{asked.topology}: it takes {', '.join(map(flag, defaults))}"
            )
    unsaid: dict[str, Any] = {
        name: value for name, value in defaults.items() if getattr(asked, name) is None
    }
    if asked.rate_bps == 0:
        unsaid["rate_bps"] = RATE_BPS[check_kind(asked.switch)]
    return replace(asked, **unsaid)


def with_offloading(asked: Asked) -> Asked:
    """Check and fill in what servers and aggregating switches take, as far as the network depends
    on it."""
    if asked.serving and asked.servers is None:
        asked = replace(asked, servers=default_servers(asked))
    if not asked.adding:
        return asked
    slots = SLOTS if asked.slots is None else asked.slots
    refuse(
        slots & slots - 1,
        f"slots {slots} is no power of 2: choose one, like 64",
    )
    refuse(
        slots * asked.jobs > MAX_SLOTS,
        f"slots {slots} for each of {asked.jobs} jobs: a switch has "
        f"{MAX_SLOTS} in all; lower slots or jobs",
    )
    values = asked.values
    if values is None:
        values = min(asked.program_values, 1 << ((asked.mtu - 16) // 4).bit_length() - 1)
    fabric_macros(values)
    refuse(
        4 * values + 16 > asked.mtu,
        f"values {values} make {4 * values + 16} bytes of payload, more "
        f"than the path MTU {asked.mtu}: lower values, or raise mtu",
    )
    return replace(asked, slots=slots, values=values)


def with_seeds(asked: Asked) -> Asked:
    """Check the seeds, and fill in which of several seeds is meant."""
    if not asked.seeds:
        return asked
    parse_seeds(asked.seeds)
    if asked.repeat > 1:
        raise InputError(
            f"repeat {asked.repeat} beside seeds {format_seeds(asked.seeds)}: a repetition "
            "takes the seed that follows, so runs would be there twice; name more seeds, and leave "
            "repeat out (or say 1)"
        )
    if asked.seed in asked.seeds:
        return asked
    if asked.seed != Asked.seed:
        raise InputError(
            f"seed {asked.seed} is none of the seeds {format_seeds(asked.seeds)}: leave seed out"
        )
    return replace(asked, seed=asked.seeds[0])


def with_notice(asked: Asked) -> Asked:
    """Check and fill in when the controller knows of failures."""
    if asked.notice == "late" and asked.notice_after_ns is None:
        asked = replace(asked, notice_after_ns=NOTICE_AFTER_NS)
    if asked.notice_after_ns is None:
        return asked
    refuse(
        asked.notice != "late",
        f"notice-after {asked.notice_after_ns} ns means nothing for notice "
        f"{asked.notice}: it is for notice late; leave it out",
    )
    return asked


def with_collective(asked: Asked, ranks: int) -> Asked:
    """Check and fill in what the collective and its algorithms take."""
    _check_heeded(asked, ranks)
    if asked.collective == "allgather" and asked.chains is None:
        asked = replace(asked, chains=ranks)
    if asked.chains is not None:
        whole("chains", asked.chains, 1, ranks)
    if asked.serving:
        _check_servers(asked, ranks)
    family = family_of(asked.collective)
    if not family.types_itself:
        _check_dtype(asked)
    asked = family.resolve(asked, ranks)
    asked = replace(
        asked,
        dtype=asked.dtype or (REDUCED_DTYPE if asked.reducing else DTYPE),
        chunk_bytes=asked.mtu if asked.chunk_bytes is None else asked.chunk_bytes,
    )
    _check_data(asked)
    whole("root", asked.root, 0, ranks - 1)
    refuse(
        asked.at_once > asked.operations,
        f"at-once {asked.at_once} is more than operations {asked.operations}: lower it, "
        "or raise operations (--operations N), of which so many run at the same time",
    )
    chunk_bytes = asked.chunk_bytes or 0
    refuse(
        chunk_bytes > asked.mtu and chunk_bytes % asked.mtu,
        f"chunk {chunk_bytes} is larger than the path MTU and no multiple of it: choose "
        f"at most {asked.mtu}, or a multiple of that",
    )
    refuse(
        len(asked.sizes_bytes) > ranks,
        f"sizes are {len(asked.sizes_bytes)} for {ranks} ranks: give at most one a rank",
    )
    family.check_sizes(asked)
    if asked.multicasting:
        _check_chunks(asked, family.shard_sizes(asked, ranks))
    return asked


def _check_dtype(asked: Asked) -> None:
    """Raise InputError for a type that is none of those that all kinds of work have."""
    if asked.dtype not in ("", *DTYPES):
        others = [each.name for each in families() if each.more_dtypes]
        raise InputError(
            f"dtype {asked.dtype!r} is for {listed(others, 'and')}: choose {', '.join(DTYPES)}"
        )


def _check_chunks(asked: Asked, shard_sizes: Sequence[int]) -> None:
    """Raise InputError for more chunks than a worker can tell apart."""
    packet_bytes = min(asked.chunk_bytes or 0, asked.mtu)
    packets = sum(-(-size // packet_bytes) for size in shard_sizes)
    if -(-packets // asked.workers) > (1 << 24) - len(shard_sizes):
        raise InputError(
            f"{sum(shard_sizes)} bytes are {packets} chunks of {packet_bytes}: "
            f"the immediate's 24 bits number {1 << 24} for each worker; choose a smaller "
            "--size, a larger --mtu or --chunk, or more --workers"
        )


def _check_heeded(asked: Asked, ranks: int) -> None:
    """Raise InputError for an option that nothing of what is run would heed."""
    filled_in = {"chains": ranks if asked.collective == "allgather" else None, "chunk": asked.mtu}
    for name, row in OPTIONS.items():
        value = getattr(asked, row.field)
        if value is not None and value != filled_in.get(name, row.default) and not asked.heeds(row):
            raise InputError(
                f"{name} {shown(value)} means nothing for {asked.collective} by "
                f"{' and '.join(asked.algorithms)}: {row.who}; leave {name} out"
            )


def _check_data(asked: Asked) -> None:
    """Raise InputError for data other than exact whose sums would not be rounded."""
    if asked.data == "exact":
        return
    refuse(
        "float" not in asked.dtype,
        f"data {asked.data!r} means nothing for dtype {asked.dtype}: it is for "
        "floating-point numbers, since sums of integers are exact; choose a dtype like "
        "float32, or leave data out",
    )
    refuse(
        asked.op not in ("sum", "average"),
        f"data {asked.data!r} means nothing for op {asked.op}: it is for sum and "
        "average, since the least and the largest of numbers are exact; leave data or op out",
    )


def _check_servers(asked: Asked, ranks: int) -> None:
    """Check how requests are dealt out to servers."""
    if asked.fan_in is None:
        return
    groups = -(-ranks // asked.fan_in)
    assert asked.servers is not None
    refuse(
        groups > asked.servers,
        f"fan-in {asked.fan_in}: {ranks} ranks make {groups} groups, and each needs a "
        f"server of its own, so servers {asked.servers} are too few; raise servers or fan-in",
    )
