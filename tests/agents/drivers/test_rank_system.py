"""Rank processes with real sockets, in network namespaces of the test's own joined by a bridge."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.operations import gather

from weft.agents.drivers.launcher import Launcher
from weft.agents.drivers.patience import Patience
from weft.agents.drivers.rendezvous import Rendezvous, RunProgress
from weft.agents.participant import Team
from weft.agents.ranks import RankConfig, RankReport
from weft.base.errors import RunError

RATE_BPS = 100_000_000
GROUP = "239.0.0.1"
TOOLS = [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.system(alone=False),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(bool(TOOLS), reason=f"not installed: {', '.join(TOOLS)}"),
]


class Namespace:
    """A network namespace that lasts as long as a process that reads from this one."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        self.pid = self._holder.pid
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 120
        while os.readlink(f"/proc/{self.pid}/ns/net") == own:
            assert time.monotonic() < deadline, "unshare made no namespace"
            time.sleep(0.001)

    def ip(self, *commands: str) -> None:
        subprocess.run(
            ["nsenter", "-t", str(self.pid), "-n", "ip", "-batch", "-"],
            input="\n".join(commands), text=True, check=True,
        )  # fmt: skip

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


class Bridged:
    """Hosts on one bridge, each in a namespace; 10.0.0.1 and up."""

    def __init__(self, hosts: int) -> None:
        self.switch = Namespace()
        self.hosts = [Namespace() for _ in range(hosts)]
        self.addresses = [f"10.0.0.{index + 1}" for index in range(hosts)]
        self.switch.ip(
            "link add bridge type bridge mcast_snooping 0",
            *(
                f"link add port{index} mtu 9000 type veth peer name eth0 mtu 9000 netns {host.pid}"
                for index, host in enumerate(self.hosts)
            ),
            *(f"link set port{index} master bridge up" for index in range(hosts)),
            "link set bridge mtu 9000 up",
        )
        for address, host in zip(self.addresses, self.hosts, strict=True):
            host.ip(
                "link set lo up",
                f"address add {address}/24 dev eth0",
                "link set eth0 up",
                "route add 224.0.0.0/4 dev eth0",
            )

    def close(self) -> None:
        for namespace in [*self.hosts, self.switch]:
            namespace.close()


@pytest.fixture
def bridged() -> Iterator[Bridged]:
    network = Bridged(4)
    yield network
    network.close()


@contextlib.contextmanager
def ranks_on(network: Bridged, run_dir: Path) -> Iterator[tuple[Launcher, Rendezvous]]:
    names = [f"h{index}" for index in range(len(network.hosts))]
    with (
        Launcher(run_dir) as launcher,
        Rendezvous(run_dir / "meeting.sock", names, exits=launcher) as meeting,
    ):
        launcher.wait_ready()
        for rank, host in enumerate(network.hosts):
            teams = [Team(tuple(network.addresses), groups=(GROUP,))]
            config = RankConfig(rank, names[rank], teams, meeting.path, rate_bps=RATE_BPS)
            launcher.spawn(config, namespace=host.pid)
        meeting.gather()
        yield launcher, meeting


def team_of(network: Bridged) -> list[Team]:
    """The first two hosts, as a team."""
    return [Team(tuple(network.addresses[:2]), groups=(GROUP,))]


def slowest(results: list[RankReport]) -> float:
    for result in results:
        assert result.verified, result.error
    return max(result.completion_ns for result in results) / 1e9


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def gone(pids: list[int], seconds: float = 120.0) -> bool:
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_four_ranks_gather_with_both_algorithms(bridged: Bridged, tmp_path: Path) -> None:
    with ranks_on(bridged, tmp_path) as (_, meeting):
        for shard in (1 << 20, 0, 12345):
            for request in (
                gather("multicast", shard),
                gather("multicast", shard, own={"chains": 2}),
                gather("multicast", shard, own={"cutoff": "fetch-only"}),
                gather("ring", shard),
            ):
                progress: list[RunProgress] = []
                results = meeting.run(request, progress.append)
                bound = 3 * shard * 8 / RATE_BPS
                print(
                    f"{request.request}: "
                    f"{slowest(results) * 1e3:.2f} ms, bound {bound * 1e3:.2f} ms, "
                    f"{results[0].phases_ns}, cpu {[r.cpu_ns // 1000 for r in results]} us, "
                    f"lateness {results[0].wake_lateness_ns}"
                )
                assert progress[-1].fraction == 1.0
                assert all(result.received_bytes == 3 * shard for result in results)
                assert all(result.cpu_ns > 0 for result in results)


def test_a_killed_rank_is_named_and_nothing_is_left(bridged: Bridged, tmp_path: Path) -> None:
    with ranks_on(bridged, tmp_path) as (launcher, meeting):
        pids = list(meeting.pids.values())

        def kill(progress: RunProgress) -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(meeting.pids[2], signal.SIGKILL)

        with pytest.raises(RunError, match=r"rank 2 \(host h2, pid \d+\).*SIGKILL.*Allgather by"):
            meeting.run(gather("ring", 8 << 20), kill)
        launcher_pid = launcher.pid
    assert gone([*pids, launcher_pid])
    assert not Path(meeting.path).exists()


def test_a_link_that_is_down_fails_every_rank(bridged: Bridged, tmp_path: Path) -> None:
    for algorithm in ("ring", "multicast"):
        with ranks_on(bridged, tmp_path) as (_, meeting):
            bridged.switch.ip("link set port1 down")
            results = meeting.run(gather(algorithm, 1 << 20))
            bridged.switch.ip("link set port1 up")
        for result in results:
            assert not result.verified
            assert result.rank == 1 or "rank 1 (10.0.0.2)" in result.error


