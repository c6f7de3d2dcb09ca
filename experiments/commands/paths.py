"""``weft paths``: what every link carries under each path scheme, said at once, without packets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from weft.analysis.link_loads import LinkLoads, direction_name
from weft.base import files
from weft.base.errors import InputError, refuse
from weft.base.units import format_rate, format_size, parse_number, shown
from weft.controller.clos_paths import ClosPaths
from weft.experiments.results.summary import short_duration
from weft.experiments.scenario.choices import PLACEMENTS, TOPOLOGIES, choose
from weft.experiments.scenario.options import read_option
from weft.experiments.scenario.placement import place
from weft.experiments.scenario.workload_checks import check_model, check_slowdown, model_defaults
from weft.experiments.theory.static_paths import (
    SchemeLoads,
    Situation,
    analyse,
    check_schemes,
    figures,
)
from weft.experiments.theory.static_workloads import graph_steps, most_sent, static_steps, workloads
from weft.experiments.workloads.gpt import MODELS
from weft.experiments.workloads.load import FILES, WorkloadOptions, algorithms_for
from weft.topo.switch_kinds import RATE_BPS

SCHEMES = "ecmp,ecmp-4,spray,ethereal"
SHAPES = {
    name: {option.replace("_", "-"): size for option, size in TOPOLOGIES[name].items()}
    for name in ("leaf-spine", "fat-tree", "single")
}
"""The options of each topology, and their defaults."""
OF_FLOWS = ("slowdown", "tensor", "layers", "micro_batches")
"""Options of workloads of flows; all but the first are of models alone."""
MOST_LINKS = 1 << 14
"""Directions of links that JSON names one by one."""
MOST_HOSTS = 1 << 17


@dataclass(frozen=True, eq=False)
class Analysis:
    """What was asked, and what each scheme makes of it."""

    asked: Mapping[str, Any]
    situation: Situation
    results: Sequence[SchemeLoads]

    def to_dict(self) -> dict[str, Any]:
        """Return the analysis as JSON has it."""
        paths = self.situation.paths
        schemes = [figures(self.situation, result) for result in self.results]
        found = {**self.asked, "schemes": schemes}
        if paths.directions <= MOST_LINKS:
            names = [direction_name(paths, number) for number in range(paths.directions)]
            found["link_bytes"] = {
                result.scheme: dict(zip(names, result.loads.by_direction().tolist(), strict=True))
                for result in self.results
            }
        return found


def analysis_of(workload: str, options: Mapping[str, Any]) -> Analysis:
    """Analyse a workload. ``options`` are those of the command line, as text; None: by default.

    Raises InputError for what makes no sense.
    """
    given = {name: value for name, value in options.items() if value not in (None, [], ())}
    schemes = check_schemes(given.get("paths", SCHEMES))
    shape, counts = _shape(given)
    paths, slow = _with_faults(shape, given.get("fault", ()))
    rate_bps = int(read_option("rate", given.get("rate", RATE_BPS["weft"])))
    seed = int(read_option("seed", given.get("seed", 1)))
    placement = str(given.get("placement", "in-order"))
    choose("placement", placement, PLACEMENTS)
    team = place(paths.leaves, paths.hosts_per_leaf, jobs=1, order=placement, seed=seed).jobs[0]
    known = workloads()
    if workload in known:
        _refuse_given(
            given, OF_FLOWS, f"{workload}: it is for workloads of flows, models and files"
        )
        algorithm = str(given.get("algorithm", known[workload][0]))
        size_bytes = int(read_option("size", given.get("size", "1MiB")))
        root = int(read_option("root", given.get("root", 0)))
        steps = static_steps(workload, algorithm, len(team), size_bytes, root=root, seed=seed)
    else:
        flows = _flow_options(workload, given, len(team), rate_bps, paths.hosts_per_leaf)
        algorithm, steps = flows.algorithm, graph_steps(flows)
        size_bytes = most_sent(steps, len(team))
    oversubscription = _oversubscription(given.get("oversubscription"))
    rates = _rates(paths, rate_bps, oversubscription, slow)
    unit_bytes = int(read_option("mtu", given.get("unit", 1)))
    situation = Situation(paths, np.array(team, np.int64), rates, seed, unit_bytes)
    asked = {
        "workload": workload, "algorithm": algorithm, "size_bytes": size_bytes,
        "ranks": len(team), "flows": sum(s.number_of_flows(len(team)) * s.times for s in steps),
        "steps": sum(step.times for step in steps), **counts, "placement": placement,
        "faults": list(given.get("fault", ())), "rate_bps": rate_bps,
        "oversubscription": oversubscription, "seed": seed,
        "told_apart": all(step.flows is not None for step in steps),
    }  # fmt: skip
    return Analysis(asked, situation, [analyse(situation, steps, name) for name in schemes])


def _refuse_given(given: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    """Raise InputError for the first of these options that is given; ``why`` ends the message."""
    for name in names:
        refuse(
            name in given,
            f"{name.replace('_', '-')} {shown(given.get(name))} means nothing for {why}",
        )


def _flow_options(
    workload: str, given: Mapping[str, Any], ranks: int, rate_bps: int, hosts_per_leaf: int
) -> WorkloadOptions:
    """Return what is asked of a model, or of a file. Raises InputError for what makes no sense."""
    if workload not in MODELS and Path(workload).suffix not in FILES:
        choose("workload", workload, (*workloads(), *MODELS, *(f"FILE{end}" for end in FILES)))
    named = f"workload {shown(workload)}"
    _refuse_given(given, ("size", "root"), f"{named}, which has flows of its own; leave it out")
    asked = {
        name: read_option(name.replace("_", "-"), given[name]) for name in OF_FLOWS if name in given
    }
    if workload in MODELS:
        asked = {**model_defaults(hosts_per_leaf), **asked}
        check_model(asked, ranks)
    else:
        _refuse_given(given, OF_FLOWS[1:], f"{named}: it is for models, {', '.join(MODELS)}")
    check_slowdown(asked.get("slowdown"))
    algorithm = str(given.get("algorithm", algorithms_for(workload)[0]))
    return WorkloadOptions(workload, algorithm, ranks, rate_bps, **asked)


def _shape(given: Mapping[str, Any]) -> tuple[ClosPaths, dict[str, Any]]:
    name = str(given.get("topology", "leaf-spine"))
    choose("topology", name, tuple(SHAPES))
    counts = dict(SHAPES[name])
    for option in sorted({one for options in SHAPES.values() for one in options}):
        value = given.get(option.replace("-", "_"))
        if value is None:
            continue
        refuse(
            option not in counts,
            f"{option} {shown(value)} means nothing for --topology {name}: it has "
            f"{', '.join(SHAPES[name])}",
        )
        counts[option] = int(read_option(option, value))
        refuse(
            not 1 <= counts[option] <= MOST_HOSTS,
            f"{option} {counts[option]}: from 1 to {MOST_HOSTS} is possible",
        )
    leaves, on_leaf = counts.get("leaves", 1), counts.get("hosts-per-leaf", 1)
    hosts = counts["k"] ** counts["tiers"] // 2 if "k" in counts else leaves * on_leaf
    refuse(
        hosts > MOST_HOSTS,
        f"a network of {hosts} hosts or so: at most {MOST_HOSTS} are possible",
    )
    paths = (
        ClosPaths.fat_tree(counts["k"], counts["tiers"])
        if "k" in counts
        else ClosPaths.leaf_spine(leaves, counts.get("spines", 0), on_leaf)
    )
    return paths, {"topology": name, **{key.replace("-", "_"): n for key, n in counts.items()}}


def _with_faults(
    paths: ClosPaths, faults: Iterable[str]
) -> tuple[ClosPaths, list[tuple[str, float]]]:
    """Return the network without the links that fail, and the slow ones with their part of the
    rate."""
    failed: list[str] = []
    slow: list[tuple[str, float]] = []
    for text in faults:
        link, _, what = text.partition(":")
        action, _, rest = what.partition(",")
        if action in ("", "fail") and not rest:
            failed.append(link.strip())
        elif action == "slow" and rest.startswith("rate="):
            part = parse_number(rest.removeprefix("rate="))
            if part is None or not 0 < part <= 1:
                raise InputError(f"fault {text!r}: a rate is a part of the link's, like rate=0.25")
            paths.place_of(link.strip())
            slow.append((link.strip(), part))
        else:
            raise InputError(
                f"fault {text!r} is not understood: write LINK, LINK:fail or LINK:slow,rate=0.25, "
                "like leaf0-spine1; without packets there is no time, so nothing fails during it"
            )
    return paths.without(failed), slow


def _oversubscription(value: Any) -> float:
    factor = parse_number(value) if value is not None else 0.0
    if factor is None or (value is not None and factor <= 0):
        raise InputError(f"oversubscription {shown(value)} is not a number above 0, like 4")
    return factor


def _rates(
    paths: ClosPaths, rate_bps: int, oversubscription: float, slow: Iterable[tuple[str, float]]
) -> Any:
    fabric_bps = float(rate_bps)
    if oversubscription and paths.uplinks:
        fabric_bps = rate_bps * paths.hosts_per_leaf / (paths.uplinks * oversubscription)
    rates = LinkLoads.zeros(paths, np.float64)
    rates.host_up[:] = rates.host_down[:] = rate_bps
    rates.leaf_up[:] = rates.leaf_down[:] = rates.core_up[:] = rates.core_down[:] = fabric_bps
    for name, factor in slow:
        place_of = paths.place_of(name)
        both = (
            (rates.leaf_up, rates.leaf_down)
            if len(place_of) == 2
            else (rates.core_up, rates.core_down)
        )
        for part in both:
            part[place_of] *= factor
    return rates.by_direction()


def paths_table(analysis: Analysis) -> Table:
    """Return a table with one row a scheme."""
    asked = analysis.asked
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0),
        title=title_of(asked), title_style="bold", title_justify="left",
        caption=_caption(asked), caption_justify="left", caption_style="dim",
    )  # fmt: skip
    texts = ("paths", "fullest")
    for heading in (
        "paths", "pieces", "fullest\nlink", "mean\nlink", "max/\nmean", "fullest", "least\ntime",
        "over\nspraying",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading in texts else "right", no_wrap=True)
    rows = [figures(analysis.situation, result) for result in analysis.results]
    ideal = next((row["bound_ns"] for row in rows if row["paths"] in ("spray", "ethereal")), None)
    for row in rows:
        ratio, bound = row["max_over_mean"], row["bound_ns"]
        table.add_row(
            Text(row["paths"], style="bold"),
            "-" if row["paths"].startswith("spray") else f"{row['pieces']:,}",
            format_size(row["fabric_max_bytes"]),
            format_size(round(row["fabric_mean_bytes"])),
            "-" if ratio is None else f"{ratio:.3f}",
            row["fullest"] or "-",
            short_duration(bound),
            "-" if not ideal else f"{bound / ideal:.3f}",
        )
    return table


def title_of(asked: Mapping[str, Any]) -> str:
    """Return what was analysed, in a line."""
    known = ("leaves", "spines", "hosts_per_leaf", "k", "tiers")
    counts = [f"{asked[name]} {name.replace('_', ' ')}" for name in known if name in asked]
    words = [
        f"{Path(asked['workload']).name} by {asked['algorithm']}",
        format_size(asked["size_bytes"]),
        f"{asked['ranks']} ranks {asked['placement']}",
        f"{asked['topology']} ({', '.join(counts)})",
        f"{format_rate(asked['rate_bps'])} links",
    ]
    more = {
        f"{asked['oversubscription']:g}:1 oversubscribed": asked["oversubscription"],
        f"faults {' '.join(asked['faults'])}": asked["faults"],
    }
    return ", ".join([*words, *(text for text, is_so in more.items() if is_so)])


def _caption(asked: Mapping[str, Any]) -> str:
    text = (
        "links between switches that are up, each direction by itself; bytes of payload of "
        f"{asked['flows']:,} flows in {asked['steps']} step{'s' * (asked['steps'] != 1)}\n"
        "least time: steps one after the other, each as long as its fullest link, hosts' too"
    )
    if asked["workload"] not in workloads():
        text += "; start times and computation count nothing"
    if not asked["told_apart"]:
        text += "\nflows are counted by pairs of leaves; of ecmp each is drawn, not hashed"
    return text


def write_plot(analysis: Analysis, file: Path) -> None:
    """Draw the loads into an SVG file. Raises `InputError` where it cannot be written."""
    from weft.experiments.plots.link_loads import loads_svg

    refuse(
        file.suffix != ".svg",
        f"plot {str(file)!r}: its name ends in .svg",
    )
    drawn = loads_svg(analysis.situation.paths, analysis.results, title_of(analysis.asked))
    with files.told_as_input(f"cannot write the plot to {str(file)!r}"):
        files.write_whole(file, drawn)
