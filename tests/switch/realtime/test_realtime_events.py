"""Packets to and from controllers, digests and idle entries in the real-time process."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.support.engine_support import CPU_PORT, SOURCE, frame
from tests.support.realtime_support import collect

from weft.switch.compiler import compile_program
from weft.switch.engine.control.entities import (
    ActionCall,
    DigestEvent,
    Exact,
    IdleTimeout,
    MeterConfig,
    PacketIn,
    TableEntry,
)
from weft.switch.realtime.config import config_of
from weft.switch.realtime.process import SwitchProcess

FLOOD = 3000


def test_controllers_get_packets_digests_and_idle_entries_and_a_flood_is_bounded() -> None:
    switch = {"name": "leaf0", "device_id": 1, "address": "", "ports": [], "cpu_port": CPU_PORT}
    process = SwitchProcess(config_of({"switches": [switch]}, "the test"))
    process.start()
    try:
        (control,) = process.controls
        control.load_program(compile_program(Path(SOURCE)).bmv2_json, load="save")
        control.commit_program()
        told = threading.Event()
        control.set_listener(told.set)
        start_ns = time.monotonic_ns()
        control.packet_out(b"\0\7" + frame(1, 5))
        events = collect(control, told, lambda events: len(events) >= 2)
        assert [type(event) for event in events] == [DigestEvent, PacketIn]
        digest, packet = events
        assert isinstance(digest, DigestEvent)
        assert isinstance(packet, PacketIn)
        assert (digest.digest, digest.values) == ("learn_t", (5, CPU_PORT))
        assert packet.frame == b"\0\7" + frame(1, 5)
        assert start_ns <= digest.time_ns <= packet.time_ns <= time.monotonic_ns()

        control.values.write_meter("I.packets_meter", 5, MeterConfig(0, 0, 0, 0))
        entry = TableEntry(
            "I.forward", (Exact(1),), ActionCall("I.to", (1,)), idle_timeout_ns=20_000_000
        )
        control.insert_entry(entry)
        control.publish()
        (idle,) = collect(control, told, bool)
        assert isinstance(idle, IdleTimeout)
        assert idle.entry == entry
        assert control.values.idle_ns("I.forward", (Exact(1),)) >= 20_000_000

        control.set_listener(None)
        for _ in range(FLOOD):
            control.packet_out(b"\0\7" + frame(1, 5, size=1500))
        process.at_once(lambda: None)
        # The entry may be idle once more, where the machine is slow.
        events = [one for one in control.take_events() if not isinstance(one, IdleTimeout)]
        assert len(events) + control.events_lost == 2 * FLOOD
        assert control.events_lost > 0
        marked = b"\0\7" + frame(1, 0x205, size=1500)
        assert {event.frame for event in events if isinstance(event, PacketIn)} == {marked}
        assert process.statistics()["switches"][0]["events_lost"] == control.events_lost
    finally:
        process.stop()
    assert process.failure is None
