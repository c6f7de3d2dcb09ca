"""What ``weft top`` shows is the difference of two readings of switches' ports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from weft.base.errors import InputError, RunError
from weft.topo.clos import single
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.watching import (
    Load,
    QueueLoad,
    Reading,
    TableLoad,
    find_run,
    in_order,
    table_loads,
    write_links,
)


def port(**counted: int) -> dict[str, Any]:
    """What a port has counted, of which most is nothing."""
    names = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "queue_drops", "queue_bytes")
    return {**dict.fromkeys((*names, "queue_peak_bytes"), 0), **counted}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of runs in which one network is up, without anybody who answers."""
    root = tmp_path / "runs"
    run = RunRecord.create(root)
    write_links(single(2, 1_000_000), run.folder)
    return root


def test_loads_are_what_was_carried_between_two_readings(root: Path) -> None:
    run = find_run(root=root)
    before = {("leaf0", 1): port(rx_bytes=500), ("leaf0", 2): port(tx_bytes=7, queue_drops=4)}
    after = {
        ("leaf0", 1): port(rx_bytes=25_500, rx_packets=20, arrived_lost_packets=3),
        ("leaf0", 2): port(tx_bytes=125_007, tx_packets=100, queue_drops=10, queue_bytes=9),
    }
    found = run.loads(Reading(10.0, before), Reading(12.0, after))
    assert [each.link for each in found] == ["h0>leaf0", "leaf0>h0", "h1>leaf0", "leaf0>h1"]
    assert found[0] == Load("h0>leaf0", 100_000, 10, 0.1, 0, 0, 0, 0, 3)
    assert found[3] == Load("leaf0>h1", 500_000, 50, 0.5, 9, 0, 10, 3, 0)
    some = {"priority": 0, "bytes": 9, "peak_bytes": 12}
    before["leaf0", 2]["queues"] = [some | {"taken_bytes": 7, "taken_packets": 1, "drops": 4}]
    after["leaf0", 2]["queues"] = [some | {"taken_bytes": 32, "taken_packets": 3, "drops": 10}]
    (told,) = run.loads(Reading(10.0, before), Reading(12.0, after))[3].queues
    assert told == QueueLoad(0, 100, 1, 9, 12, 10, 3)
    assert [each.link for each in in_order(found, "load")[:2]] == ["leaf0>h1", "h0>leaf0"]
    assert in_order(found, "drops")[0].link == in_order(found, "queue")[0].link == "leaf0>h1"
    assert in_order(found, "link") == found


def test_tables_are_told_with_what_they_were_hit_between_two_readings() -> None:
    before = Reading(10.0, {}, {("s1", "I.t"): (100, 7), ("s1", "I.u"): (5, 5)})
    tables = {("s1", "I.t"): (150, 7), ("s1", "I.u"): (4, 0), ("s2", "I.t"): (0, 6)}
    after = Reading(12.0, {}, tables | {("s2", "I.idle"): (0, 0)})
    assert table_loads(before, after) == [
        TableLoad("s1", "I.t", 25, 0, 150, 7),
        TableLoad("s1", "I.u", 2, 0, 4, 0),  # its program was loaded anew
        TableLoad("s2", "I.t", 0, 3, 0, 6),
    ]


def test_a_run_that_is_not_there_or_does_not_answer_is_named(root: Path) -> None:
    run = find_run(root=root)
    with pytest.raises(RunError, match=f"run {run.id}: its switches do not answer"):
        run.read()
    with pytest.raises(InputError, match=f"run 'x': up are:\n  --run {run.id}  single: 2 hosts"):
        find_run("x", root)
    second = RunRecord.create(root)
    write_links(single(3), second.folder)
    with pytest.raises(InputError, match=re.escape("which run: up are:")):
        find_run(root=root)
    assert find_run(second.id, root).description.startswith("single: 3 hosts")
    with pytest.raises(InputError, match="which run: no network of built-in switches is up"):
        find_run(root=root / "empty")
