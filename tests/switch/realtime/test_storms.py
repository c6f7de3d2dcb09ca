"""Packets that multiply or go round without end: the switch runs on, simulations say so and end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.p4runtime_support import DELETE, INSERT, BareClient, Files, Refused, compiled
from tests.support.realtime_support import collect, needs_namespaces

from weft.base.cache import CHECKOUT
from weft.base.errors import RunError
from weft.switch.engine.control.entities import CloneSession, MulticastGroup, PacketIn, Replica
from weft.switch.engine.control.errors import TableFull
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.dataplane import layout, pipeline, pool, queues
from weft.switch.engine.dataplane.events import advance, begin_turn
from weft.switch.engine.program.amounts import MOST_REPLICAS, MOST_REPLICAS_IN_ALL
from weft.switch.engine.switches import MOST_PASSES, Dataplane, Queue
from weft.switch.p4runtime.server import serve
from weft.switch.realtime.config import config_of
from weft.switch.realtime.process import SwitchProcess
from weft.switch.realtime.statistics import StatisticsSocket
from weft.topo.clos import single
from weft.topo.worlds.simulated.fabric import Fabric

STORMS = CHECKOUT / "tests" / "programs" / "storms.p4"
FORWARD, MULTICAST, INGRESS_CLONE, EGRESS_CLONE, RESUBMIT, RECIRCULATE, BOTH, LOST = range(8)
PORT, CLONES_PORT, CPU_PORT = 2, 4, 5
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def files() -> Files:
    return compiled(STORMS)


def order(kind: int, port: int = PORT) -> bytes:
    return bytes([kind, port]) + b"x" * 58


def load(control: SwitchControl, files: Files) -> SwitchControl:
    """The program, a group of two replicas, and sessions of one and of a thousand."""
    control.load_program(files.json.read_text("utf-8"), load="save")
    control.commit_program()
    control.insert_replication(MulticastGroup(1, (Replica(PORT), Replica(3))))
    control.insert_replication(CloneSession(1, (Replica(CLONES_PORT),)))
    thousand = tuple(Replica(i % 4, i) for i in range(1000))
    control.insert_replication(CloneSession(2, thousand))
    control.publish()
    return control


def plain_switch(files: Files) -> tuple[Dataplane, SwitchControl]:
    """A switch; its name and its tables are its control's, which is to be kept."""
    dataplane = Dataplane(1, 8, plain=True)
    for port in range(8):
        dataplane.set_port(0, port, Queue())
    return dataplane, load(dataplane.control(0, "leaf0"), files)


@pytest.mark.parametrize("kind", [MULTICAST, INGRESS_CLONE, BOTH, LOST])
def test_a_storm_is_an_error_that_names_the_switch(files: Files, kind: int) -> None:
    dataplane, _control = plain_switch(files)
    with pytest.raises(RunError, match=r"switch 'leaf0': \d+ passes .* at 7 ns, and no end"):
        dataplane.receive(0, 1, [order(kind)], 7)
    assert dataplane.context.passes < 3 * MOST_PASSES + 256 * 1000


@pytest.mark.parametrize("kind", [RESUBMIT, RECIRCULATE])
def test_one_packet_is_dropped_after_so_many_repeats(files: Files, kind: int) -> None:
    dataplane, _control = plain_switch(files)
    dataplane.receive(0, 1, [order(kind), order(FORWARD)], 7)
    assert [departure.frame for departure in dataplane.transmit(7)] == [order(FORWARD)]
    assert dataplane.switches[0].drops[layout.DROPS_REPEATS] == 1


def test_in_a_storm_other_ports_have_their_turn(files: Files) -> None:
    """In turns of any length: after some of them each frame that came in has left."""
    for kind in (MULTICAST, INGRESS_CLONE, EGRESS_CLONE, LOST):
        dataplane, _control = plain_switch(files)
        context = dataplane.context
        context.reserve = 64
        left: list[bytes] = []
        for now_ns in range(0, 4000, 100):
            begin_turn(context, 100)
            for port, frame in ((1, order(kind)), (6, order(FORWARD, 7))):
                if now_ns < 2000 and (kind != LOST or now_ns == 0 or port == 6):
                    pipeline.receive_frame(context, 0, port, np.frombuffer(frame, np.uint8), now_ns)
            advance(context, now_ns)
            left += _departures(dataplane)
        assert dataplane.deadline() is not None
        assert left.count(order(FORWARD, 7)) == 20


def _departures(dataplane: Dataplane) -> list[bytes]:
    frames = []
    while (packet := queues.take_departure(dataplane.context)) != layout.NONE:
        length = pipeline.copy_frame(dataplane.context, packet, dataplane._frame)
        frames.append(dataplane._frame[:length].tobytes())
        pool.release(dataplane.context, packet)
    return frames


@pytest.mark.parametrize("kind", [MULTICAST, EGRESS_CLONE])
def test_a_packet_test_says_so_and_ends(tmp_path: Path, kind: int) -> None:
    (tmp_path / "storm.stf").write_text(
        "mc_mgrp_create 1\nmc_node_create 0 2 3\nmc_node_associate 1 0\nmirroring_add 1 4\n"
        f"packet 1 {order(kind).hex()}\npacket 1 {order(kind).hex()}\nexpect 2 00\n"
    )
    command = [sys.executable, "-m", "weft", "stf", str(STORMS), str(tmp_path / "storm.stf")]
    done = subprocess.run(command, cwd=CHECKOUT, text=True, capture_output=True, check=False)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "storm.stf:5" in said and "multipl" in said
    assert said.count("the switch failed on this packet") == 1


