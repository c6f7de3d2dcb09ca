"""What tests of compiler behaviour share with others."""

from __future__ import annotations

from weft.switch.engine.switches import Dataplane, Queue


def send(bmv2_json: str, frames: list[bytes]) -> list[bytes]:
    """What comes out of port 1 of a switch with this program."""
    dataplane = Dataplane(1, 4, packets=64, plain=True)
    dataplane.set_port(0, 1, Queue())
    control = dataplane.control(0)
    control.load_program(bmv2_json, load="save")
    control.commit_program()
    control.publish()
    sent: list[bytes] = []
    for number, frame in enumerate(frames):
        dataplane.receive(0, 1, [frame], (number + 1) * 10**6)
        sent += [bytes(item.frame) for item in dataplane.transmit((number + 1) * 10**6 + 500_000)]
    return sent
