"""Checks of what a scenario says of its operations, of each option alone and of all together; they
also fill in defaults.

Each function takes what is asked and returns it with what follows from it, or raises `InputError`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from types import UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

from weft.agents.collectives.needs import Setting
from weft.base.arguments import items, number, text, texts, truth, wholes
from weft.base.arguments import whole as whole_number
from weft.base.entry_points import blamed
from weft.base.errors import InputError, refuse
from weft.base.option import own_of, whole
from weft.base.units import format_seeds, listed, parse_seeds, shown
from weft.experiments.scenario.asked import OPTIONS, Asked
from weft.experiments.scenario.choices import (
    COUNTS,
    DTYPE,
    DTYPES,
    MTUS,
    NOTICE_AFTER_NS,
    REDUCED_DTYPE,
    TOPOLOGIES,
    choose,
    flag,
)
from weft.experiments.scenario.families import families
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.network_checks import with_own_network
from weft.experiments.scenario.shape import default_servers
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
    """Check that every option is within its limits, if it has limits and anything uses it."""
    of_others = set(COUNTS) - TOPOLOGIES.get(asked.topology, {}).keys()
    for row in OPTIONS.values():
        unsaid = row.is_unsaid(getattr(asked, row.field))  # which is asked first, as it costs least
        if not unsaid and row.field not in of_others and asked.uses(row):
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


class Known(NamedTuple):
    """What is known of a network where options are filled in."""

    ranks: int | None
    """How many ranks there are; None: not known yet."""
    usual_servers: Callable[[], int]
    """Return how many reduction servers there are by default."""


def with_filled(asked: Asked, ranks: int | None = None) -> Asked:
    """Fill in what is not asked and follows from all else, as far as it does so yet."""
    known = Known(ranks, partial(default_servers, asked))
    for row in OPTIONS.values():
        if row.filled is not None and row.is_unsaid(getattr(asked, row.field)):
            filled: Any = row.filled(asked, known)
            asked = replace(asked, **{row.field: filled})
    return asked


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
    asked = with_filled(asked, ranks)
    family = family_of(asked.collective)
    if not family.types_itself:
        _check_dtype(asked)
    asked = family.resolve(asked, ranks)
    asked = replace(asked, dtype=asked.dtype or (REDUCED_DTYPE if asked.reducing else DTYPE))
    _check_data(asked)
    whole("root", asked.root, 0, ranks - 1)
    refuse(
        asked.at_once > asked.operations,
        f"at-once {asked.at_once} is more than operations {asked.operations}: lower it, "
        "or raise operations (--operations N), of which so many run at the same time",
    )
    refuse(
        len(asked.sizes_bytes) > ranks,
        f"sizes are {len(asked.sizes_bytes)} for {ranks} ranks: give at most one a rank",
    )
    family.check_sizes(asked)
    setting = Setting(ranks, asked.mtu, asked.jobs, partial(family.shard_sizes, asked, ranks))
    for kind in asked.kinds():
        with blamed(kind, "check_setting"):
            kind.check_setting(own_of(asked, kind.options), setting)
    return asked


def _check_dtype(asked: Asked) -> None:
    """Raise InputError for a type that is none of those that all kinds of work have."""
    if asked.dtype not in ("", *DTYPES):
        others = [each.name for each in families() if each.more_dtypes]
        raise InputError(
            f"dtype {asked.dtype!r} is for {listed(others, 'and')}: choose {', '.join(DTYPES)}"
        )


def _check_heeded(asked: Asked, ranks: int) -> None:
    """Raise InputError for an option that nothing of what is run would use."""
    known = Known(ranks, partial(default_servers, asked))
    for name, row in OPTIONS.items():
        value = getattr(asked, row.field)
        usual = row.default if row.filled is None else row.filled(asked, known)
        if value not in (None, row.default, usual) and not asked.uses(row):
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
