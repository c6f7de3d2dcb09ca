"""What an option of a scenario is: how it is read and written, its help, its group, who uses it,
and whether a different value needs another network.

A field of `weft.experiments.scenario.asked.Asked` is an option; `option` makes the field's default.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, fields, replace
from dataclasses import field as dataclass_field
from functools import cache
from typing import Any, TypeVar, cast

from weft.base.errors import InputError
from weft.base.units import (
    format_duration,
    format_rate,
    format_seeds,
    format_size,
    listed,
    parse_duration,
    parse_number,
    parse_probability,
    parse_rate,
    parse_seeds,
    parse_size,
    shown,
)

T = TypeVar("T")
NETWORK = "Network"
TESTBED = "World and switches"
TRANSPORT = "Paths and transport"
OPERATION = "Operations"
UNICAST = "Unicast algorithms"
MULTICAST = "Multicast"
OPTCAST = "Reduction servers (Optcast)"
ADDING = "Switches that add"
WORKLOAD = "Workloads"
RESHARDING = "Resharding"
PIPELINES = "Pipelines"
FUSING = "Fused operators"
FAULTS = "Faults"
RUNS = "Runs"
GROUPS = (
    TESTBED, NETWORK, TRANSPORT, OPERATION, UNICAST, MULTICAST, OPTCAST, ADDING, WORKLOAD,
    RESHARDING, PIPELINES, FUSING, FAULTS, RUNS,
)  # fmt: skip
"""The groups of options, in the order in which help has them."""


OF_ALGORITHMS = "it is for the algorithm{s} {names}"
"""Who uses an option that comes with algorithms: see `Option.who`."""
_WHOLE = re.compile(r"-?[0-9]{1,20}")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} {shown(value)} is not text: write a name, in quotes")
    if not value.strip():
        raise InputError(f"{name} {shown(value)} is empty: write a name, or leave {name} out")
    return value


def read_texts(name: str, value: Any) -> list[str]:
    """Return a text, or a list of texts, as a list. Raises `InputError`."""
    return [_text(name, item) for item in (value if isinstance(value, (list, tuple)) else [value])]


def _whole_number(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise InputError(f"{name} {shown(value)} is not a whole number: write digits, like 4")


def _rate(name: str, value: Any) -> int:
    rate_bps = parse_rate(value, name)
    if rate_bps == 0:
        raise InputError(f"{name} {shown(value)} carries nothing: write one like 100Mbit")
    return rate_bps


def _sizes(name: str, value: Any) -> tuple[int, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        raise InputError(
            f"{name} {shown(value)} is no list: write sizes with commas, like 1MiB,0,3"
        )
    if not items:
        raise InputError(
            f"{name} [] is an empty list: name sizes, or leave it out and name one size"
        )
    try:
        return tuple(parse_size(item, "size") for item in items)
    except InputError as error:
        raise InputError(f"{name} {shown(value)}: {error}") from None


def _hosts(name: str, value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not names:
        raise InputError(
            f"{name} {shown(value)} is no list: write names with commas, like h0,h3,h5"
        )
    return tuple(_text(name, item).strip() for item in names)


def _wholes(name: str, value: Any) -> tuple[int, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not items:
        raise InputError(
            f"{name} {shown(value)} is no list: write whole numbers with commas, like 1,0,3"
        )
    return tuple(_whole_number(name, each) for each in items)


def _seconds(name: str, value: Any) -> float:
    seconds = parse_number(value.removesuffix("s") if isinstance(value, str) else value)
    if seconds is None:
        raise InputError(f"{name} {shown(value)} is not a number of seconds, like 10 or 2.5")
    return seconds


def _factor(name: str, value: Any) -> float:
    factor = parse_number(value)
    if factor is None:
        raise InputError(f"{name} {shown(value)} is not a number, like 300 or 2.5")
    return factor


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} {shown(value)} is neither true nor false")
    return value


def whole(name: str, value: Any, low: float, high: float) -> None:
    """Raise `InputError` unless a value is a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            f"{name} {shown(value)} is out of range: a whole number from {low} to {high}"
        )


def _check_seconds(name: str, value: Any, low: float, high: float) -> None:
    if not low < value <= high:
        raise InputError(f"{name} {value} s is out of range: more than {low}, at most {high}")


def _in_units(*units: tuple[str, int]) -> Callable[[Any], str]:
    """Return a function that writes a whole number in the largest unit of which it is a
    multiple."""

    def write(value: Any) -> str:
        for unit, size in units if isinstance(value, int) else ():
            if value and value % size == 0:
                return f"{value // size}{unit}"
        return str(value)

    return write


