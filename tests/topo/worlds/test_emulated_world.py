"""The emulated world brought up for real, with switches that do nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import grpc
import pytest
from tests.support.emulated_support import (
    host_counters,
    inside,
    is_alive,
    machine_interfaces,
    needs_machine,
    outer_pid,
    quiet_world,
    run_folders,
    switch_counters,
    wait_until,
)

from weft.base.cache import CHECKOUT
from weft.base.errors import InputError, MachineError, RunError
from weft.switch.messages import p4runtime_pb2, stub_of
from weft.topo.addresses import format_mac
from weft.topo.clos import Topology, leaf_spine, single
from weft.topo.interfaces import host_burst_bytes
from weft.topo.worlds.emulated import captures
from weft.topo.worlds.emulated.namespaces import in_namespace
from weft.topo.worlds.emulated.pid_namespace import PidNamespace
from weft.topo.worlds.emulated.processes import RunProcess
from weft.topo.worlds.emulated.runs import RUNS, read_record
from weft.topo.worlds.emulated.world import EmulatedWorld

pytestmark = [needs_machine, pytest.mark.system]


class _InterfaceWatch:
    """Listens for new interfaces in the machine's own namespace, however short-lived."""

    RTMGRP_LINK = 1
    IFLA_IFNAME = 3

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, self.RTMGRP_LINK))
        self._socket.setblocking(False)

    def names(self) -> set[str]:
        """The interfaces of which there was news."""
        found: set[str] = set()
        with self._socket:
            while True:
                try:
                    message = self._socket.recv(65536)
                except BlockingIOError:
                    return found
                place = 32  # struct nlmsghdr and struct ifinfomsg, and then attributes
                while place + 4 <= len(message):
                    length, kind = struct.unpack_from("=HH", message, place)
                    if kind == self.IFLA_IFNAME:
                        found.add(message[place + 4 : place + length].rstrip(b"\0").decode())
                    place += max(length + 3 & ~3, 4)


def test_nothing_of_a_world_ever_appears_in_the_machines_own_namespace() -> None:
    before = machine_interfaces()
    watch = _InterfaceWatch()
    with quiet_world(leaf_spine(2, 2, 2)) as world:
        assert machine_interfaces() <= before
        pids = [world.namespace_pid, *(world.host_pid(rank) for rank in range(4))]
        namespaces = {os.stat(f"/proc/{pid}/ns/net").st_ino for pid in pids}
        assert len(namespaces - {os.stat("/proc/self/ns/net").st_ino}) == 5
        switch = world.switch_processes[0].pid
        assert os.stat(f"/proc/{switch}/ns/net").st_ino in namespaces
        folder = world.record.folder
    assert watch.names() <= before
    assert machine_interfaces() <= before
    assert not folder.exists()
    assert not any(map(is_alive, pids))


def test_hosts_and_switch_ends_are_as_the_topology_says() -> None:
    network = leaf_spine(2, 1, 2)
    with quiet_world(network) as world:
        host = network.host(3)
        shown = inside(world.host_pid(3), "ip", "addr", "show", "dev", "h3-eth0")
        assert f"inet {host.ip}/24" in shown and format_mac(host.mac) in shown
        assert "mtu 9000" in shown and "inet6" not in shown
        route = inside(world.host_pid(3), "ip", "route", "get", "10.0.1.1")
        assert "via 10.0.1.254" in route
        multicast = inside(world.host_pid(3), "ip", "route", "get", "239.0.0.1")
        assert "dev h3-eth0" in multicast and f"src {host.ip}" in multicast
        ends = inside(world.namespace_pid, "ls", "/sys/class/net")
        assert set(ends.split()) - {"lo"} == {
            *("leaf0-eth1", "leaf0-eth2", "leaf0-eth3"),
            *("leaf1-eth1", "leaf1-eth2", "leaf1-eth3"),
            *("spine0-eth1", "spine0-eth2"),
        }
        assert world.mininet["h3"].IP() == host.ip
        assert "leaf0-eth1" in world.mininet["leaf0"].cmd("ip -br link")
        assert world.switch_statistics() == {"switches": 3}


