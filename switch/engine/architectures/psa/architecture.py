"""PSA: a parser, control and deparser for ingress, and again for egress, as in BMv2's psa_switch.

What PSA calls packet paths are those of the engine, which finds a program's decisions where
v1model's are: the port or drop port in ``egress_spec``, the multicast group, the clone session, and
field lists (`FIELD_LISTS`) for what is resubmitted, recirculated and cloned. Between ingress and
egress packets are frames: each operation ends with a deparser, and says so by what it returns.
"""

from weft.switch.engine.architectures.architecture import (
    BEGIN,
    PARSE_PACKET,
    EngineArchitecture,
    Slot,
)
from weft.switch.engine.architectures.psa.document import prepare
from weft.switch.engine.dataplane.layout import (
    EGRESS_CLONE,
    INGRESS_CLONE,
    RECIRCULATED,
    REPLICATION,
    RESUBMITTED,
)

PORT_RECIRCULATE, PORT_CPU = 0xFFFFFFFA, 0xFFFFFFFD
CLONE_SESSION_TO_CPU = 0

RESUBMIT, RECIRCULATE, CLONE_I2E, CLONE_E2E = FIELD_LISTS = range(1, 5)
"""The field lists of a program's JSON, with the metadata that goes with packets on these paths."""

NORMAL_PATH, UNICAST_PATH = 0, 1
PATHS = {REPLICATION: 2, INGRESS_CLONE: 3, EGRESS_CLONE: 4, RESUBMITTED: 5, RECIRCULATED: 6}
"""PSA_PacketPath_t by instance_type; a packet that is normal for v1model has the path 0 in ingress,
and 1 in egress."""

PARSE_PACKET_AGAIN = (
    PARSE_PACKET.replace("def parse_packet(", "def parse_packet_again(")
    .replace("parse(phv", "parse_again(phv")
    .replace("    #: frame\n", "")
)
"""The same before egress, by the program's second parser."""

PIPELINE = (
    PARSE_PACKET
    + "\n"
    + PARSE_PACKET_AGAIN
    + '''

@jit
def is_cpu(context, switch, port):
    """Whether a port is the controller's."""
    if port < 0 or port >= context.port_count:
        return False
    return PortRecord(context.ports, switch * context.port_count + port).cpu != 0


@jit
def cpu_port(context, switch):
    """The controller's port, or PSA's number of it where there is none."""
    for port in range(context.port_count):
        if is_cpu(context, switch, port):
            return port
    return {PORT_CPU}


@jit
def path_of(instance_type, normal):
    """The PSA_PacketPath_t of a packet."""
{paths}    return normal


def pipeline(address, operation, switch, packet, other):
    """Do one operation on a packet of a switch; return 1 if the deparser has run."""
'''
    + BEGIN
    + """    if operation == CLEAR_METADATA:
        port = phv[INGRESS_PORT]
        clear_metadata(phv, other >> 32)
        if other >> 32 == {RESUBMIT}:
            phv[INGRESS_PORT] = port
        return 0
    if operation != RUN_INGRESS and operation != RUN_EGRESS:
        return 0
    image = int64_view(state.image, state.image_words)
    counters = int64_view(state.counters, state.counter_words)
    scratch = uint8_view(state.scratch, SCRATCH_WORDS * 8)
    keys = int64_view(state.scratch, KEY_WORDS)
    buffer_stride = context.buffer_stride
    frame = uint8_view(context.buffers + words.buffer * buffer_stride, buffer_stride)
    header_stride = context.header_stride
    header = uint8_view(context.headers + packet * header_stride, header_stride)
    if operation == RUN_INGRESS:
        if phv[INSTANCE_TYPE] == {RECIRCULATED}:
            phv[INGRESS_PORT] = {PORT_RECIRCULATE}
        port = phv[INGRESS_PORT]
        if is_cpu(context, switch, port):
            port = {PORT_CPU}
        path = path_of(phv[INSTANCE_TYPE], {NORMAL_PATH})
        phv[{ip_ingress_port}] = port
        phv[{ip_packet_path}] = path
        parse_packet(context, words, phv, state, registers)
        phv[{i_ingress_port}] = port
        phv[{i_packet_path}] = path
        phv[{i_ingress_timestamp}] = (state.now_ns - state.epoch_ns) // 1000
        phv[{i_parser_error}] = phv[PARSER_ERROR]
        phv[{io_class_of_service}] = 0
        phv[{io_clone}] = 0
        phv[{io_drop}] = 1
        phv[{io_resubmit}] = 0
        phv[{io_multicast_group}] = 0
        phv[CHECKSUM_ERROR] = 0
        #: ingress
        ingress(phv, image, state, counters, registers, scratch, keys, words, frame)
        words.header_length = deparse(phv, header)
        if phv[R_DIGEST] != 0:
            learn(context, phv, state)
        phv[PRIORITY] = phv[{io_class_of_service}]
        if phv[PRIORITY] >= context.priorities:
            phv[PRIORITY] = 0
        if phv[{io_clone}] != 0:
            phv[R_CLONE] = (phv[{io_clone_session_id}] & 0x7FFF) + 1
            phv[R_CLONE_LIST] = {CLONE_I2E}
        phv[MCAST_GRP] = 0
        phv[EGRESS_SPEC] = DROP_PORT
        if phv[{io_drop}] == 0:
            if phv[{io_resubmit}] != 0:
                phv[R_RESUBMIT] = {RESUBMIT}
            phv[MCAST_GRP] = phv[{io_multicast_group}]
            phv[EGRESS_SPEC] = phv[{io_egress_port}]
            if phv[EGRESS_SPEC] == {PORT_CPU}:
                phv[EGRESS_SPEC] = cpu_port(context, switch)
            elif phv[EGRESS_SPEC] == DROP_PORT:
                phv[EGRESS_SPEC] += 1 << 32  # a port like all others
        #: ingress end
        return 1
    if words.keep != 0:
        words.frame_length = min(words.frame_length, words.keep)
        words.keep = 0
        phv[PACKET_LENGTH] = words.frame_length
        phv[R_LENGTH] = words.frame_length
        phv[R_INGRESS_LENGTH] = words.frame_length
    port = phv[EGRESS_PORT] & 0xFFFFFFFF
    if is_cpu(context, switch, port):
        port = {PORT_CPU}
    path = path_of(phv[INSTANCE_TYPE], {UNICAST_PATH})
    phv[{ep_egress_port}] = port
    phv[{ep_packet_path}] = path
    parse_packet_again(context, words, phv, state, registers)
    phv[{e_class_of_service}] = phv[PRIORITY]
    phv[{e_egress_port}] = port
    phv[{e_packet_path}] = path
    phv[{e_instance}] = phv[EGRESS_RID]
    phv[{e_egress_timestamp}] = phv[EGRESS_GLOBAL_TIMESTAMP]
    phv[{e_parser_error}] = phv[PARSER_ERROR]
    phv[{eo_clone}] = 0
    phv[{eo_drop}] = 0
    phv[{ed_egress_port}] = port
    #: egress
    egress(phv, image, state, counters, registers, scratch, keys, words, frame)
    words.header_length = deparse_again(phv, header)
    if phv[{eo_clone}] != 0:
        phv[R_CLONE] = (phv[{eo_clone_session_id}] & 0x7FFF) + 1
        phv[R_CLONE_LIST] = {CLONE_E2E}
    if phv[{eo_drop}] != 0:
        phv[EGRESS_SPEC] = DROP_PORT
    elif port == {PORT_RECIRCULATE}:
        phv[R_RECIRCULATE] = {RECIRCULATE}
    #: egress end
    if phv[EGRESS_SPEC] == DROP_PORT:
        return 1
    #: deparsed
    return 1
"""
)

