"""The UDP driver: a whole transfer between two network namespaces, and its small parts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agents.drivers.udp import Lateness, UdpDriver

ROOT = Path(__file__).resolve().parents[3]
PEERS = str(ROOT / "tests" / "support" / "udp_peers.py")
MISSING = [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]
SYSTEM = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
    pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def needs_namespaces(test: Any) -> Any:
    for mark in SYSTEM:
        test = mark(test)
    return test


@pytest.fixture(scope="module", params=["alone", "workers", "entropy"])
def hosts(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What two hosts on a veth pair saw, also with multicast received by a worker's thread, and
    with a source port for each packet; see udp_peers.py."""
    done = subprocess.run(
        [
            "unshare",
            "--net",
            sys.executable,
            str(ROOT / "tests" / "support" / "udp_peers.py"),
            request.param,
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    documents: list[dict[str, Any]] = json.loads(done.stdout)
    return documents


@needs_namespaces
def test_writes_reads_and_chunks_arrive_over_sockets(hosts: list[dict[str, Any]]) -> None:
    assert [host["written"] for host in hosts] == [True, True]
    assert [host["errors"] for host in hosts] == [[], []]
    assert hosts[1]["gathered"] and hosts[1]["missing"] == 0
    for host in hosts:
        assert host["statistics"]["bad_icrc"] == 0
        assert host["statistics"]["unknown_queue_pair"] == 0
        assert host["counters"]["socket_drops"] == 0
        assert host["counters"]["send_errors"] == 0
    sent = hosts[0]["counters"]["datagrams_sent"]
    assert sent == hosts[0]["statistics"]["transmitted_packets"]
    assert sent == hosts[1]["statistics"]["received_packets"]


@needs_namespaces
def test_one_hosts_own_multicast_does_not_come_back(hosts: list[dict[str, Any]]) -> None:
    assert hosts[0]["statistics"]["own_loopback"] == 0
    assert hosts[0]["missing"] == 512


@needs_namespaces
def test_a_slow_link_holds_the_sender_back_and_nothing_is_lost(
    hosts: list[dict[str, Any]],
) -> None:
    if not hosts[0]["shaped"]:
        pytest.skip("tc cannot make a tbf queue here")
    assert hosts[0]["counters"]["send_blocked"] > 0
    assert hosts[0]["figures"]["multicast"]["ns"] > 0.8 * (2 << 20) * 8 / 0.4
    assert hosts[1]["missing"] == 0


@needs_namespaces
def test_many_datagrams_take_one_system_call(hosts: list[dict[str, Any]]) -> None:
    """Where there are many at a time: when nothing waits, each leaves, or is taken, as it comes."""
    burst = hosts[0]["figures"]["multicast"]
    assert burst["system_calls"] < burst["datagrams_sent"]


@needs_namespaces
def test_frames_have_the_headers_that_the_icrc_counts_on(hosts: list[dict[str, Any]]) -> None:
    frames = hosts[0]["frames"]
    assert frames["frames"] == 300
    assert frames["wrong"] == []
    assert frames["identifications"] == ["0000"]
    assert frames["fragments"] == ["4000"]
    assert frames["ttls"] == [64]
    assert frames["udp_checksums"] == ["0000"]
    ports = set(frames["source_ports"])
    if len(ports) > 3:
        assert set(frames["services"]) == {0x40, 0x42}
        assert len(ports) > 32
    else:
        assert 0x40 in frames["services"]
        assert ports <= {50_123, 50_124, 50_125}


ALONE = """
import subprocess
from types import SimpleNamespace
import numpy as np
from weft.agents.datagrams import ipv4
from weft.agents.drivers.udp import UdpDriver
from weft.agents.transport import Endpoint
from weft.base.errors import MachineError

def attempt(what):
    try:
        what()
    except MachineError as error:
        print(error)

def send():
    region = endpoint.register(np.zeros(4096, np.uint8))
    group.post_chunks(region, 0, 1, 4096, 0, 0)
    driver.run(0)

endpoint = Endpoint(ipv4("10.9.0.1"))
group = endpoint.create_ud(ipv4("239.0.0.1"), 1)
host = SimpleNamespace(
    endpoint=endpoint, address=endpoint.address, groups=endpoint.groups, due_ns=None,
    attentive=False, waits_for_sent=True, attend=lambda batch, now_ns: endpoint.take_events(batch),
)
attempt(lambda: UdpDriver(host))
for command in ("link set lo up mtu 1500 multicast on", "address add 10.9.0.1/24 dev lo",
                "route add 224.0.0.0/4 dev lo"):
    subprocess.run(["ip", *command.split()], check=True)
driver = UdpDriver(host)
attempt(lambda: UdpDriver(host))
attempt(send)
"""


@needs_namespaces
def test_what_the_machine_lacks_is_told() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", ALONE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    no_address, taken, too_long = done.stdout.splitlines()
    assert "joining 239.0.0.1 at 10.9.0.1" in no_address
    assert "port 4791: Address already in use" in taken
    assert "4152 bytes" in too_long and "MTU" in too_long


IDLE = """
import sys, time
from types import SimpleNamespace
from weft.agents.datagrams import ipv4
from weft.agents.drivers.udp import UdpDriver
from weft.agents.transport import Endpoint
import subprocess

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["ip", "address", "add", "10.9.0.1/24", "dev", "lo"], check=True)
endpoint = Endpoint(ipv4("10.9.0.1"))
host = SimpleNamespace(
    endpoint=endpoint, address=endpoint.address, groups=endpoint.groups, due_ns=None,
    attentive=False, waits_for_sent=True, attend=lambda batch, now_ns: endpoint.take_events(batch),
)
driver = UdpDriver(host)
driver.run(time.monotonic_ns() + 300_000_000)
driver.reset_lateness()
print("idle", flush=True)
sys.stdin.readline()
driver.reset_lateness()
print("idle", flush=True)
end_ns = time.monotonic_ns() + 60_000_000_000
while driver.lateness_ns()["stood"] < 600_000_000 and time.monotonic_ns() < end_ns:
    driver.run(time.monotonic_ns() + 2_000_000_000)
print(driver.lateness_ns()["stood"], flush=True)
driver.reset_lateness(70_000_000)
print(driver.lateness_ns()["stood"])
"""


@needs_namespaces
def test_a_host_that_was_stopped_knows_though_it_had_nothing_to_do() -> None:
    process = subprocess.Popen(
        ["unshare", "--net", sys.executable, "-c", IDLE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "idle\n"
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "idle\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.8)
        process.send_signal(signal.SIGCONT)
        stood_ns, first_ns = map(int, process.stdout.read().split())
    assert 600_000_000 <= stood_ns < 10_000_000_000
    assert first_ns == 70_000_000


def test_warming_up_sends_nothing_and_needs_no_root() -> None:
    UdpDriver.warm_up()


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=200), st.floats(0.01, 1))
def test_lateness_percentiles_are_right_to_an_eighth(samples: list[int], fraction: float) -> None:
    lateness = Lateness()
    for sample in samples:
        lateness.add(sample)
    within = sum(sample <= lateness.percentile(fraction) for sample in samples)
    assert within >= fraction * len(samples) - 1e-6
    below = sum(sample < lateness.percentile(fraction) / 1.125 - 1 for sample in samples)
    assert below < fraction * len(samples) + 1e-6
    assert lateness.summary()["max"] == max(samples)


def test_no_samples_have_no_lateness() -> None:
    assert Lateness().summary() == {"p50": 0, "p99": 0, "max": 0}
