"""Results documents made up for the tests of the report and the table."""

from __future__ import annotations

import random
from typing import Any

from weft.experiments.results.results import (
    Fidelity,
    LinkResult,
    RankResult,
    Results,
    Run,
    tier_bytes,
)
from weft.experiments.results.summary import Summary, by_point
from weft.experiments.results.telemetry import queue_figures
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment
from weft.experiments.theory.bounds import completion_bound_ns
from weft.experiments.theory.traffic_model import tier_model_bytes

BINS = 32
FRAME = {"header": 90, "control": 1.002}


def sample_results(repeat: int = 1, seed: int = 1, **options: Any) -> Results:
    """Runs of a scenario as they could have come out; nothing is lost, all is verified."""
    return sample_experiment(Experiment.of(Scenario(repeat=repeat, **options)), seed)


def sample_experiment(experiment: Experiment, seed: int = 1) -> Results:
    """Runs of all points of an experiment as they could have come out."""
    return Results(
        runs=[
            sample_run(
                scenario,
                algorithm,
                repetition,
                random.Random((seed + scenario.seed - 1) * 1000 + repetition),
            )
            for scenario in (point.scenario for point in experiment.points)
            for algorithm in scenario.algorithms
            for repetition in range(scenario.repeat)
        ],
        swept=list(experiment.swept),
        plots=list(experiment.plots),
        run_id="5e1f09",
        started="2026-11-21T02:10:00+00:00",
        duration_s=7.21,
        timings_s={"compile": 0.08, "bring_up": 1.92, "multicast_0": 0.71, "take_down": 0.64},
        environment={
            "weft": "0.1.0", "python": "3.11.2", "kernel": "6.1.0-35-amd64",
            "processors": 2, "packages": {"mininet": "2.3.0", "numba": "0.68.1"},
        },
    )  # fmt: skip


def sample_run(scenario: Scenario, algorithm: str, repetition: int, luck: random.Random) -> Run:
    """One verified run, some per cent slower than its bound."""
    network = scenario.network()
    bound_ns = completion_bound_ns(scenario, algorithm)
    slowest_ns = int(bound_ns * luck.uniform(1.03, 1.06)) + 5_000_000
    ranks = []
    hosts = [network.hosts[number] for job in scenario.placement.jobs for number in job]
    for rank, host in enumerate(hosts):
        done_ns = int(slowest_ns * luck.uniform(0.97, 1)) if rank else slowest_ns
        phases = {"data": done_ns}
        if algorithm == "multicast":
            barrier = luck.randrange(300_000, 2_000_000)
            handshake = luck.randrange(900_000, 3_000_000)
            phases = {
                "barrier": barrier,
                "data": done_ns - barrier - handshake,
                "recovery": 0,
                "handshake": handshake,
            }
        ranks.append(RankResult(rank, host.name, True, done_ns, phases_ns=phases))
    model = tier_model_bytes(network, scenario, algorithm)
    links = []
    for direction in network.directions:
        share = model[direction.tier] / len(network.directions_of(direction.tier))
        packets = int(share / scenario.mtu * FRAME["control"]) + luck.randrange(12)
        links.append(
            LinkResult(
                *direction.ends,
                tier=direction.tier,
                tx_packets=packets,
                tx_bytes=int(share + packets * FRAME["header"]),
                lost=0,
                queue_dropped=0 if direction.tier != "host_up" else None,
                max_queue_bytes=4200 * luck.randrange(1, 20)
                if direction.tier != "host_up"
                else None,
                queue_depths=[(0, packets // 2), (4224, packets - packets // 2)]
                if direction.tier != "host_up" and packets
                else [],
                load_bytes=[int(share + packets * FRAME["header"]) // BINS] * BINS,
            )
        )
    received = (scenario.ranks - 1) * scenario.size_bytes
    if scenario.collective in ("broadcast", "alltoall"):
        received = scenario.size_bytes
    return Run(
        scenario=scenario.to_dict(),
        algorithm=algorithm,
        repetition=repetition,
        verified=True,
        completion_ns=slowest_ns,
        bound_ns=bound_ns,
        goodput_bps=received * 8e9 / slowest_ns,
        ranks=ranks,
        links=links,
        tiers=tier_bytes(links),
        fidelity=Fidelity(
            verdict="ok",
            reasons=[],
            cpu_busy=0.41,
            cpu_stolen=0.01,
            cpu_s={"switch": 0.31, "ranks": 0.52},
            lateness_ns={"switch_p50": 61_000, "switch_p99": 480_000, "switch_max": 1_900_000},
            unplanned_losses=0,
        ),
        queues=queue_figures(links),
        load_bin_ns=-(-slowest_ns // BINS),
    )


def summarize(results: Results) -> list[Summary]:
    """Return a summary for each point and algorithm, in the order in which they ran first."""
    return [summary for point in by_point(results) for summary in point]