METADATA = {
    "ip": (
        "psa_ingress_parser_input_metadata",
        ("ingress_port", "packet_path"),
    ),
    "i": (
        "psa_ingress_input_metadata",
        ("ingress_port", "packet_path", "ingress_timestamp", "parser_error"),
    ),
    "io": (
        "psa_ingress_output_metadata",
        ("class_of_service", "clone", "clone_session_id", "drop", "resubmit", "multicast_group",
         "egress_port"),
    ),
    "ep": (
        "psa_egress_parser_input_metadata",
        ("egress_port", "packet_path"),
    ),
    "e": (
        "psa_egress_input_metadata",
        ("class_of_service", "egress_port", "packet_path", "instance", "egress_timestamp",
         "parser_error"),
    ),
    "eo": (
        "psa_egress_output_metadata",
        ("clone", "clone_session_id", "drop"),
    ),
    "ed": (
        "psa_egress_deparser_input_metadata",
        ("egress_port",),
    ),
}  # fmt: skip
"""What the switch and a program tell each other: headers and their fields, by short names."""


def pipeline(slot: Slot) -> str:
    """Return the source of the pipeline of a program with these places."""
    places = {
        f"{short}_{field}": slot(header, field)
        for short, (header, fields) in METADATA.items()
        for field in fields
    }
    lines = [
        f"    if instance_type == {kind}:\n        return {path}\n" for kind, path in PATHS.items()
    ]
    return PIPELINE.format(
        paths="".join(lines), RESUBMIT=RESUBMIT, RECIRCULATE=RECIRCULATE, CLONE_I2E=CLONE_I2E,
        CLONE_E2E=CLONE_E2E, RECIRCULATED=RECIRCULATED, PORT_RECIRCULATE=PORT_RECIRCULATE,
        PORT_CPU=PORT_CPU,
        NORMAL_PATH=NORMAL_PATH, UNICAST_PATH=UNICAST_PATH, **places,
    )  # fmt: skip


PSA = EngineArchitecture(
    "psa",
    ("parse", "parse_again"),
    ("deparse", "deparse_again"),
    pipeline,
    "psa_ingress_parser_input_metadata",
    prepare,
    frozenset({PORT_RECIRCULATE}),
    CLONE_SESSION_TO_CPU,
)
