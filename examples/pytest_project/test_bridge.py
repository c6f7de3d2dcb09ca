"""Tests of a bridge in P4.

In process: pytest. On real interfaces: pytest --weft-world emulated. On BMv2: pytest --weft-bmv2.
"""

from pathlib import Path

import pytest
from scapy.layers.l2 import Ether

PORTS = 3
HERE, THERE = "02:00:00:00:00:01", "02:00:00:00:00:02"


@pytest.fixture
def bridge(weft_switch):
    """A bridge that knows where one address is, and floods everything else."""
    switch = weft_switch(Path(__file__).with_name("bridge.p4"), ports=PORTS)
    switch.groups.insert(1, ports=range(1, PORTS + 1))
    switch.table("mac").insert({"dst": HERE}, "forward", port=2)
    return switch


def frame(destination, source):
    return Ether(dst=destination, src=source, type=0x88B5) / bytes(60)


def test_a_frame_for_a_known_address_leaves_by_its_port_alone(bridge):
    bridge.send(1, frame(HERE, THERE))
    bridge.expect(2, frame(HERE, THERE))
    bridge.expect_nothing()


def test_a_frame_for_an_unknown_address_leaves_by_all_other_ports(bridge):
    bridge.send(1, frame(THERE, HERE))
    bridge.expect(2, frame(THERE, HERE))
    bridge.expect(3, frame(THERE, HERE))
    bridge.expect_nothing(1)


def test_what_was_sent_is_counted(bridge):
    for port in (1, 3):
        bridge.send(port, frame(HERE, THERE))
        bridge.expect(2, frame(HERE, THERE))
    assert bridge.counter("sent")[2].packets == 2


@pytest.mark.parametrize("port", range(1, PORTS + 1))
def test_an_address_may_move_to_another_port(bridge, port):
    bridge.table("mac").modify({"dst": HERE}, "forward", port=port)
    source = port % PORTS + 1
    bridge.send(source, frame(HERE, THERE))
    bridge.expect(port, frame(HERE, THERE))
