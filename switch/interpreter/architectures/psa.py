"""A packet's way through a program of the Portable Switch Architecture: its six blocks, and what
becomes of a packet after each three of them.

PSA specification, sections "Behavior of packets after ingress processing is complete" and "...after
egress processing is complete".
"""

from collections.abc import Generator, Iterator
from typing import Any, Protocol

from weft.switch.engine.dataplane.layout import (
    EGRESS_CLONE,
    INGRESS_CLONE,
    RECIRCULATED,
    REPLICATION,
    RESUBMITTED,
)
from weft.switch.interpreter.packet import Packet
from weft.switch.interpreter.parsing import deparse, headers_of
from weft.switch.interpreter.primitives import Primitives, Steps
from weft.switch.interpreter.steps import Step

PORT_RECIRCULATE, PORT_CPU = 0xFFFFFFFA, 0xFFFFFFFD
PORT_BITS = 32
RESUBMIT, RECIRCULATE, CLONE_I2E, CLONE_E2E = range(1, 5)
"""The field lists with what goes along on these paths."""
NORMAL_UNICAST, NORMAL_MULTICAST, PATH_I2E, PATH_E2E, PATH_RESUBMIT, PATH_RECIRCULATE = range(1, 7)
INGRESS_PATHS = {RESUBMITTED: PATH_RESUBMIT, RECIRCULATED: PATH_RECIRCULATE}
EGRESS_PATHS = {
    REPLICATION: NORMAL_MULTICAST, INGRESS_CLONE: PATH_I2E, EGRESS_CLONE: PATH_E2E,
}  # fmt: skip


class Passage(Protocol):
    """What a packet's way has that is the same in all architectures."""

    around: Any

    def runner(self, packet: Packet) -> Primitives: ...
    def count_pass(self) -> None: ...
    def received(self, packet: Packet) -> Step: ...
    def parse(self, packet: Packet, number: int = 0) -> Steps: ...
    def pipeline(self, name: str, packet: Packet) -> Steps: ...
    def digest(self, packet: Packet) -> Steps: ...
    def after_ingress(self, packet: Packet) -> Steps: ...
    def begin_egress(self, packet: Packet, port: int) -> Step: ...
    def dropped(self, packet: Packet, where: str, why: str) -> Step: ...
    def is_too_often(
        self, packet: Packet, what: str, where: str
    ) -> Generator[Step, int | None, bool]: ...
    def start_again(self, packet: Packet, field_list: int, kind: int) -> None: ...
    def new_packet(self, packet: Packet) -> Packet: ...
    def send_clones(
        self, packet: Packet, made: Packet, session: int, field_list: int, kind: int
    ) -> Steps: ...
    def leave(self, packet: Packet, frame: bytes, port: int, *, exists: bool) -> Steps: ...


def tell(packet: Packet, header: str, **values: int) -> None:
    """Set fields of the metadata that a block is given."""
    for name, value in values.items():
        place = f"psa_{header}_metadata", name
        packet.values[place] = packet.program.field(place).cut(value)


def decided(packet: Packet, pipeline: str, name: str) -> int:
    """Return what a control has decided of a packet."""
    return packet.read((f"psa_{pipeline}_output_metadata", name))


def deparsed(passage: Passage, packet: Packet, number: int) -> Iterator[Step]:
    """Run a deparser; the packet's frame is then what it emits, with the payload."""
    yield from deparse(packet, passage.runner(packet), number)
    header = headers_of(packet, number)
    told = {"header_bytes": len(header), "payload_bytes": len(packet.payload)}
    packet.payload = header + packet.payload
    yield Step("deparsed", packet, told)