def test_what_a_host_sends_arrives_at_its_leaf_and_is_counted_there() -> None:
    with quiet_world(single(2)) as world:

        def send() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                for destination in ("10.0.0.2", "239.0.0.1", "10.9.9.9"):
                    udp.sendto(bytes(4096), (destination, 4791))

        in_namespace(world.host_pid(0), send)
        wait_until(lambda: host_counters(world, 0)["tx_packets"] == 3, "three packets sent")
        assert host_counters(world, 0)["tx_bytes"] == 3 * (4096 + 42)
        assert switch_counters(world)["leaf0", 1]["rx_packets"] == 3
        assert switch_counters(world)["leaf0", 2]["rx_packets"] == 0


def test_a_host_sends_at_its_links_rate_and_its_socket_waits() -> None:
    rate_bps = 50_000_000
    with quiet_world(single(1, rate_bps=rate_bps)) as world:
        packets = 600
        started = time.monotonic()

        def send() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                for _ in range(packets):
                    udp.sendto(bytes(4096), ("10.0.0.2", 4791))

        in_namespace(world.host_pid(0), send)
        wait_until(lambda: host_counters(world, 0)["tx_packets"] == packets, "all packets sent")
        took_s = time.monotonic() - started
        assert world.host_queue_drops() == {"h0": 0}
        at_once_bytes = host_burst_bytes(rate_bps, world.link_mtu) + 10_000
        assert took_s >= (packets * 4138 - at_once_bytes) * 8 / rate_bps
        question = ("tc", "-json", "qdisc", "show", "dev", "h0-eth0")
        (shaper,) = json.loads(inside(world.host_pid(0), *question))
        assert (shaper["kind"], shaper["options"]["rate"]) == ("tbf", rate_bps // 8)


def test_the_built_in_switch_answers_p4runtime_and_gives_its_statistics() -> None:
    with EmulatedWorld(leaf_spine(2, 1, 1)) as world:
        for address in world.switch_addresses.values():
            with grpc.insecure_channel(address) as channel:
                stub = stub_of(channel)
                stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=60)
        world.reset_lateness()
        switches = world.switch_statistics()["switches"]
        assert [switch["name"] for switch in switches] == ["leaf0", "leaf1", "spine0"]
        assert [port["interface"] for port in switches[2]["ports"]] == [
            "spine0-eth1",
            "spine0-eth2",
        ]
        process = world.switch_processes[0].pid
    assert not is_alive(process)


def test_two_worlds_stand_side_by_side() -> None:
    with quiet_world(single(2)) as one, quiet_world(single(2)) as other:
        assert one.record.id != other.record.id
        assert one.record.folder.is_dir() and other.record.folder.is_dir()
        assert host_counters(one, 0) == host_counters(other, 0)
        first, second = one.namespace_pid, other.namespace_pid
        assert os.stat(f"/proc/{first}/ns/net").st_ino != os.stat(f"/proc/{second}/ns/net").st_ino


def test_a_dead_switch_process_is_named() -> None:
    with quiet_world(single(2)) as world:
        world.check_alive()
        process = world.switch_processes[0]
        os.kill(process.pid, signal.SIGKILL)
        process.popen.wait()
        with pytest.raises(RunError, match=r"the switch process .*killed by signal 9 \(SIGKILL\)"):
            world.check_alive()
        with pytest.raises(RunError, match="the switch process"):
            world.switch_statistics()


def test_what_fails_for_want_of_a_dead_process_is_said_of_that_process() -> None:
    with quiet_world(single(2)) as world:
        with pytest.raises(RunError, match=r"^something else$"), world.blaming_the_dead():
            raise RunError("something else")
        killed = pytest.raises(RunError, match=r"the switch process .*SIGKILL")
        with killed, world.blaming_the_dead():
            os.kill(world.switch_processes[0].pid, signal.SIGKILL)
            raise RunError("Socket closed")  # before the process can have been waited for


def has_no_namespace(pid: int) -> bool:
    """Whether a process holds no network namespace any more: one that is ending may, for a while
    that is longer on a busy machine."""
    return not os.path.exists(f"/proc/{pid}/ns/net")


def test_a_dead_host_shell_is_named() -> None:
    with quiet_world(single(2)) as world:
        os.kill(world.host_pid(1), signal.SIGKILL)
        wait_until(lambda: has_no_namespace(world.host_pid(1)), "the shell ends")
        with pytest.raises(RunError, match=r"of h1 \(pid \d+\) was killed by signal 9 \(SIGKILL\)"):
            world.check_alive()


