"""What the engine asks of an architecture: how its programs are read, and in what order a packet
goes through their parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = Any

Slot = Callable[[str, str], int]
"""Returns the word of a PHV at which a field of a header, by their names, is."""

LEARN = """        if phv[R_DIGEST] != 0:
            learn(context, phv, state)
"""
"""What tells a controller of digests; it goes from programs that have none."""

PARSE_PACKET = '''
@jit
def parse_packet(context, row, phv, state, registers):
    """Parse the frame of a packet; what is left is its payload."""
    stride = context.buffer_stride
    data = uint8_view(context.buffers + row.buffer * stride, stride)
    #: frame
    parsed = parse(phv, data, row.frame, row.frame_length, state, registers)
    row.payload = row.frame + parsed
    row.payload_length = row.frame_length - parsed
    #: parsed
'''
"""What parses the frame of a packet, and says what is left."""

BEGIN = """    context = Context(address)
    state = SwitchRecord(context.switches, switch)
    words = Packet(context.packets, packet)
    stride = context.phv_stride
    phv = int64_view(context.phv + packet * stride * 8, stride)
    registers = int64_view(state.registers, state.register_words)
    #: begin
    if operation == KEEP_FIELDS:
        source = other & 0xFFFFFFFF
        keep_fields(phv, int64_view(context.phv + source * stride * 8, stride), other >> 32)
        return 0
"""
"""What a pipeline begins with: its views of memory, and what is alike in all architectures."""

MARK = "#: "
"""Begins the lines of a pipeline at which a trace has something to tell: ``begin``, ``frame``,
``parsed``, ``ingress``, ``ingress end``, ``egress``, ``egress end`` and ``deparsed``."""


def as_it_is(document: Json) -> None:
    """Leave a document that has simple_switch's words alone."""


@dataclass(frozen=True)
class EngineArchitecture:
    """An architecture of programs in BMv2 JSON."""

    name: str
    parsers: tuple[str, ...]
    """The functions that the parsers of the JSON become, in their order."""
    deparsers: tuple[str, ...]
    pipeline: Callable[[Slot], str]
    """Returns the source of ``pipeline(address, operation, switch, packet, other)``, the program's
    entry: see `weft.switch.engine.codegen.generate`."""
    header: str = ""
    """Metadata that no others' programs have."""
    prepare: Callable[[Json], None] = as_it_is
    """Puts primitives of simple_switch in place of the architecture's own words in a document."""
    ports: frozenset[int] = frozenset()
    """Ports that all switches have, whatever links there are."""
    cpu_session: int | None = None
    """A clone session that there is from the start, with a copy to the controller's port."""