_write_size = _in_units(("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@dataclass(frozen=True)
class OptionKind:
    """What sort of value an option has: how people write it, and how it is written to them."""

    unit: str
    """What it is a number of, or how it is written: for the reference."""
    read: Callable[[str, Any], Any]
    """The field's value, from the option's name and a value of a command line or a TOML file.
    Raises `InputError`."""
    say: Callable[[Any], str] = str
    """The value as a sentence or a table has it: ``1 MiB``."""
    write: Callable[[Any], str] = str
    """The value as `read` takes it: ``1MiB``."""
    listed: bool = False
    """Whether the option may be repeated."""
    check: Callable[[str, Any, float, float], None] = whole
    """Raises `InputError` for an option's value that is not between two numbers."""
    metavar: str | None = None
    """What stands for a value in help, unless the option says something else."""


TEXT = OptionKind("a name", _text)
WHOLE = OptionKind("a whole number", _whole_number, metavar="N")
WHOLES = OptionKind(
    "whole numbers with commas",
    _wholes,
    write=lambda numbers: ",".join(map(str, numbers)),
    metavar="N,...",
)
SIZE = OptionKind(
    "bytes, like 64KiB", lambda name, value: parse_size(value, name), format_size, _write_size
)
SIZES = OptionKind(
    "sizes with commas", _sizes, format_size, lambda sizes: ",".join(map(_write_size, sizes))
)
RATE = OptionKind(
    "bits a second, like 100Mbit",
    _rate,
    format_rate,
    _in_units(("Gbit", 10**9), ("Mbit", 10**6), ("kbit", 10**3)),
)
DURATION = OptionKind(
    "a time, like 500ns, 10us or 1ms",
    lambda name, value: parse_duration(value, name),
    format_duration,
    _in_units(("ms", 10**6), ("us", 10**3), ("ns", 1)),
)
"""In nanoseconds."""
SECONDS = OptionKind("seconds", _seconds, lambda seconds: f"{seconds:g} s", check=_check_seconds)
FACTOR = OptionKind("a number", _factor, metavar="X")
PROBABILITY = OptionKind(
    "a probability, like 0.01 or 1%",
    lambda name, value: parse_probability(value, name),
    lambda part: f"{100 * part:g} %",
    "{:g}".format,
)
FLAG = OptionKind("yes or no", _flag, write=lambda value: "yes" if value else "no")
NAMES = OptionKind("names", lambda name, value: tuple(read_texts(name, value)), listed=True)
HOSTS = OptionKind("names with commas", _hosts, write=",".join)
SEEDS = OptionKind("seeds", lambda name, value: parse_seeds(value, name), write=format_seeds)


Limits = tuple[float, float] | Callable[[Any], tuple[float, float]]


@dataclass(frozen=True)
class Option:
    """One option: a row of the table that the fields of `Asked` make up."""

    name: str
    """Its name on the command line and in a scenario file; if empty, the field's with hyphens."""
    kind: OptionKind
    help: str
    """One sentence; ``{choices}`` in it stands for the choices."""
    group: str
    default: Any
    """What the field holds where nothing is asked."""
    metavar: str | None
    default_text: str | None
    """What ``weft run --help`` gives as the default; None stands for `default` itself, if there is
    one."""
    choices: Mapping[str, str]
    """The names to choose from, each with what help says of it in brackets, if anything."""
    besides: Callable[[str], bool] | None
    """Says whether a value that is none of the choices will do all the same, like a file's name."""
    between: Limits | None
    """The least and the largest value, or a function of what is asked that returns them."""
    instead_of: tuple[str, ...]
    """The options that this one replaces: they must not be given beside it."""
    network: bool | Callable[[Any], object]
    """Whether scenarios that differ in this option need networks of their own; or a function that
    returns the part of it that decides that."""
    used: Callable[[Any], bool] | None
    """Says whether what is asked uses the option; None means that it always does."""
    who: str
    """Who uses it, for the message to those who do not; of an algorithm's own option, ``{names}``
    stands for those that have it, and ``{s}`` for an s where these are several."""
    counted: str = ""
    """What a whole number of the option counts, as a table writes it behind the number:
    ``packets``."""
    filled: Callable[[Any, Any], object] | None = None
    """What is filled in where nothing is asked, from all that is asked and what is known of the
    network (`weft.experiments.scenario.checks.Known`); without it, the default stays."""
    field: str = ""
    """The name of its field of `Asked`."""

    @property
    def described(self) -> str:
        """Return the help, with the default in brackets."""
        shown_default = self.default_text
        if shown_default is None and self.default is not None and self.default != ():
            shown_default = self.kind.write(self.default)
        text = self.help.replace("{choices}", self._chosen_from)
        return f"{text} [{shown_default}]" if shown_default else text

    @property
    def _chosen_from(self) -> str:
        """Return the choices as a part of a sentence: ``weft (built in) or bmv2
        (simple_switch_grpc)``."""
        names = (f"{name} ({words})" if words else name for name, words in self.choices.items())
        return listed(names, "or") if self.choices else ""

    def of_network(self, asked: Any) -> object:
        """Return what scenarios that can share a network have in common of this option; None if
        they have nothing of it."""
        if callable(self.network):
            return self.network(asked)
        return getattr(asked, self.field) if self.network else None

    def is_unsaid(self, value: object) -> bool:
        """Return whether a value of the option's field means that the default is to be
        filled in."""
        return value is None or (self.default_text is not None and value == self.default)

    def check_range(self, asked: Any) -> None:
        """Raise `InputError` if the option is given and out of range."""
        value = getattr(asked, self.field)
        if self.between is not None and not self.is_unsaid(value):
            limits = self.between(asked) if callable(self.between) else self.between
            self.kind.check(self.name, value, *limits)

    def said(self, value: object) -> str:
        """Return the field's value as people say it: ``1 MiB``, ``0.1 %``, ``none``."""
        if self.kind is SEEDS and value:
            return self.kind.write(value)
        if isinstance(value, (list, tuple)):
            return ", ".join(map(self.said, value)) or "none"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, (int, float)):
            return self.kind.say(value)
        return "none" if value is None else str(value)


def option(
    default: Any,
    kind: OptionKind,
    help: str = "",
    *,
    group: str,
    name: str = "",
    metavar: str | None = None,
    default_text: str | None = None,
    choices: Iterable[str] = (),
    besides: Callable[[str], bool] | None = None,
    between: Limits | None = None,
    instead_of: tuple[str, ...] = (),
    network: bool | Callable[[Any], object] = False,
    used: Callable[[Any], bool] | None = None,
    who: str = "",
    counted: str = "",
    filled: Callable[[Any, Any], object] | None = None,
) -> Any:
    """Return the default of a field of `Asked`, with the field's row of the table of options."""
    if not isinstance(choices, Mapping):
        choices = dict.fromkeys(choices, "")
    row = Option(
        name, kind, help, group, default, metavar or kind.metavar, default_text, choices, besides,
        between, instead_of, network, used, who, counted, filled,
    )  # fmt: skip
    return dataclass_field(default=default, metadata={"option": row})


def check_own(options: Any) -> None:
    """Raise `InputError` for a value that an option of a dataclass of options cannot have.

    How small a size may be at least is for people who run scenarios: here it is one byte.
    """
    for row in _own_rows(options.__class__):
        value = getattr(options, row.field)
        if row.choices and value != row.default and value not in row.choices:
            raise InputError(f"{row.name} {value!r}: choose from {', '.join(row.choices)}")
        if isinstance(row.between, tuple) and not row.is_unsaid(value):
            low, high = row.between
            row.kind.check(row.name, value, min(low, 1) if row.kind is SIZE else low, high)


@cache
def _own_rows(options: Any) -> tuple[Option, ...]:
    return tuple(rows_of(options).values())


def row_of(field: Field[Any]) -> Option:
    """Return the row that a dataclass's field has, with its names."""
    row: Option = field.metadata["option"]
    return replace(row, name=row.name or field.name.replace("_", "-"), field=field.name)


def rows_of(options: Any) -> dict[str, Option]:
    """Return the rows of a dataclass of options, by the options' names; a field without one is
    nothing that people write."""
    rows = (row_of(each) for each in fields(options) if "option" in each.metadata)
    return {row.name: row for row in rows}


def read_own(options: type[T], written: Mapping[str, Any]) -> T:
    """Return options, by their fields, as people have written them. Raises `InputError`."""
    rows = {row.field: row for row in rows_of(options).values()}
    return options(
        **{name: rows[name].kind.read(rows[name].name, text) for name, text in written.items()}
    )


def own_of(asked: Any, options: type[T]) -> T:
    """Return what is asked of options of one's own, as an instance of their dataclass."""
    rows = fields(cast(Any, options))
    return options(**{each.name: getattr(asked, each.name, each.default) for each in rows})