def test_a_switch_process_that_fails_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAND_IN", "fail")
    before = run_folders()
    with pytest.raises(RunError, match=r"(?s)status 1 before it was ready.*leaf0-eth9 is not"):
        quiet_world(single(2)).__enter__()
    assert run_folders() <= before


@pytest.mark.parametrize("name", ["h1", "switches"])
def test_a_shell_that_dies_during_bring_up_is_blamed_and_not_the_switch(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "fail")
    tell = RunProcess.tell

    def kill_and_tell(self: RunProcess, line: str) -> None:
        _, processes = read_record(self.log.parent)
        [shell] = [process for process in processes if process.what == f"shell of {name}"]
        os.kill(shell.pid, signal.SIGKILL)
        wait_until(lambda: has_no_namespace(shell.pid), "the shell ends")
        tell(self, line)

    monkeypatch.setattr(RunProcess, "tell", kill_and_tell)
    before = run_folders()
    with pytest.raises(RunError, match=f"the shell that holds the namespace of {name} "):
        quiet_world(single(2)).__enter__()
    assert run_folders() <= before


def test_a_switch_process_that_never_is_ready_ends_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "mute")
    world = EmulatedWorld(  # which is not asked to end its captures, either
        single(2), switch_module="tests.support.stand_in_switch", ready_limit_s=0.5, links="patch",
        pcap_dir=tmp_path,
    )  # fmt: skip
    with pytest.raises(RunError, match=r"was not ready after 0\.5 s"):
        world.__enter__()


def test_a_switch_process_that_hangs_up_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "hang-up")
    with (
        quiet_world(single(2)) as world,
        pytest.raises(
            RunError,
            match=r"the switch process \(pid \d+\) runs and does not answer 'statistics' at ",
        ),
    ):
        world.switch_statistics()


def test_an_exception_within_the_block_takes_the_world_down() -> None:
    before = run_folders()
    with pytest.raises(KeyboardInterrupt), quiet_world(single(2)) as world:
        pids = [world.host_pid(0), world.namespace_pid, world.switch_processes[0].pid]
        raise KeyboardInterrupt
    assert not any(map(is_alive, pids))
    assert run_folders() <= before


def left_running(world: EmulatedWorld, node: str, command: str) -> int:
    """The process id of a command that a node's shell has been left with."""
    said = world.mininet[node].cmd(f"{command} > /dev/null & echo pid=$!")
    return outer_pid(int(said.rpartition("pid=")[2].split()[0]), world.namespace_pid)


@pytest.mark.parametrize("node", ["h0", "leaf0"])
def test_commands_that_a_user_left_running_end_with_the_world(node: str) -> None:
    with quiet_world(single(2)) as world:
        sleepers = [
            left_running(world, node, "setsid sleep 1000"),
            left_running(world, node, "env -i setsid sleep 1000"),  # nothing tells whose it is
        ]
        assert all(map(is_alive, sleepers))
    assert not any(map(is_alive, sleepers))


def test_where_the_kernel_makes_no_pid_namespace_commands_end_by_their_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(environment: Mapping[str, str], names: Path | None) -> None:
        raise MachineError("none here")

    monkeypatch.setattr(PidNamespace, "make", refused)
    with quiet_world(single(2)) as world:
        assert os.stat(f"/proc/{world.host_pid(0)}/ns/pid") == os.stat("/proc/self/ns/pid")
        sleeper = left_running(world, "h0", "setsid sleep 1000")
        comm = Path(f"/proc/{sleeper}/comm")  # no environment is seen while a command is loaded
        wait_until(lambda: comm.read_text() == "sleep\n", "the command has a session of its own")
    assert not is_alive(sleeper)


def test_a_fork_into_a_pid_namespace_that_has_ended_is_told_so() -> None:
    namespace = PidNamespace.make(os.environ)
    os.kill(namespace.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(namespace.pid), "it ends")
    words = rf"init of the run's PID namespace \(pid {namespace.pid}\) was killed by signal 9"
    with pytest.raises(RunError, match=words):
        namespace.start(lambda: subprocess.Popen(["true"]))
    namespace.end()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CLONE_NEWPID", 1, "makes no PID namespace here: .*Invalid argument"),
        ("_INIT", ("sh", "-c", "echo mount /proc failed >&2; exit 1"), "mount /proc failed"),
        ("_INIT", ("sh", "-c", "exit 3"), "ended with status 3"),
        ("_INIT", ("no-such-command",), "no-such-command"),
    ],
)
def test_a_pid_namespace_that_cannot_be_had_is_told_with_the_reason(
    name: str, value: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"weft.topo.worlds.emulated.pid_namespace.{name}", value)
    own = os.stat("/proc/thread-self/ns/pid_for_children").st_ino
    with pytest.raises(MachineError, match=words):
        PidNamespace.make(os.environ)
    assert os.stat("/proc/thread-self/ns/pid_for_children").st_ino == own


