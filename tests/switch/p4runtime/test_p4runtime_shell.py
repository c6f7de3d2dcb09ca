"""p4runtime-shell, a client by others, works on the built-in switch unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.emulated_support import wait_until
from tests.support.p4runtime_support import EVERY_NOTICE, Files, compiled, make_dataplane
from tests.support.shell_process import Shell, ShellError

from weft.switch.engine.switches import Dataplane
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.server import P4RuntimeServer, serve

PSA_EXTERNS = Path(__file__).resolve().parents[2] / "stf" / "psa" / "externs.p4"

pytest_plugins = ["tests.support.p4runtime_fixtures"]


@pytest.fixture
def sh(server: P4RuntimeServer, every_entity: Files) -> Iterator[Shell]:
    shell = Shell(server.address, 1, str(every_entity.p4info), str(every_entity.json))
    yield shell
    shell.close()


def test_table_entries(sh: Shell, dataplane: Dataplane) -> None:
    sh("""
        entry = TableEntry("TheIngress.exact_table")(action="TheIngress.send")
        entry.match["hdr.data.a"] = "1"
        entry.match["hdr.data.b"] = "0x102"
        entry.action["port"] = "5"
        entry.insert()
    """)
    dataplane.receive(0, 1, [bytes([1, 0x10, 0x20]) + bytes(57)], 1000)
    assert [departure.port for departure in dataplane.transmit(10**9)] == [5]
    action, packets = sh("""
        entry.counter_data  # asks for the counter
        (read,) = entry.read()
        str(read.action), read.counter_data.packet_count
    """)
    assert r'"\005"' in action
    assert packets == 1
    sh("""
        entry.action["port"] = "6"
        entry.modify()
    """)
    with pytest.raises(ShellError, match=r"P4RuntimeWriteException: (.|\n)*ALREADY_EXISTS"):
        sh("entry.insert()")
    sh("entry.delete()")
    assert sh('[str(one) for one in TableEntry("TheIngress.exact_table").read()]') == []


def test_ternary_range_optional_and_lpm(sh: Shell) -> None:
    sh("""
        entry = TableEntry("TheIngress.priority_table")(action="TheIngress.mark")
        entry.match["hdr.data.a"] = "0x10&&&0xf0"
        entry.match["hdr.data.b"] = "1..0x200"
        entry.match["hdr.data.c"] = "3"
        entry.match["hdr.data.d"] = "10.0.0.1"
        entry.action["value"] = "77"
        entry.priority = 5
        entry.insert()
        route = TableEntry("TheIngress.lpm_table")(action="TheIngress.drop")
        route.match["hdr.data.d"] = "10.1.0.0/16"
        route.insert()
    """)
    assert sh('len(list(TableEntry("TheIngress.priority_table").read()))') == 1
    assert sh('len(list(TableEntry("TheIngress.lpm_table").read()))') == 1


def test_default_entry(sh: Shell) -> None:
    read = sh("""
        entry = TableEntry("TheIngress.keyless_table")(action="TheIngress.mark", is_default=True)
        entry.action["value"] = "9"
        entry.modify()
        (read,) = entry.read()
        str(read)
    """)
    assert r"\x09" in read


def test_members_groups_and_one_shots(sh: Shell) -> None:
    members = sh("""
        for number in (1, 2):
            member = ActionProfileMember("TheIngress.selector_profile")(
                member_id=number, action="TheIngress.send"
            )
            member.action["port"] = str(number)
            member.insert()
        group = ActionProfileGroup("TheIngress.selector_profile")(group_id=1)
        group.add(1)
        group.add(2, 3)
        group.insert()
        entry = TableEntry("TheIngress.selector_table")
        entry.match["hdr.data.a"] = "1"
        entry.group_id = 1
        entry.insert()
        (read,) = ActionProfileGroup("TheIngress.selector_profile").read()
        [(member.member_id, member.weight) for member in read.members]
    """)
    assert members == [(1, 1), (2, 3)]
    assert sh('len(list(ActionProfileMember("TheIngress.selector_profile").read()))') == 2
    back = sh("""
        entry.delete()
        group.delete()
        for number in (1, 2):
            ActionProfileMember("TheIngress.selector_profile")(member_id=number).delete()
        one_shot = TableEntry("TheIngress.selector_table")
        one_shot.match["hdr.data.a"] = "2"
        action = Action("TheIngress.send")
        action["port"] = "4"
        one_shot.oneshot.add(action, 2)
        one_shot.insert()
        (back,) = TableEntry("TheIngress.selector_table").read()
        str(back)
    """)
    assert "weight: 2" in back


def test_replication_and_counters(sh: Shell, dataplane: Dataplane) -> None:
    replicas, sessions = sh("""
        group = MulticastGroupEntry(1)
        group.add(2, 1).add(3, 1)
        group.insert()
        session = CloneSessionEntry(5)
        session.add(2, 1)
        session.insert()
        replicas = len(next(iter(MulticastGroupEntry(1).read())).replicas)
        replicas, len(list(CloneSessionEntry(0).read()))
    """)
    assert (replicas, sessions) == (2, 1)
    dataplane.receive(0, 3, [bytes(60)], 1000)
    cell = sh("""
        counter = CounterEntry("TheIngress.seen")
        counter.index = 3
        (cell,) = counter.read()
        cell.packet_count, cell.byte_count
    """)
    assert cell == (1, 60)
    sh("counter.index = None")
    assert sh("len(list(counter.read()))") == 16


def test_packets_digests_meters_and_idle_entries(tmp_path: Path) -> None:
    files = compiled(EVERY_NOTICE)
    dataplane = make_dataplane()
    dataplane.set_cpu_port(0, 8)
    server = serve(dataplane.control(0, "leaf0"), 1, f"unix:{tmp_path}/leaf0.sock")
    try:
        shell = Shell(server.address, 1, str(files.p4info), str(files.json))
        try:
            script_notices(shell, dataplane, server.device)
        finally:
            shell.close()
    finally:
        server.stop()


def script_notices(sh: Shell, dataplane: Dataplane, device: Device) -> None:
    """What a user of the shell does with packets, digests, meters and entries that age."""
    frame = bytes([0, 0, 1]) + bytes(57)
    dataplane.receive(0, 3, [frame], 10**9)
    packet = sh("""
        packet = client.get_stream_packet("packet").packet
        packet.payload, packet.metadata[0].value
    """)
    assert packet == (frame, b"\x03")
    sh("""
        out = PacketOut(b"abc", egress_port="6", mark="1")
        out.send()
    """)

    def taken() -> bool:
        with device.lock:  # the server holds it until the packet is where it goes
            return dataplane.statistics(0, 8).rx_packets == 1

    wait_until(taken, "the packet out")
    (departure,) = dataplane.transmit(10**18)
    assert (departure.port, departure.frame) == (6, b"abc")
    sh("""
        entry = TableEntry("TheIngress.ageing")(action="TheIngress.learn")
        entry.match["hdr.data.key"] = "1"
        entry.idle_timeout_ns = 10**18
        entry.insert()
        digest = DigestEntry("learned_t")
        digest.ack_timeout_ns = 10**12
        digest.max_timeout_ns = 0
        digest.max_list_size = 1
        digest.insert()
    """)
    dataplane.receive(0, 3, [frame], 2 * 10**18)
    told = sh("""
        told = client.get_stream_packet("digest").digest
        [member.bitstring for member in told.data[0].struct.members]
    """)
    assert told == [b"\x01", b"\x03"]
    list_size = sh("""
        (read,) = digest.read()
        read.max_list_size
    """)
    assert list_size == 1
    dataplane.transmit(4 * 10**18)
    aged = sh("""
        idle = client.get_stream_packet("idle_timeout_notification")
        [entry.idle_timeout_ns for entry in idle.idle_timeout_notification.table_entry]
    """)
    assert aged == [10**18]
    rates = sh("""
        meter = MeterEntry("TheIngress.rates")
        meter.index = 1
        meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 2, 3, 4
        meter.modify()
        (read,) = meter.read()
        read.cir, read.pburst
    """)
    assert rates == (1, 4)


def test_a_program_for_psa(tmp_path: Path) -> None:
    files = compiled(PSA_EXTERNS)
    dataplane = make_dataplane()
    server = serve(dataplane.control(0, "leaf0"), 1, f"unix:{tmp_path}/leaf0.sock")
    try:
        shell = Shell(server.address, 1, str(files.p4info), str(files.json))
        try:
            script_psa(shell, dataplane)
        finally:
            shell.close()
    finally:
        server.stop()


def script_psa(sh: Shell, dataplane: Dataplane) -> None:
    """What a user of the shell does with a program for PSA; ports have 32 bits there."""
    sh("""
        entry = TableEntry("In.counted")(action="In.forward")
        entry.match["hdr.ethernet.dst"] = "0a:00:00:00:00:00/8"
        entry.action["port"] = "3"
        entry.insert()
        member = ActionProfileMember("In.ways")(member_id=1, action="In.answer")
        member.action["value"] = "0x12345678"
        member.action["port"] = "4"
        member.insert()
        led = TableEntry("In.profiled")
        led.match["hdr.ethernet.src"] = "bb:bb:bb:bb:bb:bb"
        led.member_id = 1
        led.insert()
        group = MulticastGroupEntry(1)
        group.add(2, 1).add(3, 1)
        group.insert()
        session = CloneSessionEntry(5)
        session.add(2, 1)
        session.insert()
    """)

    def frame(what: int) -> bytes:
        return bytes.fromhex(f"0a{what:010x}bbbbbbbbbbbb0800{what:02x}") + bytes(8)

    dataplane.receive(0, 1, [frame(1), frame(9)], 1000)
    sent = [(one.port, one.frame) for one in dataplane.transmit(10**9)]
    assert [port for port, _ in sent] == [3, 4]
    assert bytes.fromhex("12345678") in sent[1][1]
    packets, cell = sh("""
        entry.counter_data  # asks for the counter
        (read,) = entry.read()
        arrivals = CounterEntry("In.arrivals")
        arrivals.index = 9
        (cell,) = arrivals.read()
        read.counter_data.packet_count, cell.packet_count
    """)
    assert (packets, cell) == (1, 1)
    assert sh('[one.member_id for one in TableEntry("In.profiled").read()]') == [1]
    assert sh("len(list(MulticastGroupEntry(1).read()))") == 1
    assert sh("len(list(CloneSessionEntry(0).read()))") == 1


def test_api_version(sh: Shell) -> None:
    assert sh("APIVersion()") == "1.4.1"
