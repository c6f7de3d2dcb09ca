"""REPS in a fabric: what its authors claim against spraying, and the evenness of its ports."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from weft.agents.transport import TransportOptions
from weft.controller.clos_paths import ClosPaths
from weft.controller.selector_hash import Salts, ecmp_paths
from weft.experiments.runs.inputs import transport_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import compile_cached
from weft.topo.fabric_program import fabric_program
from weft.topo.faults import Fault

SEEDS = range(1, 6)


def permutation(folder: Path, hosts: int, seed: int) -> str:
    """A workload in which every host sends 2 MiB to another, and gets as much."""
    choose = random.Random(seed)
    order = list(range(hosts))
    while any(host == other for host, other in enumerate(order)):
        choose.shuffle(order)
    rows = [f"{host}->{order[host]} id {host} start 0 size {1 << 21}" for host in range(hosts)]
    file = folder / f"permutation-{seed}.cm"
    file.write_text("\n".join([f"Nodes {hosts}", f"Connections {hosts}", *rows, ""]))
    return str(file)


def times_ms(folder: Path, paths: str, **more: Any) -> list[float]:
    found = []
    for seed in SEEDS:
        scenario = Scenario(
            "flows", world="simulated", workload=permutation(folder, 16, seed), leaves=4,
            spines=4, hosts_per_leaf=4, paths=paths, seed=seed, **more,
        )  # fmt: skip
        run = simulate(
            scenario, compile_cached(fabric_program()), scenario.algorithms[0], 0, lambda _: None
        )
        assert run.verified and run.completion_ns, run.error
        found.append(run.completion_ns / 1e6)
    return found


@pytest.mark.slow
def test_on_a_permutation_it_is_no_slower_than_spraying(tmp_path: Path) -> None:
    assert mean(times_ms(tmp_path, "reps")) < mean(times_ms(tmp_path, "spray"))


@pytest.mark.slow
def test_it_loses_least_where_a_link_is_at_a_quarter_of_its_rate(tmp_path: Path) -> None:
    slow = {"faults": (Fault.parse("leaf0-spine1:slow,rate=0.25"),)}
    reps = mean(times_ms(tmp_path, "reps", **slow))
    for other in ("spray", "spray-round-robin", "ethereal", "ecmp"):
        assert reps < 0.9 * mean(times_ms(tmp_path, other, **slow)), other


@pytest.mark.parametrize("paths", [ClosPaths.leaf_spine(4, 4, 4), ClosPaths.fat_tree(8)])
def test_all_its_ports_lead_to_all_paths_alike(paths: ClosPaths) -> None:
    options = transport_of(Scenario("alltoall", paths="reps"))
    assert options.entropies == TransportOptions().entropies == 1 << 14
    ports = np.arange(0xC000, 0x10000, dtype=np.int64)
    ends = np.zeros(len(ports), np.int64), np.full(len(ports), paths.hosts - 1, np.int64)
    counts = np.bincount(ecmp_paths(paths, Salts.of(paths, 1), *ends, ports))
    assert counts.min() > 0.8 * counts.mean() and counts.max() < 1.2 * counts.mean()


def test_it_explores_a_bandwidth_delay_product_and_freezes_for_some_timeouts() -> None:
    for rate_bps, delay_ns, packets in ((10**8, 0, 5), (10**11, 1000, 29)):
        scenario = Scenario(
            "alltoall", world="simulated", paths="reps", rate_bps=rate_bps, delay_ns=delay_ns
        )
        options = transport_of(scenario)
        assert options.explore_packets == packets
        assert scenario.retransmit_timeout_ns is not None
        assert options.freeze_ns == 8 * scenario.retransmit_timeout_ns
