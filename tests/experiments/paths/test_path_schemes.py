"""What scenarios say of paths, congestion, placement and oversubscription."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.experiments.paths.names import scheme_names
from weft.experiments.paths.registry import scheme_of
from weft.experiments.runs.shared import network_key
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.placement import place
from weft.experiments.scenario.scenario import Scenario

SCHEMES = [name.replace("N", "4") for name in scheme_names()]


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_is_one_that_the_controller_and_the_transport_know(name: str) -> None:
    scenario = from_options({"paths": name, "collective": "allreduce"})
    scheme = scheme_of(name)
    assert scenario.paths == name
    assert scenario.recovery == ("selective" if scheme.reorders else "go-back-n")
    plain = name in ("ecmp", "destination")
    assert scenario.congestion == ("window" if plain else "dctcp")
    assert scenario.ecn_threshold_packets is not None
    assert (scenario.ecn_threshold_packets > 0) == (not plain)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"paths": "ethreal"}, ["paths 'ethreal'", "did you mean ethereal", "ecmp-N"]),
        ({"paths": "ecmp-1"}, ["ecmp-1", "ecmp-2 to ecmp-32"]),
        ({"paths": "ecmp-33"}, ["ecmp-33", "ecmp-2 to ecmp-32"]),
        ({"paths": "ecmp-99999"}, ["99999 pieces", "ecmp-2 to ecmp-32"]),
        ({"paths": f"ecmp-{'9' * 5000}"}, ["is unknown", "N pieces a flow, 2 to 32"]),
        ({"paths": "ecmp-x"}, ["'ecmp-x' is unknown"]),
        ({"congestion": "cubic"}, ["congestion 'cubic'", "dctcp"]),
        ({"recovery": "sack"}, ["recovery 'sack'", "selective"]),
        ({"paths": "reps", "congestion": "window"}, ["reps", "marks", "dctcp"]),
        ({"paths": "plb", "switch": "bmv2"}, ["bmv2", "marks nothing", "--switch weft"]),
        ({"congestion": "dctcp", "switch": "bmv2"}, ["bmv2", "marks nothing"]),
        ({"ecn-threshold": "4", "switch": "bmv2"}, ["ecn-threshold 4", "marks nothing"]),
        ({"congestion": "dctcp", "ecn-threshold": 0}, ["ecn-threshold 0", "from 1"]),
        ({"reorder": 0}, ["reorder 0", "from 1"]),
        ({"reorder": 8}, ["reorder 8 means nothing for recovery go-back-n", "selective"]),
        ({"reorder": 8, "paths": "spray", "recovery": "go-back-n"}, ["reorder 8 means nothing"]),
        ({"ecn-threshold": 8}, ["ecn-threshold 8 means nothing for congestion window", "dctcp"]),
        ({"paths": "spray", "whole-below": "1KiB"}, ["whole-below", "for ethereal and ethereal-p"]),
        ({"paths": "ethereal", "whole-below": 1 << 50}, ["whole-below", "out of range"]),
        ({"placement": "anywhere"}, ["placement 'anywhere'", "strided"]),
        ({"oversubscription": 0}, ["oversubscription 0", "from 0.125 to 64"]),
        ({"oversubscription": "nan"}, ["oversubscription"]),
        ({"oversubscription": 2, "topology": "single"}, ["oversubscription", "no uplinks"]),
        ({"oversubscription": 64, "rate": "1Mbit"}, ["oversubscription 64", "100 kbit/s"]),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        from_options(options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0])
@pytest.mark.parametrize(
    "shape",
    [
        {"leaves": 4, "hosts-per-leaf": 4, "spines": 2},
        {"topology": "fat-tree", "k": 4, "tiers": 3},
        {"topology": "fat-tree", "k": 8, "tiers": 2},
    ],
)
def test_oversubscription_is_what_hosts_can_send_over_what_uplinks_carry(
    shape: dict[str, object], ratio: float
) -> None:
    network = from_options({**shape, "oversubscription": ratio, "rate": "80Mbit"}).network()
    for leaf in network.switches_of("leaf"):
        rates = {"host": 0, "fabric": 0}
        for direction in network.outward(leaf.name):
            rates[direction.tier.split("_")[0]] += direction.link.rate_bps
        assert rates["host"] == ratio * rates["fabric"]


def test_by_default_all_links_have_one_rate() -> None:
    network = Scenario().network()
    assert len({link.rate_bps for link in network.links}) == 1


@given(
    leaves=st.integers(1, 8),
    hosts=st.integers(1, 8),
    jobs=st.sampled_from([1, 2]),
    order=st.sampled_from(["in-order", "strided", "random"]),
    seed=st.integers(0, 100),
)
def test_every_host_has_one_rank_wherever_they_are_placed(
    leaves: int, hosts: int, jobs: int, order: str, seed: int
) -> None:
    if leaves * hosts % jobs:
        jobs = 1
    placed = place(leaves, hosts, jobs=jobs, order=order, seed=seed).jobs
    assert sorted(chain(*placed)) == list(range(leaves * hosts))
    if order == "in-order" and jobs == 1:
        assert placed == (tuple(range(leaves * hosts)),)
    if order == "strided" and jobs == 1:
        (ranks,) = placed
        for start in range(0, len(ranks), leaves):
            assert [host // hosts for host in ranks[start : start + leaves]] == list(range(leaves))


def test_random_placement_repeats_with_the_seed() -> None:
    one, same, other = (place(4, 4, jobs=1, order="random", seed=seed) for seed in (1, 1, 2))
    assert one == same != other


def test_an_emulated_network_is_shared_by_schemes_and_not_by_other_rates_of_its_fabric() -> None:
    first = network_key(Scenario("alltoall", paths="ethereal"))
    assert network_key(Scenario("alltoall", paths="reps", rank_placement="random")) == first
    assert network_key(Scenario("alltoall", paths="ethereal", oversubscription=4.0)) != first
