"""Experiments: the points that a scenario file means, by its sweeps and parts.

A scenario file has the options of ``weft run`` as its keys. A table ``[sweep]`` has lists of values
of options: every combination is a point, and points that differ only in the last key follow each
other. A point with `seeds` is one point for each of them here; results take them together again.
Each table ``[[part]]`` has keys that go before the file's own, and may have a ``sweep``; then the
points of the file are those of its parts. ``[plot]`` or ``[[plot]]`` say what is plotted.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.scenario.families import families
from weft.experiments.scenario.options import (
    OPTIONS,
    by_key,
    field_of,
    from_options,
    load_toml,
    over,
    read_option,
    said,
)
from weft.experiments.scenario.plot_spec import PlotSpec, read_plots
from weft.experiments.scenario.scenario import Scenario

MAX_POINTS = 10_000


@dataclass(frozen=True)
class Point:
    """One scenario of an experiment, and what tells it from the others."""

    scenario: Scenario
    label: str = ""
    """What is swept, with its values here: ``hosts-per-leaf 4, size 1 MiB``."""
    number: str = ""
    """The point's number and how many there are, like ``3/12``; empty if there is only one."""

    @property
    def heading(self) -> str:
        """Return what is written before a message about the point."""
        return f"[{self.number}] {self.label}: " if self.number else ""


@dataclass(frozen=True)
class Experiment:
    """Scenarios that belong together, the options in which they differ, and what is plotted of
    them."""

    points: tuple[Point, ...]
    swept: tuple[str, ...] = ()
    """Options that differ between points."""
    plots: tuple[PlotSpec, ...] = ()
    name: str = ""
    """The name of the results folder."""

    @staticmethod
    def of(scenario: Scenario) -> "Experiment":
        """Return the experiment of one scenario, with each of its seeds."""
        return Experiment(_points(scenario.each_seed(), ()), name=scenario.collective)


Options = dict[str, Any]
"""Values as people write them, by the names that options have."""


