"""v1model: a parser and ingress, egress, and a deparser, as in BMv2's simple_switch."""

from weft.switch.engine.architectures.architecture import (
    BEGIN,
    PARSE_PACKET,
    EngineArchitecture,
    Slot,
)

PIPELINE = (
    PARSE_PACKET
    + '''

def pipeline(address, operation, switch, packet, other):
    """Do one operation on a packet of a switch."""
'''
    + BEGIN
    + """    if operation == CLEAR_METADATA:
        clear_metadata(phv, other >> 32)
        return 0
    if operation == RUN_PARSER:
        parse_packet(context, words, phv, state, registers)
        return 0
    image = int64_view(state.image, state.image_words)
    counters = int64_view(state.counters, state.counter_words)
    scratch = uint8_view(state.scratch, SCRATCH_WORDS * 8)
    keys = int64_view(state.scratch, KEY_WORDS)
    buffer_stride = context.buffer_stride
    frame = uint8_view(context.buffers + words.buffer * buffer_stride, buffer_stride)
    if operation == RUN_INGRESS:
        parse_packet(context, words, phv, state, registers)
        verify_checksums(phv, scratch, words, frame)
        #: ingress
        ingress(phv, image, state, counters, registers, scratch, keys, words, frame)
        if phv[R_DIGEST] != 0:
            learn(context, phv, state)
        #: ingress end
    elif operation == RUN_EGRESS:
        #: egress
        egress(phv, image, state, counters, registers, scratch, keys, words, frame)
        #: egress end
    else:
        update_checksums(phv, scratch, words, frame)
        header_stride = context.header_stride
        header = uint8_view(context.headers + packet * header_stride, header_stride)
        words.header_length = deparse(phv, header)
        #: deparsed
    return 0
"""
)


def pipeline(slot: Slot) -> str:
    """Return the source of the pipeline of a program."""
    return PIPELINE


V1MODEL = EngineArchitecture("v1model", ("parse",), ("deparse",), pipeline)
