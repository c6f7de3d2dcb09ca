"""What a ``[plot]`` table of a scenario file says; everything in it is checked."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from weft.agents.collectives.names import baseline
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.metric_names import plotted, plotted_of_links
from weft.experiments.scenario.options import OPTIONS, by_key, read_option
from weft.topo.clos import LINK_TIERS

KINDS = ("lines", "phases", "tiers", "timeline", "heatmap")

TIERS: dict[str, tuple[str, ...]] = {
    "all": LINK_TIERS,
    "host": ("host_up", "host_down"),
    "fabric": ("fabric_up", "fabric_down"),
    **{tier.replace("_", "-"): (tier,) for tier in LINK_TIERS},
}
"""The links whose bytes a plot sums, by name."""

LOGS = ("", "x", "y", "xy")

MEANINGLESS = {"lines": (), "phases": ("log", "y")}
"""By kind, the fields that mean nothing for it. For kinds that are not here, neither axis can be
chosen."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class PlotSpec(msgspec.Struct, forbid_unknown_fields=True):
    """One plot. The fields are the keys of a ``[plot]`` table.

    Raises `InputError` for what makes no sense by itself; `check` compares it with an experiment.
    """

    kind: str = "lines"
    """``lines``; ``phases``: stacked bars of the slowest rank's phases; ``tiers``: bars of bytes by
    kind of link, against the model; ``timeline``: when each operation of a run was under way on
    each rank, or on the fastest and the slowest of many; ``heatmap``: what each direction of the
    links carried over time. The last two show the first six runs."""
    name: str = ""
    """The name of the plot's files, NAME.svg and NAME.png; by default it is made of the other
    fields."""
    title: str = ""
    x: str = ""
    """For lines and phases: a swept option, or ``ranks``."""
    y: str = ""
    """For lines: one of the metrics that are `plotted`."""
    tier: str = "all"
    """For bytes, bytes-ratio, over-model and heatmap: which links, one of `TIERS`."""
    numerator: str = ""
    denominator: str = ""
    """For bytes-ratio, `numerator` and this name two algorithms. For speed-up, this is the
    algorithm whose time is divided by the others', `baseline` by default."""
    log: str = ""
    """Which axes have a logarithmic scale: x, y or xy."""
    model: bool = True
    """Whether the bound or the model is drawn as well."""
    where: dict[str, list[Any]] = {}
    """Only these runs are plotted: values by option, ``algorithm`` among them."""

    def __post_init__(self) -> None:
        choose("kind", self.kind, KINDS)
        choose("tier", self.tier, TIERS)
        choose("log", self.log, LOGS)
        if self.kind == "lines":
            if not self.y:
                raise InputError(
                    f"y is missing: say what is plotted, one of {', '.join(plotted())}"
                )
            choose("y", self.y, plotted())
        refuse(
            self.kind in ("lines", "phases") and not self.x,
            "x is missing: name a swept option, or ranks",
        )
        self._no(*MEANINGLESS.get(self.kind, ("x", "log", "y")))
        if self.tier != "all" and self.kind != "heatmap" and self.y not in plotted_of_links():
            raise InputError(
                f"tier {self.tier!r} means nothing here: it is for "
                f"y = {', '.join(plotted_of_links())}, and for kind = 'heatmap'"
            )
        if self.y == "bytes-ratio":
            for name in ("numerator", "denominator"):
                if not getattr(self, name):
                    raise InputError(
                        f"{name} is missing: y = 'bytes-ratio' compares two algorithms"
                    )
            refuse(
                self.numerator == self.denominator,
                f"numerator and denominator are both {self.numerator!r}: name two algorithms",
            )
        elif self.y == "speed-up":
            self._no("numerator")
            self.denominator = self.denominator or baseline()
        else:
            self._no("numerator", "denominator")
        if not self.name:
            parts = (self.y or self.kind, "" if self.tier == "all" else self.tier, self.x)
            self.name = "-".join(filter(None, parts))
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"name {shown(self.name)} is no name for a file: write at most 64 letters, digits, "
                "- and _"
            )
        self.where = by_key(self.where, "where")
        for option, values in self.where.items():
            if not values:
                raise InputError(f"where.{option} is an empty list: no run is like that")
            for value in values:
                try:
                    read_option(option, value)
                except InputError as error:
                    raise InputError(f"where.{error}") from None

    def _no(self, *names: str) -> None:
        kind = f"kind = {self.kind!r}" + (f" of y = {self.y!r}" if self.y else "")
        for name in names:
            refuse(getattr(self, name), f"{name} means nothing for {kind}: leave it out")

    def check(self, swept: Collection[str], algorithms: Collection[str]) -> None:
        """Raise InputError for an axis that is not swept, or an algorithm that does not run."""
        known = (*sorted(swept), "ranks")
        if self.x in OPTIONS and self.x not in swept and self.x != "algorithm":
            raise InputError(
                f"x {self.x!r} is not swept: give it values under [sweep], or choose from "
                f"{', '.join(known)}"
            )
        if self.x:
            choose("x", self.x, known)
        for name in ("numerator", "denominator"):
            if getattr(self, name):
                choose(name, getattr(self, name), sorted(algorithms))

    @staticmethod
    def read(table: Mapping[str, Any]) -> "PlotSpec":
        """Return the plot that a TOML table describes. Raises `InputError`."""
        known = PlotSpec.__struct_fields__
        values: dict[str, Any] = {}
        for key, value in table.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise InputError(
                    f"unknown key {shown(key)}.{hint} Valid keys: {', '.join(sorted(known))}"
                )
            if key == "where":
                value = _where(value)
            elif not isinstance(value, bool if key == "model" else str):
                kind = "true or false" if key == "model" else "text in quotes"
                raise InputError(f"{key} {shown(value)} is not {kind}")
            values[key] = value
        if "x" in values:
            values["x"] = values["x"].replace("_", "-")
        return PlotSpec(**values)


def read_plots(
    tables: Any, swept: Collection[str], algorithms: Collection[str]
) -> tuple[PlotSpec, ...]:
    """Return the plots of a ``[plot]`` table or of ``[[plot]]`` tables. Raises `InputError`."""
    many = isinstance(tables, list)
    plots: list[PlotSpec] = []
    for index, table in enumerate(tables if many else [tables]):
        place = f"plot {index + 1}" if many else "plot"
        if not isinstance(table, Mapping):
            raise InputError(f"{place} is {shown(table)}, not a table: write [plot] or [[plot]]")
        try:
            plot = PlotSpec.read(table)
            plot.check(swept, algorithms)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        check_names([*plots, plot])
        plots.append(plot)
    return tuple(plots)


def check_names(plots: Sequence[PlotSpec]) -> None:
    """Raise InputError if two plots would be written to the same file."""
    names = [plot.name.lower() for plot in plots]
    for plot in plots:
        refuse(
            names.count(plot.name.lower()) > 1,
            f"two plots are named {plot.name!r}: give one another name",
        )


def _where(value: Any) -> dict[str, list[Any]]:
    if not isinstance(value, Mapping):
        raise InputError(f"where {shown(value)} is not a table: write {{ world = 'simulated' }}")
    return {
        name: list(values) if isinstance(values, list) else [values]
        for name, values in by_key(value, "where").items()
    }
