"""v1model: a parser and ingress, egress, and a deparser, as in BMv2's simple_switch."""

from weft.switch.engine.architectures.architecture import EngineArchitecture, Slot

PIPELINE = '''
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


def pipeline(address, operation, switch, packet, other):
    """Do one operation on a packet of a switch."""
    context = Context(address)
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
    if operation == CLEAR_METADATA:
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
'''


def pipeline(slot: Slot) -> str:
    """Return the source of the pipeline of a program."""
    return PIPELINE


V1MODEL = EngineArchitecture("v1model", ("parse",), ("deparse",), pipeline)
