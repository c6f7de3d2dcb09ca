"""``weft paths``: what every link carries under each path scheme, said at once, without packets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from weft.agents.collectives.names import MAX_SIZE_BYTES
from weft.base import files
from weft.base.errors import InputError, refuse
from weft.base.option import WHOLE, whole
from weft.base.units import format_rate, format_size, shown
from weft.controller.clos_paths import ClosPaths
from weft.experiments.loads.link_loads import LinkLoads, direction_name
from weft.experiments.paths.names import COMPARED
from weft.experiments.paths.registry import scheme_of
from weft.experiments.results.summary import short_duration
from weft.experiments.scenario.asked import OPTIONS, Asked
from weft.experiments.scenario.checks import with_shape
from weft.experiments.scenario.choices import COUNTS, TOPOLOGIES, choose
from weft.experiments.scenario.families import families
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.htsim_topology import with_htsim_topology
from weft.experiments.scenario.placement import place
from weft.experiments.scenario.shape import network_of
from weft.experiments.theory.static_paths import (
    SchemeLoads,
    Situation,
    analyse,
    check_schemes,
    figures,
)
from weft.experiments.theory.static_workloads import graph_steps, most_sent, static_steps, workloads
from weft.topo.faults import (
    FAULTS,
    Fault,
    Outage,
    lasting_lines,
    slow_rates_bps,
    split_line,
)

OWN = ("algorithm", "paths", "fault", "unit")
"""Options that mean something else here than in a run."""
MOST_LINKS = 1 << 14
"""Directions of links that JSON names one by one."""
MOST_HOSTS = 1 << 17
COUNTED = ("leaves", "spines", "hosts_per_leaf", "pods", "uplinks", "k")
"""Fields of which there may be as many as `MOST_HOSTS`, more than in a run."""


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
    schemes = check_schemes(given.get("paths", COMPARED))
    wanted = _asked(workload, given)
    faults: Sequence[str] = given.get("fault", ())
    paths, slow = _with_faults(_paths_of(wanted), wanted, faults)
    team = place(
        paths.leaves, paths.hosts_per_leaf, jobs=1, order=wanted.rank_placement, seed=wanted.seed
    ).jobs[0]
    known = workloads()
    notes: Sequence[str] = ()
    if workload in known:
        algorithm = str(given.get("algorithm", known[workload][0]))
        size_bytes = wanted.size_bytes
        whole("root", wanted.root, 0, len(team) - 1)
        steps = static_steps(
            workload, algorithm, len(team), size_bytes, root=wanted.root, seed=wanted.seed
        )
    else:
        family = family_of(wanted.collective)
        named = (given["algorithm"],) if "algorithm" in given else ()
        algorithm = str(family.with_algorithms(replace(wanted, algorithms=named))[0])
        flows = family.resolve(replace(wanted, algorithms=(algorithm,)), len(team))
        steps = graph_steps(family.graph(flows, algorithm, len(team)))
        notes = family.notes(flows, algorithm, len(team))
        size_bytes = most_sent(steps, len(team))
    unit_bytes = int(WHOLE.read("unit", given.get("unit", 1)))
    whole("unit", unit_bytes, 1, MAX_SIZE_BYTES)
    rates = _rates(paths, wanted, slow)
    situation = Situation(paths, np.array(team, np.int64), rates, wanted.seed, unit_bytes)
    asked = {
        "workload": workload, "algorithm": algorithm, "size_bytes": size_bytes,
        "ranks": len(team), "flows": sum(s.number_of_flows(len(team)) * s.times for s in steps),
        "steps": sum(step.times for step in steps), "topology": wanted.topology,
        **_counts(wanted), "placement": wanted.rank_placement,
        "faults": list(faults), "rate_bps": wanted.rate_bps,
        "oversubscription": wanted.oversubscription or 0.0,
        "core_oversubscription": wanted.core_oversubscription or 0.0, "seed": wanted.seed,
        "told_apart": all(step.flows is not None for step in steps), "notes": list(notes),
    }  # fmt: skip
    return Analysis(asked, situation, [analyse(situation, steps, name) for name in schemes])


def _asked(workload: str, given: Mapping[str, Any]) -> Asked:
    """Return what is asked in the words of a run, each option checked by its row of the table,
    with the network's defaults filled in. Raises InputError for what makes no sense.

    The counts of `COUNTED` alone have limits of their own, since no switch is brought up.
    """
    of_flows = workload not in workloads()
    collective, own = _flows_of(workload) if of_flows else (workload, {})
    words = f"workload {shown(workload)}" if of_flows else workload
    if of_flows and "size" in given:
        raise InputError(
            f"size {shown(given.get('size'))} means nothing for {words}, which has flows of its "
            "own; leave it out"
        )
    rows = {name: OPTIONS[name.replace("_", "-")] for name in given if name not in OWN}
    values = {row.field: row.kind.read(row.name, given[name]) for name, row in rows.items()}
    whole: dict[str, Any] = {**values, **own}
    asked = Asked(collective, **whole)
    for name, row in rows.items():
        if values[row.field] != row.default and not asked.uses(row):
            raise InputError(
                f"{row.name} {shown(given[name])} means nothing for {words}: {row.who}; leave it "
                "out"
            )
        if row.choices and not (row.besides and row.besides(str(values[row.field]))):
            choose(row.name, values[row.field], row.choices)
    asked = with_htsim_topology(asked)
    if asked.is_own_network:
        raise InputError(
            f"topology {asked.topology!r}: loads without packets are those of a Clos; choose "
            f"{', '.join(TOPOLOGIES)}, or run it in the simulated world (weft run --world "
            "simulated)"
        )
    asked = with_shape(asked)
    for row in rows.values():
        if row.field not in COUNTED:
            row.check_range(asked)
            continue
        number = getattr(asked, row.field)
        if not 1 <= number <= MOST_HOSTS:
            raise InputError(f"{row.name} {number}: from 1 to {MOST_HOSTS} is possible")
    return asked


def _flows_of(workload: str) -> tuple[str, Mapping[str, Any]]:
    """Return the collective and the options that ask for a workload of flows. Raises InputError for
    one that there is not."""
    found = {
        collective: own
        for each in families()
        for collective in each.algorithms()
        if (own := each.asked_for(workload)) is not None
    }
    if not found:
        others = (name for each in families() for name in each.workloads())
        choose("workload", workload, (*workloads(), *others))
    return next(iter(found.items()))


def _counts(asked: Asked) -> dict[str, int]:
    """Return how large the network is that is asked for, by the fields that its topology has."""
    return {name: getattr(asked, name) for name in TOPOLOGIES[asked.topology]}


def _paths_of(asked: Asked) -> ClosPaths:
    """Return the network without faults. Raises InputError where it has too many hosts."""
    counts = _counts(asked)
    pods = counts.get("pods", 1)
    leaves, on_leaf = pods * counts.get("leaves", 1), counts.get("hosts_per_leaf", 1)
    hosts = counts["k"] ** counts["tiers"] // 2 if "k" in counts else leaves * on_leaf
    refuse(
        hosts > MOST_HOSTS,
        f"a network of {hosts} hosts or so: at most {MOST_HOSTS} are possible",
    )
    if "k" in counts:
        return ClosPaths.fat_tree(counts["k"], counts["tiers"])
    if "pods" in counts:
        return ClosPaths(leaves, on_leaf, counts["spines"], pods, counts["uplinks"])
    return ClosPaths.leaf_spine(leaves, counts.get("spines", 0), on_leaf)


def _with_faults(
    paths: ClosPaths, asked: Asked, lines: Iterable[str]
) -> tuple[ClosPaths, dict[int, float]]:
    """Return the network without the links that fail, and of slow links, by the numbers of their
    directions, the part of their rate that they carry.

    A link that is down is named alone. What other faults do is said by their kinds, of the network
    that a run would have; these last from the start on.
    """
    failed: list[str] = []
    outages: list[Outage] = []
    for line in lines:
        link, action = split_line(line)
        if not action.strip() or getattr(FAULTS.get(action.strip()), "is_plain", False):
            failed.append(link.strip())
        else:
            outages.append(_lasting(line))
    if not outages:
        return paths.without(failed), {}
    network = network_of(asked)
    for outage in outages:
        outage.check(network)
        if outage.kind.killed(outage, network) is not None:
            raise _not_lasting(outage.text)
        failed += [each.link.name for each in outage.kind.down(outage, network)]
    slow = slow_rates_bps(outages, network)
    parts = {
        number: slow[each.ends] / each.link.rate_bps
        for number, each in enumerate(network.directions)
        if each.ends in slow
    }
    return paths.without(failed), parts


def _lasting(line: str) -> Outage:
    """Return the outage that a line asks for. Raises InputError unless it is one that lasts from
    the start on."""
    fault = Fault.parse(line)
    if isinstance(fault, Outage) and (fault.at_ns, fault.for_ns) == (0, None):
        return fault
    raise _not_lasting(line)


def _not_lasting(line: str) -> InputError:
    return InputError(
        f"fault {line!r} is not understood: write LINK for one that is "
        f"{', or '.join(lasting_lines())}; without packets there is no time, so nothing fails "
        "during it"
    )


def _rates(paths: ClosPaths, asked: Asked, slow: Mapping[int, float]) -> Any:
    """Return the rates of all directions of links, bit/s, float64 by their numbers."""
    fabric_bps = float(asked.rate_bps)
    if asked.oversubscription and paths.uplinks:
        fabric_bps = fabric_bps * paths.hosts_per_leaf / (paths.uplinks * asked.oversubscription)
    rates = LinkLoads.zeros(paths, np.float64)
    rates.host_up[:] = rates.host_down[:] = asked.rate_bps
    rates.leaf_up[:] = rates.leaf_down[:] = fabric_bps
    if asked.core_oversubscription and paths.cores:
        leaves = paths.leaves // paths.pods
        fabric_bps = fabric_bps * leaves / (paths.cores * asked.core_oversubscription)
    rates.core_up[:] = rates.core_down[:] = fabric_bps
    by_direction = rates.by_direction()
    by_direction[list(slow)] *= np.array(list(slow.values()))
    return by_direction


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
    ideal = next((row["bound_ns"] for row in rows if scheme_of(row["paths"]).ideal), None)
    for row in rows:
        ratio, bound = row["max_over_mean"], row["bound_ns"]
        table.add_row(
            Text(row["paths"], style="bold"),
            "-" if scheme_of(row["paths"]).reorders else f"{row['pieces']:,}",
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
    counts = [f"{asked[name]} {name.replace('_', ' ')}" for name in COUNTS if name in asked]
    words = [
        f"{Path(asked['workload']).name} by {asked['algorithm']}",
        format_size(asked["size_bytes"]),
        f"{asked['ranks']} ranks {asked['placement']}",
        f"{asked['topology']} ({', '.join(counts)})",
        f"{format_rate(asked['rate_bps'])} links",
    ]
    more = {
        f"{asked['oversubscription']:g}:1 oversubscribed": asked["oversubscription"],
        f"{asked['core_oversubscription']:g}:1 to cores": asked["core_oversubscription"],
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

    if file.suffix != ".svg":
        raise InputError(f"plot {str(file)!r}: its name ends in .svg")
    drawn = loads_svg(analysis.situation.paths, analysis.results, title_of(analysis.asked))
    with files.told_as_input(f"cannot write the plot to {str(file)!r}"):
        files.write_whole(file, drawn)
