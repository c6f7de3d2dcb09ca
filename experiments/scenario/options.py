"""Scenarios from options by their command-line names: of the command line, or of a TOML file."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from weft.base.errors import InputError
from weft.base.files import read_text
from weft.base.units import (
    parse_duration,
    parse_number,
    parse_probability,
    parse_rate,
    parse_seeds,
    parse_size,
    shown,
)
from weft.experiments.scenario.checks import CHOICES
from weft.experiments.scenario.fsdp_models import FSDP
from weft.experiments.scenario.scenario import Fault, Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


MOST_BYTES = 1 << 20
"""Of a scenario file."""


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} {shown(value)} is not text: write a name, in quotes")
    if not value.strip():
        raise InputError(f"{name} {shown(value)} is empty: write a name, or leave {name} out")
    return value


def _texts(name: str, value: Any) -> list[str]:
    return [_text(name, item) for item in (value if isinstance(value, (list, tuple)) else [value])]


def _named(name: str) -> Callable[[Any], str]:
    return lambda value: _text(name, value)


@dataclass(frozen=True)
class _Key:
    name: str
    """Of the scenario's field."""
    read: Callable[[Any], Any] | None = None


_KEYS: dict[str, _Key] = {
    "rate": _Key("rate_bps", lambda v: _rate(v)),
    "size": _Key("size_bytes", lambda v: parse_size(v, "size")),
    "sizes": _Key("sizes_bytes", lambda v: _sizes(v)),
    "seeds": _Key("seeds", parse_seeds),
    "block": _Key("block_bytes", lambda v: parse_size(v, "block")),
    "chunk": _Key("chunk_bytes", lambda v: parse_size(v, "chunk")),
    "delay": _Key("delay_ns", lambda v: parse_duration(v, "delay")),
    "notice-after": _Key("notice_after_ns", lambda v: parse_duration(v, "notice-after")),
    "retransmit-timeout": _Key(
        "retransmit_timeout_ns", lambda v: parse_duration(v, "retransmit-timeout")
    ),
    "control-timeout": _Key("control_timeout_ns", lambda v: parse_duration(v, "control-timeout")),
    "queue": _Key("queue_bytes", lambda v: parse_size(v, "queue")),
    "loss": _Key("loss", lambda v: parse_probability(v, "loss")),
    "algorithm": _Key("algorithms", lambda v: _algorithms(v)),
    "fault": _Key("faults", lambda v: tuple(map(Fault.parse, _texts("fault", v)))),
    "timeout": _Key("timeout_s", lambda v: _number("timeout", v)),
    "slowdown": _Key("slowdown", lambda v: _factor("slowdown", v)),
    "oversubscription": _Key("oversubscription", lambda v: _factor("oversubscription", v)),
    "ecn-threshold": _Key("ecn_threshold_packets"),
    "reorder": _Key("reorder_packets"),
    "placement": _Key("rank_placement", _named("placement")),
    "pcap": _Key("pcap", lambda v: _flag("pcap", v)),
    "predict": _Key("predict", lambda v: _flag("predict", v)),
    **{
        name: _Key(name.replace("-", "_"), _named(name))
        for name in (
            "collective",
            "world",
            "switch",
            "topology",
            "links",
            "trace",
            "paths",
            "congestion",
            "recovery",
            "notice",
            "cutoff",
            "dtype",
            "op",
            "data",
            "server-placement",
            "model",
            "workload",
        )
    },
    **{
        name: _Key(name.replace("-", "_"))
        for name in (
            "leaves",
            "spines",
            "hosts-per-leaf",
            "k",
            "tiers",
            "mtu",
            "chains",
            "workers",
            "batch",
            "root",
            "radix",
            "operations",
            "at-once",
            "seed",
            "repeat",
            "servers",
            "split",
            "fan-in",
            "slots",
            "values",
            "jobs",
            "layers",
            "tensor",
            "micro-batches",
        )
    },
}
"""What a scenario file and the command line call the fields, and how they are read."""


OPTIONS = tuple(_KEYS)
"""Names of all options."""


def _rate(value: Any) -> int:
    rate_bps = parse_rate(value, "rate")
    if rate_bps == 0:
        raise InputError(f"rate {shown(value)} carries nothing: write one like 100Mbit")
    return rate_bps