def test_the_end_of_the_launcher_ends_its_ranks(bridged: Bridged, tmp_path: Path) -> None:
    with ranks_on(bridged, tmp_path) as (launcher, meeting):
        pids = list(meeting.pids.values())
        os.kill(launcher.pid, signal.SIGKILL)
        assert gone(pids)
        with pytest.raises(RunError, match=r"launcher of .* was killed by signal 9 \(SIGKILL\)"):
            meeting.run(gather("ring", 1))


RUNNER = """
import sys, time
from pathlib import Path
from weft.agents.drivers.launcher import Launcher
from weft.agents.ranks import RankConfig
from weft.agents.drivers.rendezvous import Rendezvous
from weft.agents.participant import Team
from weft.agents.participant import Team

run_dir = Path(sys.argv[1])
launcher = Launcher(run_dir)
meeting = Rendezvous(run_dir / "meeting.sock", ["h0", "h1"], exits=launcher)
for rank in (0, 1):
    teams = [Team(("10.0.0.1", "10.0.0.2"), groups=("239.0.0.1",))]
    config = RankConfig(rank, f"h{rank}", teams, meeting.path)
    launcher.spawn(config, namespace=int(sys.argv[2 + rank]))
launcher.wait_ready()
meeting.gather()
print(launcher.pid, *meeting.pids.values(), flush=True)
time.sleep(600)
"""


def test_the_end_of_the_runner_ends_launcher_and_ranks(bridged: Bridged, tmp_path: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path), *(str(host.pid) for host in bridged.hosts)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert runner.stdout is not None
    pids = [int(pid) for pid in runner.stdout.readline().split()]
    assert len(pids) == 3 and all(alive(pid) for pid in pids)
    runner.kill()
    runner.communicate()
    assert gone(pids)


def test_ranks_come_anew_on_the_same_hosts(bridged: Bridged, tmp_path: Path) -> None:
    with Launcher(tmp_path) as launcher:
        for repetition in range(5):
            path = tmp_path / f"{repetition}.sock"
            with Rendezvous(path, ["h0", "h1"], exits=launcher) as meeting:
                for rank in (0, 1):
                    config = RankConfig(rank, f"h{rank}", team_of(bridged), meeting.path)
                    launcher.spawn(config, namespace=bridged.hosts[rank].pid)
                meeting.gather()
                slowest(meeting.run(gather("multicast", 5000)))
                pids = list(meeting.pids.values())
            assert gone(pids)


def test_the_last_words_of_the_launcher_are_in_the_message(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "launcher.log").write_text("there is no memory left\n")
    with Launcher(run_dir) as launcher:
        os.kill(launcher.pid, signal.SIGTERM)
        with pytest.raises(RunError, match=r"(?s)killed by signal 15 \(SIGTERM\).*no memory left"):
            launcher.wait_ready()


def test_a_rank_that_was_stopped_is_out_of_the_way_of_the_next(
    bridged: Bridged, tmp_path: Path
) -> None:
    with Launcher(tmp_path) as launcher:
        launcher.end_all()  # there are none
        for repetition in range(2):
            path = tmp_path / f"{repetition}.sock"
            with Rendezvous(path, ["h0", "h1"], exits=launcher) as meeting:
                for rank in (0, 1):
                    config = RankConfig(rank, f"h{rank}", team_of(bridged), meeting.path)
                    launcher.spawn(config, namespace=bridged.hosts[rank].pid)
                meeting.gather()
                slowest(meeting.run(gather("multicast", 5000)))
                pids = meeting.pids
                os.kill(pids[1], signal.SIGSTOP)
            assert alive(pids[1])
            launcher.end_all()
            assert not Path(f"/proc/{pids[1]}").exists()
            assert launcher.exited[1].status == -signal.SIGKILL


def test_a_rank_says_that_it_goes_on_while_it_fills_and_verifies(
    bridged: Bridged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[int] = []
    before = Patience.reported

    def report(patience: Patience, process: int, what: str, how_far: int) -> None:
        if what == "slices":
            reported.append(how_far)
        before(patience, process, what, how_far)

    monkeypatch.setattr(Patience, "reported", report)
    path = tmp_path / "meeting.sock"
    with Launcher(tmp_path) as launcher, Rendezvous(path, ["h0"], exits=launcher) as meeting:
        teams = [Team((team_of(bridged)[0].addresses[0],), groups=(GROUP,))]
        launcher.spawn(RankConfig(0, "h0", teams, meeting.path), namespace=bridged.hosts[0].pid)
        launcher.wait_ready()
        meeting.gather()
        slowest(meeting.run(gather("ring", 512 << 20)))
    assert len(reported) >= 2 and reported == sorted(set(reported))
    assert reported[-1] > 512, "of verifying, too"


def test_a_namespace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        Launcher(tmp_path) as launcher,
        Rendezvous(tmp_path / "meeting.sock", ["h0"], exits=launcher) as meeting,
    ):
        config = RankConfig(0, "h0", [Team(("10.0.0.1",), groups=(GROUP,))], meeting.path)
        launcher.spawn(config, namespace="/proc/1/ns/nothing")
        with pytest.raises(RunError, match=r"(?s)rank 0 \(host h0\).*/proc/1/ns/nothing"):
            meeting.gather()


def test_sixteen_ranks_are_forked_and_gather(tmp_path: Path) -> None:
    network = Bridged(16)
    try:
        with ranks_on(network, tmp_path) as (_, meeting):
            assert len(set(meeting.pids.values())) == 16
            slowest(meeting.run(gather("multicast", 10_000)))
    finally:
        network.close()