IN_A_USER_NAMESPACE = """
import os, subprocess
from weft.base.errors import MachineError
from weft.topo.worlds.emulated.pid_namespace import PidNamespace

try:
    PidNamespace.make(os.environ)
except MachineError as error:
    print(error)
print(subprocess.run(["echo", "still forks"], capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif(
    subprocess.run(["unshare", "-U", "-r", "true"], capture_output=True).returncode != 0,
    reason="needs user namespaces",
)
def test_who_could_not_come_back_from_a_pid_namespace_makes_none_and_forks_as_before() -> None:
    said = subprocess.run(
        ["unshare", "-U", "-r", sys.executable, "-c", IN_A_USER_NAMESPACE],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "setns of a PID namespace: Operation not permitted" in said and "still forks" in said


def test_nodes_see_the_processes_of_their_run_and_no_others() -> None:
    with quiet_world(single(2)) as world:
        for node in ("h0", "leaf0"):
            said = world.mininet[node].cmd("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo me=$$")
            assert "weft:h0" in said and "weft:h1" in said and "stand_in_switch" in said
            assert "pytest" not in said
        world.mininet["h0"].cmd("kill -KILL 1")  # which the kernel lets nobody inside
        assert world.mininet["h0"].popen("true").wait() == 0
        world.check_alive()


def test_hosts_ask_no_name_server_and_the_machine_keeps_its_own() -> None:
    """One that could not be reached would let every program that looks an address up wait."""
    own = Path("/etc/resolv.conf")
    before = own.read_text() if own.exists() else None
    look_up = [
        *("env", "RES_OPTIONS=timeout:30 attempts:1"), sys.executable, "-c",
        "import socket, time; before = time.monotonic(); socket.getfqdn('10.9.8.7'); "
        "assert time.monotonic() - before < 20",
    ]  # fmt: skip
    with quiet_world(single(2)) as world:
        host = world.mininet["h0"]
        assert host.cmd("cat /etc/resolv.conf").replace("\r", "") == ""
        assert host.popen(look_up).wait() == 0
    assert (own.read_text() if own.exists() else None) == before


def test_a_dead_init_is_named_and_takes_everything_along() -> None:
    with quiet_world(single(2)) as world:
        sleeper = left_running(world, "h0", "env -i setsid sleep 1000")
        namespace = world.record.pid_namespace
        assert namespace is not None  # or a kernel without them runs this test
        os.kill(namespace.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(sleeper), "everything ends")
        words = r"init of the run's PID namespace \(pid \d+\) was killed by signal 9 \(SIGKILL\)"
        with pytest.raises(RunError, match=words):
            world.check_alive()
        with pytest.raises(RunError, match=words):
            world.mininet["h0"].popen("true")


def test_captures_hold_every_packet_in_full_with_nanoseconds(tmp_path: Path) -> None:
    packets = 300
    with quiet_world(leaf_spine(1, 1, 1, rate_bps=10**9), pcap_dir=tmp_path / "pcap") as world:

        def send() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                for _ in range(packets):
                    udp.sendto(bytes(4096), ("10.0.0.2", 4791))

        in_namespace(world.host_pid(0), send)
        wait_until(lambda: host_counters(world, 0)["tx_packets"] == packets, "all packets sent")
    assert sorted(path.name for path in (tmp_path / "pcap").iterdir()) == [
        "h0-leaf0.pcap",
        "leaf0-h0.pcap",
        "leaf0-spine0.pcap",
        "spine0-leaf0.pcap",
    ]
    held = {result.path.name: (result.packets, result.lost) for result in world.captured}
    assert held["h0-leaf0.pcap"] == held["leaf0-h0.pcap"] == (packets, 0)
    assert held["leaf0-spine0.pcap"] == (0, 0)
    data = (tmp_path / "pcap" / "leaf0-h0.pcap").read_bytes()
    assert data[:4] == b"\x4d\x3c\xb2\xa1"  # nanosecond stamps, little endian
    assert len(data) == 24 + packets * (16 + 4096 + 42)


def test_a_tcpdump_that_somebody_has_stopped_goes_on_and_its_capture_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "DRAIN_DEADLINE_S", 60.0)
    with quiet_world(single(2), pcap_dir=tmp_path) as world:
        stopped = captures_of(world).processes[0]
        stopped.popen.send_signal(signal.SIGSTOP)
        before = time.monotonic()
    assert time.monotonic() - before < captures.DRAIN_DEADLINE_S
    assert [result.doubt for result in world.captured] == [""] * 4


def test_a_tcpdump_that_does_not_end_is_waited_for_some_seconds_and_its_capture_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "_wake", lambda processes: None)
    monkeypatch.setattr(captures, "DRAIN_DEADLINE_S", 1.0)
    monkeypatch.setattr(captures, "END_DEADLINE_S", 1.0)
    with quiet_world(single(2), pcap_dir=tmp_path) as world:
        captures_of(world).processes[0].popen.send_signal(signal.SIGSTOP)
    first, *others = [result.doubt for result in world.captured]
    assert first == (
        "the capture at h0 towards leaf0 is not whole: its tcpdump did not end when it was told "
        "to, and was killed; the file has 0 packets"
    )
    assert others == [""] * 3


def captures_of(world: EmulatedWorld) -> captures.LinkCaptures:
    found = world._captures
    assert found is not None
    return found


def test_a_folder_that_cannot_be_made_for_captures_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="captures cannot go to"):
        quiet_world(single(2), pcap_dir=tmp_path / "file" / "pcap").__enter__()


def test_sixteen_hosts_on_eight_switches_come_up() -> None:
    network: Topology = leaf_spine(4, 4, 4)
    with quiet_world(network) as world:
        world.check_alive()
        assert len(world.switch_addresses) == 8


def test_work_in_a_namespace_leaves_the_caller_where_it_was() -> None:
    own = os.stat("/proc/thread-self/ns/net").st_ino
    with quiet_world(single(1)) as world:
        there = in_namespace(world.host_pid(0), lambda: os.stat("/proc/thread-self/ns/net").st_ino)
        assert there == os.stat(f"/proc/{world.host_pid(0)}/ns/net").st_ino != own
        with pytest.raises(ZeroDivisionError):
            in_namespace(world.host_pid(0), lambda: 1 // 0)
    assert os.stat("/proc/thread-self/ns/net").st_ino == own


def test_the_machines_limits_stay_as_they_are() -> None:
    names = ("net.core.rmem_max", "net.core.netdev_max_backlog", "fs.file-max", "kernel.pty.max")
    paths = [Path("/proc/sys", *name.split(".")) for name in names]
    before = [path.read_text() for path in paths]
    with quiet_world(single(1)):
        assert [path.read_text() for path in paths] == before


def test_a_world_may_be_entered_from_a_thread() -> None:
    seen: list[int] = []

    def play() -> None:
        with quiet_world(single(1)) as world:
            world.check_alive()
            seen.append(world.host_pid(0))

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert seen and not is_alive(seen[0])


def test_runs_are_kept_in_one_place() -> None:
    with quiet_world(single(1)) as world:
        assert world.record.folder.parent == RUNS
        assert world.switch_addresses == {"leaf0": f"unix:{world.record.folder}/leaf0.sock"}
        listing = subprocess.run(
            ["ip", "netns", "list"], capture_output=True, text=True, check=True
        ).stdout
        assert world.record.id not in listing


def test_links_go_down_and_come_back_and_patched_ones_have_no_interfaces() -> None:
    with quiet_world(leaf_spine(1, 1, 1), links="patch") as world:
        assert set(switch_counters(world)) == {("leaf0", 1)}

        def carrier() -> bool:
            shown = subprocess.run(
                ["ip", "link", "show", "dev", "h0-eth0"], capture_output=True, text=True, check=True
            )
            return "NO-CARRIER" not in shown.stdout

        world.set_link("leaf0", "h0", up=False)
        wait_until(lambda: not in_namespace(world.host_pid(0), carrier), "the link is down")
        world.set_link("h0", "leaf0", up=True)
        wait_until(lambda: in_namespace(world.host_pid(0), carrier), "the link is back")
        world.set_link("leaf0", "spine0", up=False)
        with pytest.raises(InputError, match="no link from h0 to spine0"):
            world.set_link("h0", "spine0", up=False)