def read_file(path: Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """Return the experiment of a TOML file; `overrides` (options of the command line) go before its
    keys.

    An option that is overridden is not swept. If points are equal, only the first is kept. Every
    point has been checked. Raises `InputError`, which names the file, and the point if the error is
    that of a point.
    """
    document = load_toml(path)
    source = f"scenario file {str(path)!r}"
    try:
        return _experiment(document, by_key(overrides or {}, "options"), source, path)
    except InputError as error:
        message = str(error)
        prefix = f"{source}: "
        raise InputError(message if message.startswith(prefix) else prefix + message) from None


def _experiment(document: Options, overrides: Options, source: str, path: Path) -> Experiment:
    plots = document.pop("plot", [])
    parts = document.pop("part", None)
    keys, sweep = _keys(document, source)
    wholes = [(keys, sweep)]
    if parts is not None:
        if not isinstance(parts, list) or not parts:
            raise InputError(f"part is {shown(parts)}: write each part under a heading [[part]]")
        wholes = [
            _part(keys, sweep, part, f"{source}: part {index + 1}")
            for index, part in enumerate(parts)
        ]
    given: dict[str, None] = {}
    """Options that a part or a sweep sets, in the order in which they are shown."""
    for mine, swept in wholes:
        given.update(dict.fromkeys(name for name in mine if mine[name] != keys.get(name)))
        given.update(dict.fromkeys(swept))
    points: dict[Scenario, Options] = {}
    for options in itertools.chain.from_iterable(
        _combinations(over(mine, overrides), _left(swept, overrides)) for mine, swept in wholes
    ):
        chosen = {name: options[name] for name in given if name in options}
        try:
            places = [Path(), path.parent] if "workload" in overrides else [path.parent, Path()]
            scenario = from_options(_located(options, places))
        except InputError as error:
            if not given:
                raise
            words = ", ".join(f"{name} = {shown(value)}" for name, value in chosen.items())
            raise InputError(f"point {len(points) + 1} ({words}): {error}") from None
        refuse(
            len(points) + len(scenario.seeds or (scenario.seed,)) > MAX_POINTS,
            f"the sweeps make more than {MAX_POINTS} points, of each seed: sweep fewer values",
        )
        for each in scenario.each_seed():
            points.setdefault(each, options)
    scenarios = list(points)
    axes = [name for name in given if name not in ("algorithm", "seeds")]
    read = read_plots(plots, axes, {name for one in scenarios for name in one.algorithms})
    for plot in read:
        _check_where(plot, scenarios, overrides)
    differing = tuple(
        name for name in axes if len({getattr(one, field_of(name)) for one in scenarios}) > 1
    )
    name = path.stem if len(points) > 1 or read else scenarios[0].collective
    return Experiment(_points(scenarios, differing), differing, read, name)


def _located(options: Options, places: Sequence[Path]) -> Options:
    """Return options in which files that kinds of work read are given where they are."""
    for family in families():
        options = family.located(options, places)
    return options


def _points(scenarios: Sequence[Scenario], swept: Sequence[str]) -> tuple[Point, ...]:
    """Return the points of scenarios, each with what tells it from the others."""
    return tuple(
        Point(
            scenario,
            label_of(scenario, [*swept, *["seed"] * bool(scenario.seeds)]),
            f"{index + 1}/{len(scenarios)}" if len(scenarios) > 1 else "",
        )
        for index, scenario in enumerate(scenarios)
    )


def _check_where(plot: PlotSpec, scenarios: Sequence[Scenario], overrides: Options) -> None:
    """Raise InputError for a plot that would show no run, unless options of the command line are
    the reason."""
    left = [(scenario, name) for scenario in scenarios for name in scenario.algorithms]
    for option, values in plot.where.items():
        if option in overrides:
            return
        refuse(
            option in ("seed", "seeds") and any(scenario.seeds for scenario in scenarios),
            f"plot {plot.name!r}: where.{option} picks seeds, but what is plotted are means of "
            "all seeds: leave it out",
        )
        among = " among those that the rest of where leaves" * (len(plot.where) > 1)
        for value in values:
            if not any(_is_like(each, option, value) for each in left):
                raise InputError(
                    f"plot {plot.name!r}: where.{option} {shown(value)} matches no run{among}: "
                    "name a value that is run, or leave it out"
                )
        left = [each for each in left if any(_is_like(each, option, value) for value in values)]


def _is_like(run: tuple[Scenario, str], option: str, value: Any) -> bool:
    scenario, algorithm = run
    wanted = read_option(option, value)
    if option == "algorithm":
        return algorithm in wanted
    return bool(getattr(scenario, field_of(option)) == wanted)


def label_of(scenario: Scenario, swept: Sequence[str]) -> str:
    """Return the swept options of a point with their values."""
    document = scenario.to_dict()
    return ", ".join(f"{name} {said(name, document[field_of(name)])}" for name in swept)


def _part(keys: Options, sweep: Options, part: Any, place: str) -> tuple[Options, Options]:
    """Return the keys and the sweep of a part, together with those of the file that the part does
    not change."""
    if not isinstance(part, dict):
        raise InputError(f"{place} is {shown(part)}: write each part under a heading [[part]]")
    mine, swept = _keys(part, place)
    return over(keys, mine), {**_left(sweep, {**mine, **swept}), **swept}


def _left(sweep: Options, more: Options) -> Options:
    """Return what is still swept once the options of `more` are set."""
    return {name: values for name, values in over(sweep, more).items() if name not in more}


def _keys(table: Options, place: str) -> tuple[Options, Options]:
    """Return a table's keys and its sweep, both by the names of options."""
    table = dict(table)
    sweep = table.pop("sweep", {})
    if not isinstance(sweep, dict):
        raise InputError(
            f"{place}: sweep is {shown(sweep)}, not a table: write [sweep] and under it lists of "
            "values, like size = ['64KiB', '1MiB']"
        )
    keys = by_key(table, place)
    swept = by_key(sweep, f"{place}: sweep")
    refuse(
        "seeds" in swept,
        f"{place}: sweep.seeds: figures are means over seeds at every point, which is no "
        "axis: write seeds beside the sweep; or, for an axis, sweep seed",
    )
    for name, values in swept.items():
        if not isinstance(values, list) or not values:
            raise InputError(
                f"{place}: sweep.{name} is {shown(values)}: write a list of values, like [2, 4, 8]"
            )
        refuse(
            name in keys,
            f"{place}: {name!r} is both set and swept: keep one of them",
        )
        for other in (each for each in OPTIONS[name].instead_of if each in keys):
            raise InputError(
                f"{place}: {other!r} is set and {name!r} swept, which say the same thing twice: "
                "keep one of them"
            )
    return keys, swept


def _combinations(keys: Options, sweep: Options) -> Iterator[Options]:
    for values in itertools.product(*sweep.values()):
        yield over(keys, dict(zip(sweep, values, strict=True)))