def ingress(passage: Passage, packet: Packet) -> Steps:
    """Run ingress, again for as long as the packet is resubmitted, and do what it decided."""
    while True:
        passage.count_pass()
        kind = packet["instance_type"]
        if kind == RECIRCULATED:
            packet["ingress_port"] = PORT_RECIRCULATE
        yield passage.received(packet)
        arrived, cpu = packet["ingress_port"], passage.around.cpu_port
        port, path = PORT_CPU if arrived == cpu else arrived, INGRESS_PATHS.get(kind, 0)
        tell(packet, "ingress_parser_input", ingress_port=port, packet_path=path)
        yield from passage.parse(packet)
        tell(
            packet, "ingress_input", ingress_port=port, packet_path=path,
            ingress_timestamp=passage.around.now_us, parser_error=packet["parser_error"],
        )  # fmt: skip
        tell(
            packet, "ingress_output", class_of_service=0, clone=0, drop=1, resubmit=0,
            multicast_group=0,
        )  # fmt: skip
        yield from passage.pipeline("ingress", packet)
        yield from deparsed(passage, packet, 0)
        yield from passage.digest(packet)
        service = decided(packet, "ingress", "class_of_service")
        packet["priority"] = passage.around.served(service)
        if decided(packet, "ingress", "clone"):
            session = decided(packet, "ingress", "clone_session_id") & 0x7FFF
            made = passage.new_packet(packet)
            yield from passage.send_clones(packet, made, session, CLONE_I2E, INGRESS_CLONE)
        if decided(packet, "ingress", "drop"):
            yield passage.dropped(packet, "ingress", "psa_ingress_output_metadata.drop is set")
            return
        if not decided(packet, "ingress", "resubmit"):
            break
        if (yield from passage.is_too_often(packet, "resubmitted", "ingress")):
            return
        yield Step("resubmitted", packet, {"field_list": RESUBMIT})
        passage.start_again(packet, RESUBMIT, RESUBMITTED)
        packet["ingress_port"] = arrived
    packet["mcast_grp"] = decided(packet, "ingress", "multicast_group")
    port = decided(packet, "ingress", "egress_port")
    if port == PORT_CPU and cpu is not None:
        port = cpu
    is_usual = port != passage.around.drop_port
    packet["egress_spec"] = port if is_usual else port + (1 << PORT_BITS)
    packet.frame = packet.payload
    packet.start()
    yield from passage.after_ingress(packet)


def egress(passage: Passage, packet: Packet, port: int, *, exists: bool) -> Steps:
    """Run egress, and clone, drop, recirculate or send the packet."""
    passage.count_pass()
    yield passage.begin_egress(packet, port)
    is_cpu = port == passage.around.cpu_port
    number = PORT_CPU if is_cpu else port & ((1 << PORT_BITS) - 1)
    path = EGRESS_PATHS.get(packet["instance_type"], NORMAL_UNICAST)
    if packet.keep:
        packet.frame, packet.keep = packet.frame[: packet.keep], 0
        packet.start()
    tell(packet, "egress_parser_input", egress_port=number, packet_path=path)
    yield from passage.parse(packet, 1)
    tell(
        packet, "egress_input", class_of_service=packet["priority"],
        egress_port=number, packet_path=path, instance=packet["egress_rid"],
        egress_timestamp=passage.around.now_us, parser_error=packet["parser_error"],
    )  # fmt: skip
    tell(packet, "egress_output", clone=0, drop=0)
    tell(packet, "egress_deparser_input", egress_port=number)
    yield from passage.pipeline("egress", packet)
    yield from deparsed(passage, packet, 1)
    if decided(packet, "egress", "clone"):
        packet.frame = packet.payload
        packet.start()
        session = decided(packet, "egress", "clone_session_id") & 0x7FFF
        made = packet.duplicate(0)
        yield from passage.send_clones(packet, made, session, CLONE_E2E, EGRESS_CLONE)
    if decided(packet, "egress", "drop"):
        yield passage.dropped(packet, "egress", "psa_egress_output_metadata.drop is set")
        return
    if number == PORT_RECIRCULATE:
        packet.recirculate = RECIRCULATE
    yield from passage.leave(packet, packet.payload, port, exists=exists)
