"""The fabric's own program on the engine, from Weft's compiler and, where installed, from p4c."""

from __future__ import annotations

import random
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from tests.support.engine_support import packet

from weft.switch.compiler.driver import compile_program
from weft.switch.engine.control.entities import (
    ActionCall,
    Exact,
    GroupTarget,
    Lpm,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    Replica,
    TableEntry,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane, Queue
from weft.topo.fabric_program import fabric_program


@lru_cache(maxsize=1)
def own_json() -> str:
    return compile_program(fabric_program()).bmv2_json


def full_name(control: SwitchControl, kind: str, ending: str) -> str:
    """The name of the one table, profile, action or counter that ends so."""
    program = control.pipelines[0].program
    names = {
        "table": list(program.tables),
        "profile": list(program.profiles),
        "counter": list(program.counters),
        "action": [action.name for action in program.actions],
    }[kind]
    return next(name for name in names if name.split(".")[-1] == ending)


def fabric(json_text: str, *, plain: bool = False) -> tuple[Dataplane, SwitchControl]:
    """A switch with 10.1/16 spread over ports 2 and 3, and group 239.0.0.1 on ports 1, 2, 4."""
    dataplane = Dataplane(1, 8, packets=64, plain=plain, seed=5)
    for port in range(1, 5):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0)
    control.load_program(json_text, load="save")
    control.commit_program()
    profile = full_name(control, "profile", "ecmp")
    forward = full_name(control, "action", "forward")
    for port in (2, 3):
        call = ActionCall(forward, (port, 0x06000000_0001, 0x02000000_0000 + port))
        control.insert_member(ProfileMember(profile, port, call))
    control.insert_group(ProfileGroup(profile, 1, ((2, 1), (3, 1))))
    route = full_name(control, "table", "ipv4_route")
    control.insert_entry(TableEntry(route, (Lpm(0x0A010000, 16),), GroupTarget(1)))
    replicate = ActionCall(full_name(control, "action", "replicate"), (9,))
    multicast = full_name(control, "table", "multicast_route")
    control.insert_entry(TableEntry(multicast, (Exact(0xEF000001),), replicate))
    control.insert_replication(MulticastGroup(9, tuple(map(Replica, (1, 2, 4)))))
    salt = ActionCall(full_name(control, "action", "set_salt"), (0xDEADBEEF,))
    control.set_default(full_name(control, "table", "switch_config"), salt)
    control.publish()
    return dataplane, control


def traffic() -> list[tuple[int, bytes]]:
    """Good and broken frames, with the port that they come in by."""
    rng = random.Random(11)
    frames = []
    for number in range(150):
        destination = rng.choice(["10.1.2.3", "10.2.0.1", "239.0.0.1", "239.0.0.2"])
        size = rng.randrange(60, 300)
        ttl = rng.choice([0, 1, 2, 64])
        frame = bytearray(packet(destination, source_port=number, ttl=ttl, size=size))
        if rng.random() < 0.3:
            frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del frame[rng.randrange(len(frame)) :]
        frames.append((rng.randrange(1, 5), bytes(frame)))
    return frames


def sent(dataplane: Dataplane) -> list[list[tuple[int, bytes]]]:
    result = []
    for port, frame in traffic():
        dataplane.receive(0, port, [frame], 0)
        result.append([(item.port, item.frame) for item in dataplane.transmit(0)])
    return result


def test_the_fabric_routes_and_replicates_without_the_ingress_port() -> None:
    dataplane, control = fabric(own_json())
    dataplane.receive(0, 1, [packet("239.0.0.1"), packet("10.1.2.3")], 0)
    departures = dataplane.transmit(0)
    assert [item.port for item in departures[:2]] == [2, 4]
    assert departures[2].port in (2, 3)
    assert {item.frame[22] for item in departures} == {8}
    counter = full_name(control, "counter", "port_ingress")
    assert control.values.read_counter(counter, 1).packets == 2


def test_losing_everything_on_a_link_is_counted() -> None:
    dataplane, control = fabric(own_json())
    table = full_name(control, "table", "ingress_fault")
    lose = next(
        action.name
        for action in control.pipelines[0].program.tables[table].actions
        if action.name.endswith("lose")
    )
    control.insert_entry(TableEntry(table, (Exact(1),), ActionCall(lose, (0xFFFFFFFF,))))
    control.publish()
    dataplane.receive(0, 1, [packet("10.1.2.3")] * 10, 0)
    assert dataplane.transmit(0) == []
    lost = full_name(control, "counter", "ingress_lost")
    assert control.values.read_counter(lost, 1).packets == 10


def test_the_fabric_does_the_same_compiled_and_plain() -> None:
    compiled, plain = fabric(own_json())[0], fabric(own_json(), plain=True)[0]
    assert sent(compiled) == sent(plain)


def test_p4cs_program_does_the_same_as_ours(tmp_path: Path) -> None:
    p4c = shutil.which("p4c-bm2-ss")
    if p4c is None:
        pytest.skip("p4c (p4c-bm2-ss) is not installed")
    output = tmp_path / "fabric.json"
    command = [p4c, "-o", str(output), str(fabric_program())]
    subprocess.run(command, check=True, capture_output=True)
    assert sent(fabric(output.read_text())[0]) == sent(fabric(own_json())[0])
