"""Facts about the machine, and what ``weft doctor`` says of what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.topo.worlds.emulated.machine import (
    TOOLS,
    KernelFeature,
    MachineFacts,
    ToolFact,
    machine_facts,
    probe_features,
)
from weft.topo.worlds.processors import CpuTimes, cpu_use, read_cpu_times


def test_facts_name_every_tool_once() -> None:
    facts = machine_facts()
    assert [fact.tool.name for fact in facts.tools] == [tool.name for tool in TOOLS]
    assert facts.cores >= 1 and facts.memory_bytes > 0
    assert facts.root == (os.geteuid() == 0)
    for fact in facts.tools:
        assert fact.path is None or os.access(fact.path, os.X_OK)


def test_what_is_missing_comes_with_the_command_that_gets_it() -> None:
    facts = MachineFacts(
        cores=2,
        memory_bytes=1,
        kernel="6",
        root=False,
        mininet=None,
        tools=tuple(ToolFact(tool, None, None) for tool in TOOLS),
        features=(),
    )
    assert "ip: makes links and routes; apt-get install iproute2" in facts.missing
    assert any(line.startswith("root:") for line in facts.missing)
    assert any("Mininet's Python package" in line for line in facts.missing)
    assert any("simple_switch_grpc" in line and "Vagrantfile" in line
               for line in facts.optional_missing)  # fmt: skip
    assert facts.apt_command == ("sudo apt-get install iproute2 mininet tcpdump tshark util-linux")


def test_a_feature_that_weft_does_without_is_told_and_not_missing() -> None:
    found = tuple(ToolFact(tool, f"/usr/bin/{tool.name}", "1.0") for tool in TOOLS)
    features = (
        KernelFeature("veth", False, "no"),
        KernelFeature("PID namespaces", False, "none", "something may stay"),
    )
    facts = MachineFacts(2, 1, "6", True, "/usr/lib", found, features)
    assert facts.missing == ("veth: no",)
    (told,) = facts.optional_missing
    assert told == "PID namespaces: something may stay; none"


def test_a_complete_machine_misses_nothing() -> None:
    found = tuple(ToolFact(tool, f"/usr/bin/{tool.name}", "1.0") for tool in TOOLS)
    facts = MachineFacts(2, 1, "6", True, "/usr/lib", found, ())
    assert (facts.missing, facts.optional_missing, facts.apt_command) == ((), (), None)


@pytest.mark.skipif(os.geteuid() != 0, reason="trying kernel features needs root")
def test_kernel_features_are_tried_in_a_namespace_of_their_own() -> None:
    before = set(os.listdir("/sys/class/net"))
    features = {feature.name: feature for feature in probe_features()}
    assert [*features] == [
        "network namespaces", "veth", "tbf", "AF_PACKET", "netem", "PID namespaces",
    ]  # fmt: skip
    assert set(os.listdir("/sys/class/net")) <= before


def test_cpu_use_is_the_share_between_two_readings(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  99 99 99 9999 99 99 99 99 99 99\n"
        "cpu0 4 20 10 600 40 0 5 7 99 99\n"
        "cpu1 9 9 9 9 9 9 9 9 9 9\n"
        "cpu12 6 0 20 400 0 5 0 0 0 0\n"
        "intr 1234\n"
    )
    before = read_cpu_times(stat, {0, 12})
    assert before == CpuTimes(busy=70, steal=7, total=1117)
    assert read_cpu_times(stat, {7}) == CpuTimes(busy=495, steal=99, total=10_692)
    use = cpu_use(before, CpuTimes(busy=140, steal=17, total=1217))
    assert (use.busy, use.steal) == (0.7, 0.1)
    assert cpu_use(before, before).busy == 0.0
    assert read_cpu_times().total > 0
