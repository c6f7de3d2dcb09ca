"""Runs on switches whose ports have queues of several priorities: who is served first, and what is
told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import weft
from weft.base.errors import InputError
from weft.experiments.results.results import Results
from weft.experiments.results.rows import rows_of
from weft.experiments.runner import run
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.scenario import Scenario
from weft.switch.realtime.config import config_of
from weft.topo.own import read_network
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.switch_processes import builtin_config

TWO_JOBS = {
    "collective": "allgather", "world": "simulated", "jobs": 2, "oversubscription": 4,
    "algorithm": "ring", "size": "64KiB", "leaves": 2, "spines": 1,
}  # fmt: skip
FILE = """
hosts = ["a", "b", "c"]
switches = ["s"]
priority-queues = 3
queue-weights = [0, 2, 0]
queue-rates = [0, 0, 1000]
queue-depths = ["64KiB", 2000000, "1MiB"]

[[links]]
ends = ["a", "s"]
[[links]]
ends = ["b", "s"]
[[links]]
ends = ["c", "s"]
"""


def ran(**options: Any) -> Results:
    return run(from_options({**TWO_JOBS, **options}))


def slowest_ns(results: Results) -> list[int]:
    """Return by job when its slowest rank was done."""
    (run,) = results.runs
    assert run.verified
    half = len(run.ranks) // 2
    times = [rank.completion_ns or 0 for rank in run.ranks]
    return [max(times[:half]), max(times[half:])]


def test_a_job_of_a_greater_priority_is_served_as_if_it_were_alone_and_a_weight_shares() -> None:
    alone = slowest_ns(ran(jobs=1, hosts="h1,h3"))[0]
    fair = slowest_ns(ran())
    assert min(fair) > 1.8 * alone
    strict = ran(**{"priority-queues": 2, "priorities": "0,1"})
    first, second = slowest_ns(strict)
    assert second < 1.2 * alone < 1.8 * alone < first
    first, second = slowest_ns(
        ran(**{"priority-queues": 2, "priorities": "0,1", "queue-weights": "1,3"})
    )
    assert 1.2 * alone < second < 1.6 * alone < first


def test_results_count_the_packets_of_each_queue_and_all_of_a_link_are_in_them() -> None:
    results = ran(**{"priority-queues": 3, "priorities": "0,2", "ack-priority": 1})
    (run,) = results.runs
    again = Results.from_dict(results.to_dict())
    assert again.runs[0].links == run.links
    rows = rows_of(results.runs, (), "queues")
    assert {row["priority"] for row in rows} == {0, 1, 2}
    for link in run.links:
        if link.tier == "host_up":
            assert link.queues == []
            continue
        assert sum(queue.tx_packets for queue in link.queues) == link.tx_packets
        assert sum(queue.tx_bytes for queue in link.queues) == link.tx_bytes
        assert max(queue.max_bytes for queue in link.queues) <= (link.max_queue_bytes or 0)


def test_a_short_queue_of_one_class_loses_packets_of_that_class_alone() -> None:
    results = ran(
        **{"priority-queues": 2, "priorities": "0,1", "queue-depths": "20KiB,512KiB"},
        **{"queue-weights": "1,1"},
    )
    dropped = {0: 0, 1: 0}
    for row in rows_of(results.runs, (), "queues"):
        dropped[row["priority"]] += row["dropped_packets"]
        assert row["max_queue_bytes"] <= (20 << 10 if row["priority"] == 0 else 512 << 10)
    assert dropped[0] > 0 == dropped[1]
    assert results.verified


def test_what_switches_add_for_a_job_has_its_priority_too() -> None:
    results = run(
        from_options(
            {**TWO_JOBS, "collective": "allreduce", "algorithm": "switch", "size": "16KiB"}
            | {"priority-queues": 3, "priorities": "1,2"}
        )
    )
    assert results.verified
    carried = {0: 0, 1: 0, 2: 0}
    for row in rows_of(results.runs, (), "queues"):
        carried[row["priority"]] += row["tx_packets"]
    assert carried[0] == 0 < carried[1] == carried[2]


def test_a_packet_of_no_job_has_the_priority_of_its_dscp_as_far_as_there_are_queues() -> None:
    with weft.up(weft.single(2), world="simulated", priority_queues=4) as net:
        source, destination = net.host("h0"), net.host("h1")
        for dscp in (0, 8, 15, 16, 46, 56):
            packet = Ether(dst=source.gateway_mac) / IP(
                src=source.ip, dst=destination.ip, tos=dscp << 2
            )
            source.send(packet / UDP() / bytes(30))
        assert len(destination.sniff(timeout=0.1)) == 6
        queues = [net.switch("leaf0").queue(2, priority).read() for priority in range(4)]
    assert [queue["taken_packets"] for queue in queues] == [1, 2, 1, 2]


def test_with_one_queue_the_program_has_no_classes_and_a_run_is_as_it_was() -> None:
    one = ran().runs[0]
    same = ran(**{"priority-queues": 1}).runs[0]
    assert (one.digest, one.completion_ns) == (same.digest, same.completion_ns)
    with weft.up(weft.single(2), world="simulated") as net:
        assert not any("traffic_class" in name for name in net.switch("leaf0").tables)


def test_a_file_says_what_holds_for_queues_as_options_do_and_both_worlds_are_told(
    tmp_path: Path,
) -> None:
    (tmp_path / "lab.toml").write_text(FILE)
    network = read_network(tmp_path / "lab.toml")
    assert network.priority_queues == 3
    options = {"priority-queues": 3, "queue-weights": "0,2,0", "queue-rates": "0,0,1000"}
    options |= {"queue-depths": "64KiB,2000000,1MiB"}
    plain = FILE.partition("priority")[0] + FILE.partition('"1MiB"]')[2]
    (tmp_path / "plain.toml").write_text(plain)
    asked = {"collective": "allgather", "world": "simulated", "topology": f"{tmp_path}/plain.toml"}
    by_options = from_options({**asked, **options}).network()
    assert by_options.queue_changes == network.queue_changes
    record = RunRecord("abc123", tmp_path / "run")
    config = config_of(builtin_config(network, record, 1, 4500), "switches")
    assert config.priority_queues == 3
    assert config.classes == network.queue_changes
    with weft.up(network, world="simulated") as net:
        read = [net.switch("s").queue(1, priority).read() for priority in range(3)]
    told = [(each["weight"], each["rate_pps"], each["limit_bytes"]) for each in read]
    assert told == [(0, 0, 65536), (2, 0, 2_000_000), (0, 1000, 1 << 20)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"priorities": "1"},
            "priorities 1: a port has one queue, of priority 0; say --prio",
        ),
        (
            {"priority-queues": 2, "ack-priority": 2},
            "ack-priority 2: a port has priorities 0 to 1; say --priority-queues 3",
        ),
        (
            {"priority-queues": 32, "priorities": "9"},
            "priorities 9: a port has priorities 0 to 7; lower it",
        ),
        ({"priority-queues": 40}, "40 priority queues: a port has 1 to 32"),
        (
            {"priority-queues": 3, "queue-weights": "1,2"},
            "queue-weights are 2 for 3 queues of a port: give one for each",
        ),
        ({"priority-queues": 2, "queue-rates": "0,-1"}, "queue-rates: -1 is out of range, 0 to"),
        ({"queue-weights": "1,x"}, "queue-weights 'x' is not a whole number"),
        ({"queue-weights": 3}, "queue-weights 3 is no list: write whole numbers with commas"),
        (
            {"priority-queues": 2, "priorities": "0,1", "switch": "bmv2", "world": "emulated"},
            "no queues that fill by priority with --switch bmv2: BMv2's own queues stay empty",
        ),
    ],
)
def test_queues_that_cannot_be_are_refused_by_name(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        from_options({**TWO_JOBS, **options})


def test_a_scenario_in_python_takes_the_same() -> None:
    scenario = Scenario(
        "allgather", world="simulated", priority_queues=2, job_priorities=[1], queue_weights=[1, 2]
    )
    assert scenario.job_priorities == (1,)
    assert [each.weight for each in scenario.network().queue_changes] == [1, 2]
