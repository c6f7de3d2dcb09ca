"""p4runtime-shell, a client by others, works on the built-in switch unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from p4runtime_sh.p4runtime import P4RuntimeWriteException
from tests.emulated_support import wait_until
from tests.p4runtime_support import EVERY_NOTICE, Files, be_patient, compiled, make_dataplane

from weft.switch.engine.dataplane import Dataplane
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.server import P4RuntimeServer, serve

shell = pytest.importorskip("p4runtime_sh.shell", reason="p4runtime-shell is not installed")

pytest_plugins = ["tests.p4runtime_fixtures"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def sh(server: P4RuntimeServer, every_entity: Files) -> Iterator[Any]:
    config = shell.FwdPipeConfig(str(every_entity.p4info), str(every_entity.json))
    shell.setup(1, server.address, (0, 1), config=config, verbose=False)
    yield shell
    shell.teardown()


def test_table_entries(sh: Any, dataplane: Dataplane) -> None:
    entry = sh.TableEntry("TheIngress.exact_table")(action="TheIngress.send")
    entry.match["hdr.data.a"] = "1"
    entry.match["hdr.data.b"] = "0x102"
    entry.action["port"] = "5"
    entry.insert()
    dataplane.receive(0, 1, [bytes([1, 0x10, 0x20]) + bytes(57)], 1000)
    assert [departure.port for departure in dataplane.transmit(10**9)] == [5]
    entry.counter_data  # noqa: B018 - asks for the counter
    (read,) = entry.read()
    assert r'"\005"' in str(read.action)
    assert read.counter_data.packet_count == 1
    entry.action["port"] = "6"
    entry.modify()
    with pytest.raises(P4RuntimeWriteException, match="ALREADY_EXISTS"):
        entry.insert()
    entry.delete()
    assert list(sh.TableEntry("TheIngress.exact_table").read()) == []


def test_ternary_range_optional_and_lpm(sh: Any) -> None:
    entry = sh.TableEntry("TheIngress.priority_table")(action="TheIngress.mark")
    entry.match["hdr.data.a"] = "0x10&&&0xf0"
    entry.match["hdr.data.b"] = "1..0x200"
    entry.match["hdr.data.c"] = "3"
    entry.match["hdr.data.d"] = "10.0.0.1"
    entry.action["value"] = "77"
    entry.priority = 5
    entry.insert()
    route = sh.TableEntry("TheIngress.lpm_table")(action="TheIngress.drop")
    route.match["hdr.data.d"] = "10.1.0.0/16"
    route.insert()
    assert len(list(sh.TableEntry("TheIngress.priority_table").read())) == 1
    assert len(list(sh.TableEntry("TheIngress.lpm_table").read())) == 1


def test_default_entry(sh: Any) -> None:
    entry = sh.TableEntry("TheIngress.keyless_table")(action="TheIngress.mark", is_default=True)
    entry.action["value"] = "9"
    entry.modify()
    (read,) = entry.read()
    assert r"\x09" in str(read)


def test_members_groups_and_one_shots(sh: Any) -> None:
    for number in (1, 2):
        member = sh.ActionProfileMember("TheIngress.selector_profile")(
            member_id=number, action="TheIngress.send"
        )
        member.action["port"] = str(number)
        member.insert()
    group = sh.ActionProfileGroup("TheIngress.selector_profile")(group_id=1)
    group.add(1)
    group.add(2, 3)
    group.insert()
    entry = sh.TableEntry("TheIngress.selector_table")
    entry.match["hdr.data.a"] = "1"
    entry.group_id = 1
    entry.insert()
    (read,) = sh.ActionProfileGroup("TheIngress.selector_profile").read()
    assert [(member.member_id, member.weight) for member in read.members] == [(1, 1), (2, 3)]
    assert len(list(sh.ActionProfileMember("TheIngress.selector_profile").read())) == 2
    entry.delete()
    group.delete()
    for number in (1, 2):
        sh.ActionProfileMember("TheIngress.selector_profile")(member_id=number).delete()
    one_shot = sh.TableEntry("TheIngress.selector_table")
    one_shot.match["hdr.data.a"] = "2"
    action = sh.Action("TheIngress.send")
    action["port"] = "4"
    one_shot.oneshot.add(action, 2)
    one_shot.insert()
    (back,) = sh.TableEntry("TheIngress.selector_table").read()
    assert "weight: 2" in str(back)


def test_replication_and_counters(sh: Any, dataplane: Dataplane) -> None:
    group = sh.MulticastGroupEntry(1)
    group.add(2, 1).add(3, 1)
    group.insert()
    assert len(next(iter(sh.MulticastGroupEntry(1).read())).replicas) == 2
    session = sh.CloneSessionEntry(5)
    session.add(2, 1)
    session.insert()
    assert len(list(sh.CloneSessionEntry(0).read())) == 1
    dataplane.receive(0, 3, [bytes(60)], 1000)
    counter = sh.CounterEntry("TheIngress.seen")
    counter.index = 3
    (cell,) = counter.read()
    assert (cell.packet_count, cell.byte_count) == (1, 60)
    counter.index = None
    assert len(list(counter.read())) == 16


def test_packets_digests_meters_and_idle_entries(tmp_path: Path) -> None:
    files = compiled(EVERY_NOTICE)
    dataplane = make_dataplane()
    dataplane.set_cpu_port(0, 8)
    server = serve(dataplane.control(0, "leaf0"), 1, f"unix:{tmp_path}/leaf0.sock")
    config = shell.FwdPipeConfig(str(files.p4info), str(files.json))
    shell.setup(1, server.address, (0, 1), config=config, verbose=False)
    try:
        script_notices(dataplane, server.device)
    finally:
        shell.teardown()
        server.stop()


def script_notices(dataplane: Dataplane, device: Device) -> None:
    """What a user of the shell does with packets, digests, meters and entries that age."""
    frame = bytes([0, 0, 1]) + bytes(57)
    dataplane.receive(0, 3, [frame], 10**9)
    (packet,) = [shell.client.get_stream_packet("packet").packet]
    assert (packet.payload, packet.metadata[0].value) == (frame, b"\x03")
    out = shell.PacketOut(b"abc", egress_port="6", mark="1")
    out.send()

    def taken() -> bool:
        with device.lock:  # the server holds it until the packet is where it goes
            return dataplane.statistics(0, 8).rx_packets == 1

    wait_until(taken, "the packet out")
    (departure,) = dataplane.transmit(10**18)
    assert (departure.port, departure.frame) == (6, b"abc")
    entry = shell.TableEntry("TheIngress.ageing")(action="TheIngress.learn")
    entry.match["hdr.data.key"] = "1"
    entry.idle_timeout_ns = 10**18
    entry.insert()
    digest = shell.DigestEntry("learned_t")
    digest.ack_timeout_ns = 10**12
    digest.max_timeout_ns = 0
    digest.max_list_size = 1
    digest.insert()
    dataplane.receive(0, 3, [frame], 2 * 10**18)
    told = shell.client.get_stream_packet("digest").digest
    assert [member.bitstring for member in told.data[0].struct.members] == [b"\x01", b"\x03"]
    (read,) = digest.read()
    assert read.max_list_size == 1
    dataplane.transmit(4 * 10**18)
    idle = shell.client.get_stream_packet("idle_timeout_notification")
    (aged,) = idle.idle_timeout_notification.table_entry
    assert aged.idle_timeout_ns == 10**18
    meter = shell.MeterEntry("TheIngress.rates")
    meter.index = 1
    meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 2, 3, 4
    meter.modify()
    (read,) = meter.read()
    assert (read.cir, read.pburst) == (1, 4)


def test_api_version(sh: Any) -> None:
    assert sh.APIVersion() == "1.4.1"
