"""Patch links: ports joined inside the process behave as a link that carries each frame exactly."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.utils import PcapReader, RawPcapReader
from tests.support.emulated_support import wait_until
from tests.support.engine_programs import router
from tests.support.engine_support import free, packet

from weft.base.errors import InputError
from weft.switch.engine.control.entities import (
    ActionCall,
    Lpm,
    MemberTarget,
    ProfileMember,
    TableEntry,
)
from weft.switch.engine.dataplane.events import advance_some
from weft.switch.engine.dataplane.pipeline import receive_frame
from weft.switch.engine.switches import Dataplane, Departure, Queue
from weft.switch.realtime import statistics
from weft.switch.realtime.captures import Captures
from weft.switch.realtime.config import read_config
from weft.switch.realtime.process import SwitchProcess

LINKS = (((0, 2), (1, 1)), ((1, 2), (2, 1)), ((0, 3), (2, 3)))
SLOW = Queue(rate_bps=10_000_000, delay_ns=70_001, limit_packets=12)
FAST = Queue(rate_bps=33_000_000, delay_ns=13)


def chain(link: Queue = SLOW, *, patched: bool) -> Dataplane:
    """Three switches: 10.1/16 leaves the first and second by port 2, the third by port 4; 10.3/16
    goes from the first to the third at once, and 10.9/16 in a circle."""
    dataplane = Dataplane(3, 6, packets=256)
    program = router()
    for switch in range(3):
        for port in range(1, 5):
            dataplane.set_port(switch, port, link if (switch, port) != (1, 2) else FAST)
        control = dataplane.control(switch)
        control.load_program(program, load="save")
        control.commit_program()
        for port in range(1, 5):
            call = ActionCall("forward", (port, 0x020000000000 + port))
            control.insert_member(ProfileMember("ecmp", port, call))
        ways = {1: (2, 2, 4), 3: (3, 3, 4), 9: (2, 1, 1)}
        for network, ports in ways.items():
            prefix = Lpm((10 << 24) + (network << 16), 16)
            control.insert_entry(TableEntry("route", (prefix,), MemberTarget(ports[switch])))
        control.publish()
    if patched:
        for end, other in LINKS:
            dataplane.patch(end, other)
    return dataplane


ARRIVALS = [
    (1000 * i + 17, 1 if i % 3 else 3, packet(f"10.{1 if i % 3 else 3}.0.{i}", size=100 + 13 * i))
    for i in range(30)
]


def carried_by_hand(dataplane: Dataplane) -> list[Departure]:
    """The same links, every frame carried over by this function at its moment."""
    over = {end: other for both in LINKS for end, other in (both, both[::-1])}
    left, arrivals = [], list(ARRIVALS)
    while arrivals or dataplane.deadline() is not None:
        deadline = dataplane.deadline()
        if deadline is None or (arrivals and arrivals[0][0] < deadline):
            now_ns, port, frame = arrivals.pop(0)
            dataplane.receive(0, port, [frame], now_ns)
            continue
        for departure in dataplane.transmit(deadline):
            far = over.get((departure.switch, departure.port))
            if far is None:
                left.append(departure)
            else:
                dataplane.receive(*far, [departure.frame], departure.departure_ns)
    return left


def test_frames_cross_patch_links_at_exactly_their_time_however_late_the_driver_is() -> None:
    byhand = chain(patched=False)
    expected = carried_by_hand(byhand)
    patched = chain(patched=True)
    pool = free(patched)
    for now_ns, port, frame in ARRIVALS:
        patched.receive(0, port, [frame], now_ns)
    assert patched.transmit(10**9) == expected
    assert len(expected) > 12 and patched.deadline() is None and free(patched) == pool
    for switch in range(3):
        for port in range(1, 5):
            figures = patched.statistics(switch, port)
            assert figures == byhand.statistics(switch, port)
    assert patched.statistics(0, 2).queue_drops > 0


def test_a_patch_link_that_is_down_loses_frames_until_it_is_back() -> None:
    dataplane = chain(patched=True)
    dataplane.set_link(2, 1, up=False)
    dataplane.receive(0, 1, [packet("10.1.0.1")], 0)
    assert dataplane.transmit(10**9) == []
    assert dataplane.lost_on_link(1, 2) == (1, 100)
    dataplane.set_link(1, 2, up=True)
    dataplane.receive(0, 1, [packet("10.1.0.1")], 10**9)
    assert [each.switch for each in dataplane.transmit(2 * 10**9)] == [2]
    with pytest.raises(InputError, match="no patch link"):
        dataplane.set_link(2, 4, up=False)
    with pytest.raises(InputError, match="cannot be patched"):
        dataplane.patch((0, 2), (2, 4))


def test_a_circle_without_rate_and_delay_does_not_hold_the_driver() -> None:
    dataplane = chain(Queue(), patched=True)
    context = dataplane.context
    endless = np.frombuffer(packet("10.9.0.1", ttl=255), np.uint8)
    receive_frame(context, 0, 1, endless, 0)
    advance_some(context, 0, 10_000)
    assert dataplane.deadline() == 0  # something is left to be done at once
    dataplane.set_link(1, 1, up=False)
    assert dataplane.transmit(0) == []
    assert dataplane.deadline() is None and dataplane.lost_on_link(0, 2)[0] == 1


def test_captures_hold_every_frame_with_its_time_and_say_what_they_lost(tmp_path: Path) -> None:
    dataplane = chain(patched=True)
    files: dict[tuple[int, int], tuple[str | None, str | None]] = {
        (0, 2): (None, str(tmp_path / "a.pcap")),
        (1, 1): (str(tmp_path / "b.pcap"), str(tmp_path / "b.pcap")),
        (2, 1): (str(tmp_path / "c.pcap"), str(tmp_path / "unused.pcap")),
    }
    captures = Captures(dataplane, files)
    for now_ns, port, frame in ARRIVALS:
        dataplane.receive(0, port, [frame], now_ns)
    left = []
    for now_ns in range(10**5, 10**8, 10**5):  # each frame is written by itself
        left += dataplane.transmit(now_ns)
        captures.flush()
    captures.silence()
    captures.close()
    held = {path.stem: list(RawPcapReader(str(path))) for path in tmp_path.iterdir()}
    sent = dataplane.statistics(0, 2).tx_packets
    assert [len(held[name]) for name in ("a", "b", "c", "unused")] == [sent, sent, sent, 0]
    assert [frame for frame, _ in held["a"]] == [frame for frame, _ in held["b"]]
    times = [meta.sec * 10**9 + meta.usec for _, meta in held["a"]]
    frame_ns = len(held["a"][1][0]) * 800
    assert times[1] - times[0] == frame_ns  # nanoseconds, back to back at the link's rate
    by_chain = [each.frame for each in left if each.frame[30:34][1] == 1]
    assert [frame[34:] for frame, _ in held["c"]] == [frame[34:] for frame in by_chain]
    assert {row["packets"] for row in captures.counts()} == {sent, 0}
    with PcapReader(str(tmp_path / "a.pcap")) as reader:
        assert reader.nano

    small = Captures(dataplane, {(0, 2): (None, str(tmp_path / "small.pcap"))}, ring_bytes=0)
    small._draining.acquire()  # a reader that does not get to it
    for i in range(40):
        dataplane.receive(0, 1, [packet("10.1.0.1", size=1500)], 2 * 10**9 + i * 10**7)
    dataplane.transmit(4 * 10**9)
    small._draining.release()
    small.silence()
    small.close()
    (row,) = small.counts()
    assert row["packets"] + row["lost"] == 40 and row["lost"] > 0
    assert len(list(RawPcapReader(str(tmp_path / "small.pcap")))) == row["packets"]


@pytest.mark.parametrize("patch", [["b", 9], ["a", 1], ["c", 1], "b", 7])
def test_a_patch_that_its_other_end_does_not_name_is_refused(tmp_path: Path, patch: Any) -> None:
    def switch(name: str, number: int, **port: Any) -> dict[str, Any]:
        ports = [{"port": 1, **port}]
        return {"name": name, "device_id": number, "address": "unix:/x", "ports": ports}

    path = tmp_path / "config.json"
    switches = [switch("a", 1, patch=patch), switch("b", 2, patch=["a", 1])]
    path.write_text(json.dumps({"switches": switches}))
    with pytest.raises(InputError, match=r"names the other|no configuration"):
        read_config(path)


def test_the_process_carries_frames_over_patch_links_and_loses_them_on_request(
    tmp_path: Path,
) -> None:
    link = {"rate_bps": 10**9, "delay_ns": 1000}
    files = {"pcap_in": str(tmp_path / "b1.pcap"), "pcap_out": str(tmp_path / "b1.pcap")}

    def switch(name: str, number: int, far: str, **captured: str) -> dict[str, Any]:
        ports = [{"port": port, "patch": [far, port], **link, **captured} for port in (1, 2)]
        return {"name": name, "device_id": number, "address": "unix:/x", "ports": ports[:2]}

    path = tmp_path / "config.json"
    document = {"switches": [switch("a", 1, "b"), switch("b", 2, "a", **files)]}
    path.write_text(json.dumps({**document, "buffers": 64, "frame_bytes": 2048}))
    process = SwitchProcess(read_config(path))
    process.start()
    try:
        control = process.controls[0]
        control.load_program(router(), load="save")
        control.commit_program()
        control.insert_member(ProfileMember("ecmp", 2, ActionCall("forward", (2, 5))))
        control.insert_entry(TableEntry("route", (Lpm(10 << 24, 8),), MemberTarget(2)))
        control.publish()

        def send() -> None:
            process.dataplane.receive(0, 1, [packet("10.1.0.1")], time.monotonic_ns())

        def counted(switch: int, what: str) -> Any:
            return process.statistics()["switches"][switch]["ports"][1][what]

        process.at_once(send)
        wait_until(lambda: counted(1, "rx_packets") == 1, "the frame crosses")
        assert counted(0, "patch") == ["b", 2] and counted(0, "kernel_drops") == 0
        process.at_once(lambda: None)  # the frame is counted, and then dropped
        assert process.statistics()["switches"][1]["drops"]["no_program"] == 1
        assert statistics.done(process, b"link b 2 down") == {}
        process.at_once(send)
        wait_until(lambda: counted(0, "lost_packets") == 1, "the frame is lost")
        assert (counted(1, "rx_packets"), counted(0, "tx_packets")) == (1, 2)
        for line in (b"link c 2 up", b"link a 7 up", b"link a 1 x"):
            with pytest.raises(InputError):
                statistics.done(process, line)
        (capture,) = statistics.done(process, b"captures end")["captures"]
        assert (capture["packets"], capture["lost"]) == (1, 0)
        assert statistics.done(process, b"captures end") == {"captures": []}
    finally:
        process.stop()
    (held,) = RawPcapReader(str(tmp_path / "b1.pcap"))
    assert len(held[0]) == 100 and abs(held[1].sec - time.time()) < 3600