def test_the_simulated_world_says_so_and_ends(files: Files) -> None:
    fabric = Fabric(single(2), host_queue_bytes=1 << 20)
    fabric.dataplane.programs.plain = True
    control = fabric.dataplane.control(0, "leaf0")
    control.load_program(files.json.read_text("utf-8"), load="save")
    control.commit_program()
    control.insert_replication(MulticastGroup(1, (Replica(0), Replica(1))))
    control.publish()
    for kind in (FORWARD, MULTICAST):
        fabric.inject(("h0", "leaf0"), order(kind, 1))
    with pytest.raises(RunError, match=r"switch 'leaf0': .* passes"):
        fabric.run(stop_ns=1_000_000_000)


def ask(path: Path) -> dict[str, object]:
    """The statistics of a process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(DEADLINE_S)
        client.connect(str(path))
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    found: dict[str, object] = json.loads(answer)
    return found


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_in_a_storm_the_process_answers_and_its_other_switches_forward(
    files: Files, tmp_path: Path
) -> None:
    names = ("leaf0", "leaf1")
    switches = [
        {"name": name, "device_id": 1 + i, "address": "", "ports": [], "cpu_port": CPU_PORT}
        for i, name in enumerate(names)
    ]
    process = SwitchProcess(config_of({"switches": switches, "buffers": 256}, "the test"))
    process.dataplane.programs.plain = True
    process.start()
    storming, calm = process.controls
    server = serve(storming, 1, f"unix:{tmp_path}/leaf0.sock")
    statistics = StatisticsSocket(process, str(tmp_path / "statistics.sock"))
    client = BareClient(server.address, 1, 1)
    group = "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 "
    session = "packet_replication_engine_entry { clone_session_entry { session_id: 1 "
    entries = {
        MULTICAST: (f"{group} replicas {{ egress_port: 2 }} replicas {{ egress_port: 3 }} }} }}"),
        INGRESS_CLONE: f"{session} replicas {{ egress_port: 2 }} }} }}",
        LOST: f"{session} replicas {{ egress_port: {CPU_PORT} }} }} }}",
    }

    def goes_on() -> bool:
        counts = []
        for _ in range(2):
            process.at_once(lambda: counts.append(int(process.dataplane.context.passes)))
        return counts[0] < counts[1]

    try:
        client.arbitrate()
        client.push(files)
        load(calm, files)
        told = threading.Event()
        calm.set_listener(told.set)
        for kind, entry in entries.items():
            client.write((INSERT, entry))
            storming.packet_out(order(kind, CPU_PORT))
            until(goes_on)
            with pytest.raises(Refused, match="ALREADY_EXISTS"):
                client.write((INSERT, entry))
            assert isinstance(ask(tmp_path / "statistics.sock")["no_buffer_drops"], int)
            calm.packet_out(order(FORWARD, CPU_PORT))
            (event,) = collect(calm, told, bool)
            assert isinstance(event, PacketIn)
            assert goes_on()
            client.write((DELETE, entry))
            until(lambda: not goes_on())
    finally:
        client.close()
        statistics.close()
        server.stop()
        process.stop()
    assert process.failure is None


def test_groups_are_bounded(files: Files) -> None:
    dataplane, control = plain_switch(files)
    most = tuple(Replica(i % 8, i // 8) for i in range(MOST_REPLICAS))
    with pytest.raises(TableFull, match=f"{MOST_REPLICAS + 1} replicas: at most {MOST_REPLICAS}"):
        control.insert_replication(MulticastGroup(2, (*most, Replica(8, 9))))
    control.insert_replication(MulticastGroup(2, most))
    control.modify_replication(MulticastGroup(1, most))
    control.publish()
    dataplane.receive(0, 1, [order(FORWARD)], 7)
    groups = MOST_REPLICAS_IN_ALL // MOST_REPLICAS
    with pytest.raises(TableFull, match=f"at most {MOST_REPLICAS_IN_ALL}"):
        for group in range(3, groups + 3):
            control.insert_replication(MulticastGroup(group, most))
    control.delete_replication(MulticastGroup, 3)
    control.insert_replication(CloneSession(7, most))
    with pytest.raises(TableFull, match=f"at most {MOST_REPLICAS_IN_ALL}"):
        control.insert_replication(CloneSession(8, most))


@needs_namespaces
def test_odd_frames_pass_as_they_are_or_are_counted(files: Files) -> None:
    command = [
        "unshare",
        "-n",
        sys.executable,
        "-m",
        "tests.support.frames_namespace",
        str(files.json),
    ]
    done = subprocess.run(command, cwd=CHECKOUT, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["tagged"] == [True] * 9
    assert (seen["short"], seen["most"], seen["after"]) == ([True] * 4, [True] * 2, [True] * 4)
    assert seen["dropped"] == {"too_long": 3, "errors2": 2, "errors3": 1}
    assert seen["failure"] == "None"
