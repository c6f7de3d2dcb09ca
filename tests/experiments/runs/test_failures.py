"""Links that fail or are slow, and when the controller knows it: notices, plans, both worlds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.changed_links import with_link
from tests.support.fabric import program_names
from tests.support.fault_lines import parse_faults
from tests.support.simulated_support import completion_ns, network

from weft.base.errors import InputError
from weft.experiments.results.results import LinkResult, Run
from weft.experiments.runs.inputs import plan_around, plan_at_start, plan_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import compile_cached
from weft.topo.clos import leaf_spine
from weft.topo.fabric_program import fabric_program
from weft.topo.faults import Fault, Outage
from weft.topo.faults.schedule import Notices, known_from_start, links_of
from weft.topo.worlds.emulated.outages import OutageNetwork as Carried
from weft.topo.worlds.emulated.outages import Outages

LINK = "leaf0-spine1"
LINKS = ("leaf0-spine0", LINK, "leaf1-spine0", "leaf1-spine1")
MS = 1_000_000

SMALL: dict[str, Any] = {
    "world": "simulated", "leaves": 2, "spines": 2, "hosts_per_leaf": 2, "algorithms": ("linear",),
    "size_bytes": 1 << 18,
}  # fmt: skip


def outages(*lines: str) -> list[Outage]:
    found = [Fault.parse(line) for line in lines]
    assert all(isinstance(fault, Outage) for fault in found)
    return [fault for fault in found if isinstance(fault, Outage)]


def faulty(*lines: str, **more: Any) -> Scenario:
    return Scenario(**{**SMALL, **more}, faults=tuple(map(Fault.parse, lines)))


def simulated(scenario: Scenario) -> Run:
    return simulate(scenario, compile_cached(fabric_program()), "linear", 0, lambda _: None)


def direction(run: Run, name: str) -> LinkResult:
    (found,) = (each for each in run.links if f"{each.from_node}>{each.to_node}" == name)
    return found


def carried(run: Run, begin_ns: int, end_ns: int, *names: str) -> int:
    """Bytes that directions of links carried in the whole bins of a time."""
    first, last = -(-begin_ns // run.load_bin_ns), end_ns // run.load_bin_ns
    return sum(sum(direction(run, name).load_bytes[first:last]) for name in names)


# -- what is known when


@given(
    st.lists(st.tuples(st.sampled_from(LINKS), st.integers(0, 40), st.integers(1, 30)), max_size=8),
    st.integers(0, 12),
)
def test_what_has_lasted_long_enough_is_known(
    found: list[tuple[str, int, int]], after_ns: int
) -> None:
    topology = leaf_spine(2, 2, 2)
    notices = Notices(topology, after_ns)
    changes = [(at, True, Outage("fail", link, at)) for link, at, _ in found]
    changes += [(at + long, False, Outage("fail", link, at)) for link, at, long in found]
    down_at = {
        link: [any(at <= t < at + long for name, at, long in found if name == link)
               for t in range(-20, 100)]
        for link in LINKS
    }  # fmt: skip
    known = dict.fromkeys(LINKS, False)
    for now in range(80):
        for at, begins, outage in changes:
            if at == now:
                notices.changed(outage, begins, now)
        due = notices.next_ns
        before = notices.known
        news = notices.take(now)
        assert news == (notices.known != before) and (not news or due == now)
        for link in LINKS:
            state = down_at[link][now + 20]
            lasted = down_at[link][now + 20 - after_ns : now + 21]
            if all(each == state for each in lasted):
                known[link] = state
        assert notices.known == tuple(sorted(link for link in LINKS if known[link]))


def test_links_between_switches_are_noticed_and_nothing_else() -> None:
    topology = leaf_spine(2, 2, 2)
    for line, links in (
        ("leaf0>spine1:fail,at=1ms", [LINK]),
        ("spine1:fail,at=1ms", [LINK, "leaf1-spine1"]),
        ("leaf0:fail,at=1ms", ["leaf0-spine0", LINK]),
        ("h0-leaf0:fail,at=1ms", []),
        (f"{LINK}:fail,at=0", [LINK]),
    ):
        assert list(links_of(outages(line)[0], topology)) == links
    for line in (f"{LINK}:slow,rate=0.1", "h0:kill,at=0ms"):
        notices = Notices(topology, 0)
        notices.changed(outages(line)[0], True, 0)
        assert notices.next_ns is None


def test_what_is_down_from_the_start_is_known_then_only_if_at_once() -> None:
    topology = leaf_spine(2, 2, 2)
    faults = outages(f"{LINK}:fail,at=0ms", "leaf1-spine0:fail,at=1ms")
    assert known_from_start(faults, topology, 0) == (LINK,)
    assert known_from_start(faults, topology, 1) == ()
    assert known_from_start(faults, topology, None) == ()


# -- in virtual time


def test_a_failed_link_carries_nothing_once_known() -> None:
    clean = simulated(Scenario(**SMALL))
    assert clean.verified and clean.completion_ns
    names = ("leaf0>spine1", "spine1>leaf0")
    assert all(direction(clean, name).tx_bytes > 100_000 for name in names)
    for notice, after_ms in (("at-once", 0), ("late", 30)):
        more: dict[str, Any] = {"notice": notice, "timeout_s": 5.0}
        if notice == "late":
            more["notice_after_ns"] = 30 * MS
        run = simulated(faulty(f"{LINK}:fail,at=30ms", **more))
        assert run.verified and run.completion_ns
        known_ns = (30 + after_ms) * MS
        assert carried(run, 0, 30 * MS, *names) > 0
        assert carried(run, known_ns + MS, run.completion_ns, *names) == 0
        assert carried(run, known_ns + MS, run.completion_ns, "leaf0>spine0") > 0
        assert run.completion_ns > clean.completion_ns
        lost = sum(direction(run, name).lost for name in names)
        assert lost > 0


def test_a_link_that_nobody_knows_of_ends_those_that_use_it() -> None:
    run = simulated(faulty(f"{LINK}:fail,at=20ms"))
    assert not run.verified and "lost" in str(run.error)


@pytest.mark.parametrize("collective", ["alltoall", "allreduce"])
@pytest.mark.parametrize("seed", [1, 2])
def test_pinned_lanes_find_another_way_where_nobody_knows(collective: str, seed: int) -> None:
    algorithm = {"alltoall": "direct", "allreduce": "halving-doubling"}[collective]
    scenario = faulty(
        f"{LINK}:fail,at=10ms", notice="never", collective=collective, algorithms=(algorithm,),
        paths="ethereal", size_bytes=1 << 19, seed=seed,
    )  # fmt: skip
    run = simulate(scenario, compile_cached(fabric_program()), algorithm, 0, lambda _: None)
    assert run.completion_ns is not None
    assert sum(rank.statistics["path_changes"] for rank in run.ranks) > 0
    assert sum(rank.statistics["flow_count"] for rank in run.ranks) > 2 * len(run.ranks)


# -- one-way flows, over a link that nobody knows to be dead


def one_way(folder: Path, line: str, paths: str = "ethereal", seed: int = 1) -> Run:
    """A permutation in which every host sends to the next leaf and nobody answers with data."""
    leaves, hosts = 3, 6
    rows = [f"{host}->{(host + 2) % hosts} id {host} start 0 size 200000" for host in range(hosts)]
    file = folder / "one-way.cm"
    file.write_text("\n".join([f"Nodes {hosts}", f"Connections {hosts}", *rows, ""]))
    scenario = Scenario(
        "flows", world="simulated", workload=str(file), leaves=leaves, spines=3, hosts_per_leaf=2,
        paths=paths, faults=(Fault.parse(line),), seed=seed,
    )  # fmt: skip
    return simulate(
        scenario, compile_cached(fabric_program()), scenario.algorithms[0], 0, lambda _: None
    )


@pytest.mark.parametrize("ends", ["{0}-{1}", "{0}>{1}", "{1}>{0}"])
@pytest.mark.parametrize("paths", ["ethereal", "ethereal-ports"])
def test_one_way_flows_get_around_every_dead_link_and_direction(
    paths: str, ends: str, tmp_path: Path
) -> None:
    """What answers them goes another way, too: acknowledgements, and the tokens of barriers."""
    for leaf, spine in itertools.product(range(3), range(3)):
        dead = ends.format(f"leaf{leaf}", f"spine{spine}")
        run = one_way(tmp_path, f"{dead}:fail,at=0ms", paths)
        assert run.verified, (dead, run.error)


def test_flows_that_nobody_leads_do_not_leave_their_ports(tmp_path: Path) -> None:
    """ECMP in pieces is what it is said to be, in the direction without data as well."""
    for seed in (1, 2):
        run = one_way(tmp_path, "leaf0-spine1:fail,at=0ms", "ecmp-3", seed)
        assert sum(rank.statistics.get("path_changes", 0) for rank in run.ranks) == 0


def test_a_link_that_is_back_is_used_again() -> None:
    run = simulated(faulty(f"{LINK}:fail,at=10ms,for=20ms", notice="at-once"))
    assert run.verified and run.completion_ns
    assert carried(run, 11 * MS, 30 * MS, "leaf0>spine1") == 0
    assert carried(run, 31 * MS, run.completion_ns, "leaf0>spine1") > 0


def test_what_is_known_from_the_start_is_planned_for() -> None:
    scenario = faulty(f"{LINK}:fail,at=0ms", notice="at-once")
    topology = scenario.network()
    assert plan_at_start(program_names(), scenario, topology) == plan_of(
        program_names(), scenario, topology, without=[LINK]
    )
    run = simulated(scenario)
    assert run.verified
    assert direction(run, "leaf0>spine1").tx_packets == 0
    assert direction(run, "spine1>leaf0").tx_packets == 0
    assert run.digest == simulated(scenario).digest
    never = replace(scenario, notice="never")
    assert plan_at_start(program_names(), never, topology) == plan_of(
        program_names(), never, topology
    )


def test_where_no_plan_leads_around_the_one_there_is_stays() -> None:
    scenario = Scenario(**{**SMALL, "algorithms": ("multicast",)})
    topology = scenario.network()
    both = ["leaf0-spine0", LINK]
    assert plan_around(program_names(), scenario, topology, both) == plan_of(
        program_names(), scenario, topology
    )


def test_a_slow_link_is_as_one_that_was_built_so() -> None:
    rate_bps = 25_000_000
    built = with_link(leaf_spine(2, 2, 2), LINK, rate_bps=rate_bps)
    with network(built) as slow:
        expected_ns = completion_ns(slow.run("linear", 1 << 17))
        expected = slow.world.digest
    with network(leaf_spine(2, 2, 2)) as whole:
        results = whole.run("linear", 1 << 17, [f"{LINK}:slow,rate=0.25"])
        assert completion_ns(results) == expected_ns
        assert whole.world.digest == expected
        clean_ns = completion_ns(whole.run("linear", 1 << 17))
    assert clean_ns < expected_ns


def test_a_link_is_slow_as_long_as_it_is_said_and_at_the_least_of_several_rates() -> None:
    run = simulated(
        faulty(f"{LINK}:slow,rate=50%,at=10ms,for=40ms", "spine1:slow,rate=0.1,at=20ms,for=10ms")
    )
    assert run.verified and run.completion_ns
    name = "spine1>leaf0"
    full = 100_000_000 // 8 // 1000  # bytes a ms
    slack = 2 * 4200  # frames that began before, or end after
    for begin, end, part in ((10, 20, 0.5), (20, 30, 0.1), (30, 50, 0.5)):
        assert carried(run, begin * MS, end * MS, name) <= (end - begin) * full * part + slack
    assert max(direction(run, name).load_bytes[-(-50 * MS // run.load_bin_ns) :]) > 0.8 * (
        full * run.load_bin_ns / MS
    )


# -- in the emulated world, as told


class Told:
    """What the network was told, in order."""

    def __init__(self) -> None:
        self.plans: list[tuple[list[str], list[str]]] = []
        self.rates: list[dict[tuple[str, str], int]] = []

    def plan(self, lost: Sequence[str], without: Sequence[str]) -> None:
        self.plans.append((list(lost), list(without)))

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        self.rates.append(dict(rates_bps))


def told_by(lines: Sequence[str], after_ns: int | None, times: Sequence[int]) -> Told:
    topology = leaf_spine(2, 2, 2)
    told = Told()
    carried_out = Outages(
        parse_faults(lines, topology), Carried(topology, told.plan, told.set_rates, {}), after_ns
    )
    for time_ns in times:
        carried_out.go_on_to(time_ns)
    carried_out.end()
    return told


def test_an_outage_is_lost_packets_first_and_another_plan_once_it_is_known() -> None:
    both = ["leaf0>spine1", "spine1>leaf0"]
    lines = [f"{LINK}:fail,at=5ms,for=20ms"]
    times = [each * MS for each in (5, 8, 15, 25, 35)]
    assert told_by(lines, None, times).plans == [(both, []), ([], [])]
    assert told_by(lines, 0, times).plans == [(both, [LINK]), ([], [])]
    late = [(both, []), (both, [LINK]), ([], [LINK]), ([], [])]
    assert told_by(lines, 10 * MS, times).plans == late
    assert told_by(lines, 30 * MS, times).plans == [(both, []), ([], [])]


def test_at_the_end_everything_is_as_it_was() -> None:
    both = ["leaf0>spine1", "spine1>leaf0"]
    lines = [f"{LINK}:fail,at=0ms", "leaf1-spine0:slow,rate=0.25"]
    told = told_by(lines, 0, [0])
    assert told.plans == [(both, [LINK]), ([], [])]
    ends = ("leaf1", "spine0")
    slow = {ends: 25_000_000, ends[::-1]: 25_000_000}
    assert told.rates == [slow, dict.fromkeys(slow, 100_000_000)]


# -- scenarios


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"notice": "soon"}, "notice 'soon' is unknown"),
        ({"notice_after_ns": 5}, "means nothing for notice never"),
        ({"notice": "late"}, "notice late means nothing where no link between switches fails"),
        (
            {"notice": "at-once", "faults": (Fault.parse("h0-leaf0:fail,at=1ms"),)},
            "notice at-once means nothing where no link between switches fails",
        ),
        ({"notice": "late", "notice_after_ns": 0}, "notice-after 0 is out of range"),
        (
            {"faults": (Fault.parse(f"{LINK}:slow,rate=0.5"),), "switch": "bmv2"},
            "no links that become slow with --switch bmv2",
        ),
        ({"faults": (Fault.parse("h0-leaf0:slow,rate=0.5"),)}, "slow is for links between switch"),
        ({"faults": (Fault.parse("*:slow,rate=0.5"),)}, "is a host's link"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("--", "[-][-]")):
        Scenario(**options)


def test_a_late_notice_is_100_ms_late_unless_it_is_said() -> None:
    faults = (Fault.parse(f"{LINK}:fail,at=1ms"),)
    assert Scenario(notice="late", faults=faults).notice_delay_ns == 100 * MS
    assert Scenario(notice="at-once", faults=faults).notice_delay_ns == 0
    assert Scenario().notice_delay_ns is None