def _algorithms(value: Any) -> tuple[str, ...]:
    names = tuple(_texts("algorithm", value))
    if not names:
        known = ", ".join(sorted({name for names in CHOICES.values() for name in names}))
        raise InputError(f"no algorithm was named: choose from {known}, or leave the key out")
    return names


def _sizes(value: Any) -> tuple[int, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        raise InputError(f"sizes {shown(value)} is no list: write sizes with commas, like 1MiB,0,3")
    if not items:
        raise InputError("sizes [] is an empty list: name sizes, or leave it out and name one size")
    try:
        return tuple(parse_size(item, "size") for item in items)
    except InputError as error:
        raise InputError(f"sizes {shown(value)}: {error}") from None


def _number(name: str, value: Any) -> float:
    seconds = parse_number(value.removesuffix("s") if isinstance(value, str) else value)
    if seconds is None:
        raise InputError(f"{name} {shown(value)} is not a number of seconds, like 10 or 2.5")
    return seconds


def _factor(name: str, value: Any) -> float:
    factor = parse_number(value)
    if factor is None:
        raise InputError(f"{name} {shown(value)} is not a number, like 300 or 2.5")
    return factor


_WHOLE = re.compile(r"-?[0-9]{1,20}")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} {shown(value)} is neither true nor false")
    return value


def _integer(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise InputError(f"{name} {shown(value)} is not a whole number: write digits, like 4")


def from_options(options: Mapping[str, Any], source: str = "options") -> Scenario:
    """A scenario of options by their command-line names (``hosts-per-leaf`` or ``hosts_per_leaf``).

    Raises `InputError` that names an unknown key with the nearest valid one, or the bad value.
    """
    values: dict[str, Any] = {}
    for name, value in by_key(options, source).items():
        values[field_of(name)] = read_option(name, value)
    if values.get("collective") == FSDP and "size_bytes" in values:
        values["model"] = ""  # of whatever size: that of Scenario by default among them
    return Scenario(**values)


def read_option(name: str, value: Any) -> Any:
    """What an option's field holds for a value as people write it. Raises `InputError`."""
    key = _KEYS[name]
    return key.read(value) if key.read else _integer(name, value)


def field_of(option: str) -> str:
    """The field of `Scenario` that an option sets: ``size_bytes`` of ``size``. Raises KeyError."""
    return _KEYS[option].name


def option_of(field: str) -> str:
    """The option that sets a field of `Scenario`: ``size`` of ``size_bytes``."""
    return next(name for name, key in _KEYS.items() if key.name == field)


def by_key(options: Mapping[str, Any], source: str) -> dict[str, Any]:
    """`options` by the names that `_KEYS` has; each of them known, and there once."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        key = name.replace("_", "-")
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            known = "Valid keys: " + ", ".join(sorted(_KEYS))
            hint = f"Did you mean {near[0]!r}?" if near else known
            raise InputError(f"{source}: unknown key {shown(name)}. {hint}")
        if key in values:
            raise InputError(
                f"{source}: {key!r} is there twice, as {key!r} and as "
                f"{key.replace('-', '_')!r}: keep one of them"
            )
        values[key] = value
    for one, others in EXCLUSIVE.items():
        for other in (name for name in others if one in values and name in values):
            raise InputError(
                f"{source}: {one} {shown(values[one])} and {other} {shown(values[other])} say the "
                "same thing twice: keep one of them"
            )
    return values


EXCLUSIVE = {
    "size": ("sizes", "model"),
    "sizes": ("size", "model"),
    "model": ("size", "sizes"),
    "seed": ("seeds",),
    "seeds": ("seed",),
}
"""Options that take each other's place."""


def over(options: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`options` with those of `more` before them; what `more` takes the place of is left out."""
    replaced = {other for name in more for other in EXCLUSIVE.get(name, ())}
    return {**{name: value for name, value in options.items() if name not in replaced}, **more}


def load_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says. Raises `InputError` that names the file."""
    try:
        document: dict[str, Any] = tomllib.loads(read_text(path, MOST_BYTES))
    except OSError as error:
        raise InputError(f"scenario file {str(path)!r} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise InputError(
            f"scenario file {str(path)!r} is nested too deeply: a scenario is keys with numbers, "
            "strings and lists of strings"
        ) from None
    except ValueError as error:  # tomllib's own, no UTF-8, a number of thousands of digits
        raise InputError(f"scenario file {str(path)!r} is not valid TOML: {error}") from None
    return document


assert {key.name for key in _KEYS.values()} == {item.name for item in fields(Scenario)}
