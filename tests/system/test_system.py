"""The whole system through the command line: real namespaces, switches, packets and processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.system_support import (
    ENVIRONMENT,
    WEFT,
    Machine,
    count_frames,
    left_as_it_was,
    runs_of,
    sent_bytes,
    wait_until,
    weft,
)

from weft.base.cache import CHECKOUT
from weft.base.errors import RunError
from weft.base.progress import Progress
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.operate import operate
from weft.experiments.runs.testbed import make_testbed
from weft.experiments.scenario.scenario import Scenario
from weft.topo.worlds.emulated.cleanup import clean, marked_processes
from weft.topo.worlds.emulated.runs import RUNS, RunRecord
from weft.topo.worlds.emulated.world import EmulatedWorld

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

FRAME_BYTES = 4096 + 70
"""A chunk with its headers."""


def run_json(*arguments: str, cwd: Path, timeout_s: float = 600) -> dict[str, Any]:
    done = weft("run", "allgather", "--json", "--out", "out", *arguments, cwd=cwd,
                timeout_s=timeout_s)  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def repeated_bytes(run: dict[str, Any]) -> int:
    """The most that a link carried twice: a machine that stops for a while makes timers expire."""
    packets: int = sum(
        rank["retransmitted_packets"] + rank["statistics"]["chunks_fetched"]
        for rank in run["ranks"]
    )
    return packets * 2 * FRAME_BYTES  # and what is said about it


def by_algorithm(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {run["algorithm"]: run for run in document["runs"]}


@pytest.fixture
def untouched() -> Iterator[Machine]:
    """Holds the test to leaving the machine as it was."""
    with left_as_it_was() as before:
        yield before


@dataclass
class Started:
    """A run in the background."""

    process: subprocess.Popen[str]
    run_id: str

    def find(self, words: str) -> list[int]:
        """The processes of this run whose command line has those words, oldest first."""
        found = []
        for process in sorted(marked_processes(self.run_id), key=lambda one: one.started):
            with suppress(OSError):
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
                if words in line.replace("\0", " "):
                    found.append(process.pid)
        return found

    def wait_for_ranks(self, ranks: int) -> list[int]:
        """Wait until the ranks are in the midst of their operation; their process ids."""
        # A rank is forked from the launcher and has its command line.
        launcher = "weft.agents.drivers.launcher"
        wait_until(lambda: len(self.find(launcher)) == 1 + ranks, f"{ranks} rank processes")
        found = self.find(launcher)[1:]
        wait_until(lambda: min(map(sent_bytes, found)) > 100_000, "all ranks to send data")
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start a run that takes long enough to be disturbed; kills what the test leaves."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> Started:
        process = subprocess.Popen(
            [*WEFT, "run", "allgather", "--leaves", "2", "--spines", "1", "--size", "16MiB",
             "--rate", "20Mbit", "--no-predict", "--algorithm", "ring",
             "--out", str(tmp_path / f"out{len(processes)}"), *arguments],
            cwd=tmp_path, env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        found: list[str] = []

        def is_on_record() -> bool:
            found.extend(runs_of(process.pid))
            return bool(found) or process.poll() is not None

        wait_until(is_on_record, "the run to be on record")
        assert found, process.communicate()
        return Started(process, found[-1])

    yield begin
    for process in processes:
        process.kill()
        process.communicate()
    clean()


def test_both_algorithms_are_verified_and_every_shard_crosses_each_fabric_link_once(
    tmp_path: Path, untouched: Machine
) -> None:
    size = 256 * 1024
    document = run_json("--size", str(size), cwd=tmp_path)
    assert document["verified"]
    runs = by_algorithm(document)
    assert set(runs) == {"ring", "multicast"}
    for run in runs.values():
        assert run["completion_ns"] >= run["bound_ns"]
        assert [rank["verified"] for rank in run["ranks"]] == [True] * 8
        assert run["scenario"]["seed"] == 1
    for link in runs["multicast"]["links"]:
        if link["tier"].startswith("fabric"):
            most = 8 * size * (FRAME_BYTES / 4096) * 1.03  # 3 % for control
            assert link["tx_bytes"] <= most + repeated_bytes(runs["multicast"]), link
    assert (tmp_path / "out" / "results.json").exists()
    assert "<html" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("joined", ["veth", "patch"])
def test_captures_hold_rocev2_with_the_right_icrc_at_both_ends_of_every_link(
    tmp_path: Path, untouched: Machine, joined: str
) -> None:
    document = run_json(
        "--leaves", "2", "--size", "32KiB", "--pcap", "--links", joined, cwd=tmp_path
    )
    assert document["verified"]
    assert not document["notes"]
    links = ["h0-leaf0", "h1-leaf0", "h2-leaf1", "h3-leaf1"]
    links += [f"leaf{leaf}-spine{spine}" for leaf in (0, 1) for spine in (0, 1)]
    folder = tmp_path / "out" / "pcap"
    assert len(list(folder.glob("*.pcap"))) == 2 * len(links)
    total = igmp = 0
    for link in links:
        ends = [folder / f"{link}.pcap", folder / f"{'-'.join(reversed(link.split('-')))}.pcap"]
        counts = [count_frames(end) for end in ends]
        assert counts[0][0] == counts[1][0] > 0, link
        total += counts[0][0]
        igmp += max(counts[0][1], counts[1][1])  # a kernel leaves its groups when it likes
    sent = sum(link["tx_packets"] for run in document["runs"] for link in run["links"])
    # Hosts' kernels join and leave groups: mostly before and after, at times while it is counted.
    assert total <= sent <= total + igmp
    if not _has("tshark"):
        pytest.skip("tshark is missing: the captures were checked with scapy alone")
    merged = tmp_path / "merged.pcapng"  # tshark takes long to start
    subprocess.run(["mergecap", "-w", merged, *folder.glob("*.pcap")], check=True)
    # What a SEND holds may look like RPC over RDMA to it, by chance of addresses and PSNs.
    show = ["tshark", "-r", str(merged), "--disable-protocol", "rpcordma"]
    odd = subprocess.run(
        [*show, "-Y", "udp and (_ws.malformed or not infiniband)"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert odd.returncode == 0, odd.stderr
    assert odd.stdout == ""


def _has(tool: str) -> bool:
    from shutil import which

    return which(tool) is not None


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_below_one_switch_ring_moves_two_minus_two_over_p_times_the_bytes(
    ranks: int, tmp_path: Path
) -> None:
    document = run_json(
        "--topology", "single", "--hosts-per-leaf", str(ranks), "--size", "128KiB", cwd=tmp_path
    )
    runs = by_algorithm(document)
    totals = {name: sum(run["tiers"].values()) for name, run in runs.items()}
    repeated = {name: 2 * repeated_bytes(run) for name, run in runs.items()}  # on two links
    least = (totals["ring"] - repeated["ring"]) / totals["multicast"]
    most = totals["ring"] / (totals["multicast"] - repeated["multicast"])
    assert least / 1.03 <= 2 - 2 / ranks <= most / 0.97


@pytest.mark.slow
def test_with_loss_on_every_link_every_run_is_verified(tmp_path: Path) -> None:
    document = run_json(
        "--loss", "1%", "--size", "64KiB", "--repeat", "20", "--no-predict", cwd=tmp_path
    )
    assert len(document["runs"]) == 40
    assert all(run["verified"] for run in document["runs"])
    assert sum(link["lost"] for run in document["runs"] for link in run["links"]) > 0


def test_chains_and_fat_trees_are_verified(tmp_path: Path) -> None:
    document = run_json(
        "--topology", "fat-tree", "--k", "2", "--chains", "1", "--size", "10001", cwd=tmp_path
    )
    assert document["verified"]


PIPS_SCRIPT = "import sys; del sys.path[0]; from weft.__main__ import start; start()"


@pytest.mark.parametrize("start", [WEFT, [sys.executable, "-c", PIPS_SCRIPT]])
def test_a_file_of_the_users_takes_no_modules_place(
    start: list[str], tmp_path: Path, untouched: Machine
) -> None:
    for name in ("random", "statistics", "tempfile", "numpy", "agents", "switch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(f'{__file__} was imported')\n")
    environment = {key: ENVIRONMENT[key] for key in ENVIRONMENT if key != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [*start, "run", "allgather", "--json", "--topology", "single", "--hosts-per-leaf", "2",
         "--size", "16KiB", "--no-predict", "--out", "out"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"]


@pytest.mark.parametrize("link", ["h1-leaf0", "leaf0-spine0"])
def test_a_dead_link_ends_both_algorithms_with_an_error_and_not_a_hang(
    link: str, tmp_path: Path, untouched: Machine
) -> None:
    done = weft(
        "run", "allgather", "--leaves", "2", "--size", "64KiB", "--fault", f"{link}:loss=1",
        "--timeout", "5", "--out", "out", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == 2
    for run in runs:
        assert not run["verified"]
        assert run["completion_ns"] is None
        assert "rank" in run["error"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_and_leaves_nothing(
    number: signal.Signals, start: Callable[..., Started], untouched: Machine
) -> None:
    started = start()
    started.wait_for_ranks(4)
    started.process.send_signal(number)
    output, errors = started.process.communicate(timeout=300)
    assert started.process.returncode == 128 + number, errors
    assert "Traceback" not in errors + output
    assert not marked_processes(started.run_id)


def test_a_killed_rank_is_named_and_nothing_is_left(
    start: Callable[..., Started], untouched: Machine
) -> None:
    started = start()
    pid = started.wait_for_ranks(4)[2]
    os.kill(pid, signal.SIGKILL)
    output, errors = started.process.communicate(timeout=300)
    assert started.process.returncode == 1
    assert str(pid) in output + errors
    assert "SIGKILL" in output + errors
    assert "Traceback" not in errors
    assert not marked_processes(started.run_id)


def test_a_killed_switch_process_is_named_and_nothing_is_left(
    start: Callable[..., Started], untouched: Machine
) -> None:
    started = start()
    started.wait_for_ranks(4)
    os.kill(started.find("weft.switch.realtime")[0], signal.SIGKILL)
    output, errors = started.process.communicate(timeout=300)
    assert started.process.returncode == 1
    assert "switch process" in output + errors
    assert "Traceback" not in errors
    assert not marked_processes(started.run_id)


def test_an_operation_names_the_shell_that_was_killed_and_held_the_switches_namespace(
    untouched: Machine,
) -> None:
    scenario = Scenario(
        topology="single", hosts_per_leaf=2, size_bytes=4096, algorithms=("ring",), predict=False
    )
    with ExitStack() as stack:
        record = RunRecord.create()
        stack.callback(record.remove)
        world = EmulatedWorld(scenario.network(), run=record)
        testbed = stack.enter_context(
            make_testbed(world, scenario, program_of(scenario), Progress.silent())
        )
        shell = world.namespace_pid
        os.kill(shell, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{shell}/ns/net").exists(), "the shell to be gone")
        with pytest.raises(RunError, match=rf"namespace of switches \(pid {shell}\)"):
            operate(testbed, "ring", 0, lambda _: None)


def test_after_a_killed_runner_clean_leaves_nothing_and_touches_no_other_run(
    start: Callable[..., Started], tmp_path: Path, untouched: Machine
) -> None:
    killed, other = start(), start("--size", "4MiB")
    killed.wait_for_ranks(4)
    killed.process.kill()
    killed.process.communicate()
    done = weft("clean", cwd=tmp_path)
    assert done.returncode == 0
    assert killed.run_id in done.stdout
    assert other.run_id not in done.stdout
    assert not marked_processes(killed.run_id)
    assert not (RUNS / killed.run_id).exists()
    output, errors = other.process.communicate(timeout=300)
    assert other.process.returncode == 0, output + errors


def test_without_root_one_message_says_so(tmp_path: Path) -> None:
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
    if subprocess.run([*nobody, "test", "-r", str(CHECKOUT / "weft")], check=False).returncode != 0:
        pytest.skip("only its owner may read this checkout")
    done = subprocess.run(
        [*nobody, *WEFT, "run", "allgather"],
        cwd="/", env={**ENVIRONMENT, "HOME": "/nonexistent"}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "root" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--leaves", "x"],
        ["--hosts-per-leaf", "1000"],
        ["--mtu", "9000"],
        ["--rate", "0"],
        ["--fault", "leaf0-leaf1:loss=1"],
        ["--loss", "2"],
        ["--algorithm", "magic"],
        ["--out", "/proc/nowhere"],
        ["--bogus"],
    ],
)
def test_bad_options_are_one_message_and_status_2(
    arguments: list[str], tmp_path: Path, untouched: Machine
) -> None:
    done = weft("run", "allgather", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert arguments[-1].split(":")[0].lstrip("-") in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_bmv2_is_named_with_what_to_install(tmp_path: Path, untouched: Machine) -> None:
    path = os.pathsep.join(
        folder
        for folder in os.environ["PATH"].split(os.pathsep)
        if not (Path(folder) / "simple_switch_grpc").exists()
    )
    done = subprocess.run(
        [*WEFT, "run", "allgather", "--switch", "bmv2"],
        cwd=tmp_path, env={**ENVIRONMENT, "PATH": path}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "simple_switch_grpc" in done.stderr
    assert "p4lang-bmv2" in done.stderr


@pytest.mark.skipif(not _has("simple_switch_grpc"), reason="BMv2 (simple_switch_grpc) is missing")
def test_bmv2_runs_the_same_scenario(tmp_path: Path, untouched: Machine) -> None:
    document = run_json("--switch", "bmv2", "--leaves", "2", "--size", "64KiB", cwd=tmp_path)
    assert document["verified"]


def test_a_link_that_fails_for_a_while_is_survived(tmp_path: Path, untouched: Machine) -> None:
    document = run_json(
        "--leaves", "2", "--size", "1MiB", "--rate", "20Mbit",
        "--fault", "leaf0-spine0:fail,at=50ms,for=100ms", cwd=tmp_path,
    )  # fmt: skip
    assert document["verified"]
    assert sum(link["lost"] for run in document["runs"] for link in run["links"]) > 0


def test_a_link_known_to_have_failed_carries_nothing_and_a_slow_one_a_part(
    tmp_path: Path, untouched: Machine
) -> None:
    document = run_json(
        "--leaves", "2", "--algorithm", "linear", "--size", "256KiB", "--notice", "at-once",
        "--fault", "leaf0-spine1:fail,at=0ms", "--fault", "leaf1-spine0:slow,rate=0.25",
        cwd=tmp_path,
    )  # fmt: skip
    (run,) = document["runs"]
    assert run["verified"]
    links = {f"{link['from']}>{link['to']}": link for link in run["links"]}
    for name in ("leaf0>spine1", "spine1>leaf0"):
        assert links[name]["tx_packets"] == 0
    slow = links["leaf1>spine0"]
    assert slow["tx_bytes"] > 1 << 20
    # It is slow from a little before the start on; a tenth is for a machine that is held up.
    least_ns = slow["tx_bytes"] * 8e9 / (100e6 / 4)
    assert run["completion_ns"] > 0.9 * least_ns
    bins = len(slow["load_bytes"])
    assert bins == -(-run["completion_ns"] // run["load_bin_ns"])
    for name, link in links.items():
        assert len(link["load_bytes"]) == bins, name
        assert sum(link["load_bytes"]) <= link["tx_bytes"], name
    assert sum(links["h0>leaf0"]["load_bytes"]) > 0.9 * links["h0>leaf0"]["tx_bytes"]
    assert run["queues"]["fabric_up"]["max"] > 0


def test_a_rank_that_a_fault_kills_is_named(tmp_path: Path, untouched: Machine) -> None:
    done = weft(
        "run", "allgather", "--leaves", "2", "--size", "4MiB", "--rate", "20Mbit",
        "--fault", "h3:kill,at=50ms", "--algorithm", "ring", "--out", "out", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    (run,) = json.loads(done.stdout)["runs"]
    assert "rank 3 (host h3" in run["error"]
    assert "SIGKILL" in run["error"]
    assert len(run["ranks"]) == 4


def test_faults_on_single_packets_are_refused_in_the_emulated_world(tmp_path: Path) -> None:
    done = weft("run", "allgather", "--fault", "*:lose=3", cwd=tmp_path)
    assert done.returncode == 2
    assert "simulated" in done.stderr


def test_on_a_machine_that_is_kept_busy_the_verdict_is_invalid(tmp_path: Path) -> None:
    # Each is bound to its processor: while the scheduler moves one to another, that one may idle.
    # They are nice: what counts is that no processor idles, and not that the ranks wait for long.
    burn = (
        "import os, sys; os.nice(10); os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    )
    burners = [
        subprocess.Popen([sys.executable, "-c", burn, str(processor)])
        for processor in 2 * sorted(os.sched_getaffinity(0))
    ]
    try:
        document = run_json(
            "--size", "512KiB", "--algorithm", "multicast", "--timeout", "300", cwd=tmp_path
        )
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    (run,) = document["runs"]
    assert run["verified"]
    assert run["fidelity"]["verdict"] == "invalid", run["fidelity"]
    assert run["fidelity"]["reasons"]
    assert run["predicted_ns"]
