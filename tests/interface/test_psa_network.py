"""A program of the Portable Switch Architecture on a network, in virtual time."""

from __future__ import annotations

from pathlib import Path

import weft

PROGRAM = Path(__file__).resolve().parents[1] / "stf" / "psa" / "l2.p4"


def test_a_network_of_psa_switches_carries_frames_and_tells_their_way() -> None:
    with weft.up(weft.single(hosts=2), world="simulated", program=PROGRAM) as net:
        first, second = net.hosts
        table = net.switches[0].table("IG.l2")
        table.insert({"hdr.ethernet.dst": second.mac}, "IG.forward", port=2)
        addresses = f"{second.mac}{first.mac}".replace(":", "")
        frame = bytes.fromhex(f"{addresses}88b5") + bytes(46)
        first.send(frame)
        assert [bytes(found) for found in second.sniff(timeout=0.1)] == [frame]
        way = str(net.trace(frame, at="h0"))
    assert way.count("parser state start") == 2
    assert "h1 gets it" in way
