// All paths of packets: to a port, to a group, cloned, resubmitted, recirculated, dropped.
#include "blocks.p4i"

struct metadata_t { bit<16> told; bit<8> path; }
struct told_t { bit<16> told; }

parser IngressParse(
        packet_in b, out headers_t hdr, inout metadata_t m,
        in psa_ingress_parser_input_metadata_t istd, in told_t again, in told_t around) {
    state start {
        b.extract(hdr.ethernet);
        b.extract(hdr.asked);
        m.told = 0;
        m.path = 0;
        transition select(istd.packet_path) {
            PSA_PacketPath_t.RESUBMIT: resubmitted;
            PSA_PacketPath_t.RECIRCULATE: recirculated;
            default: accept;
        }
    }
    state resubmitted { m.told = again.told; m.path = 5; transition accept; }
    state recirculated { m.told = around.told; m.path = 6; transition accept; }
}

control In(
        inout headers_t hdr, inout metadata_t m, in psa_ingress_input_metadata_t istd,
        inout psa_ingress_output_metadata_t ostd) {
    action deny() { ingress_drop(ostd); }
    action forward(PortId_t port) { send_to_port(ostd, port); }
    action copy(MulticastGroup_t group) { multicast(ostd, group); }
    action clone_and_forward(CloneSessionId_t session, PortId_t port) {
        ostd.clone = true;
        ostd.clone_session_id = session;
        send_to_port(ostd, port);
    }
    action clone_and_drop(CloneSessionId_t session) {
        ostd.clone = true;
        ostd.clone_session_id = session;
        ingress_drop(ostd);
    }
    action again() { ostd.drop = false; ostd.resubmit = true; }
    table ways {
        key = { hdr.asked.what: exact; m.path: exact @name("path"); }
        actions = { deny; forward; copy; clone_and_forward; clone_and_drop; again; NoAction; }
        default_action = NoAction;
    }
    apply {
        hdr.asked.rounds = hdr.asked.rounds + 1;
        hdr.asked.told = m.told;
        hdr.asked.value = (bit<32>) (PortIdUint_t) istd.ingress_port;
        ways.apply();
    }
}

control InDeparse(
        packet_out b, out told_t clone, out told_t again, out told_t normal, inout headers_t hdr,
        in metadata_t m, in psa_ingress_output_metadata_t istd) {
    apply {
        normal.told = 0x1111;
        if (psa_clone_i2e(istd)) { clone.told = 0x2222; }
        if (psa_resubmit(istd)) { again.told = 0x3333; } else { again.told = 0x4444; }
        b.emit(hdr.ethernet);
        b.emit(hdr.asked);
    }
}

parser OutParse(
        packet_in b, out headers_t hdr, inout metadata_t m,
        in psa_egress_parser_input_metadata_t istd, in told_t normal, in told_t cloned,
        in told_t cloned_again) {
    state start {
        b.extract(hdr.ethernet);
        b.extract(hdr.asked);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.NORMAL_MULTICAST: copied;
            PSA_PacketPath_t.CLONE_I2E: from_ingress;
            PSA_PacketPath_t.CLONE_E2E: from_egress;
            default: usual;
        }
    }
    state usual { m.told = normal.told; m.path = 1; transition accept; }
    state copied { m.told = normal.told; m.path = 2; transition accept; }
    state from_ingress { m.told = cloned.told; m.path = 3; transition accept; }
    state from_egress { m.told = cloned_again.told; m.path = 4; transition accept; }
}

control Out(
        inout headers_t hdr, inout metadata_t m, in psa_egress_input_metadata_t istd,
        inout psa_egress_output_metadata_t ostd) {
    action mark() { hdr.ethernet.kind = (bit<16>) (EgressInstanceUint_t) istd.instance; }
    action deny() { egress_drop(ostd); }
    action clone(CloneSessionId_t session) { ostd.clone = true; ostd.clone_session_id = session; }
    action clone_and_drop(CloneSessionId_t session) {
        ostd.clone = true;
        ostd.clone_session_id = session;
        egress_drop(ostd);
    }
    table ways {
        key = { hdr.asked.what: exact; m.path: exact @name("path"); }
        actions = { mark; deny; clone; clone_and_drop; NoAction; }
        default_action = NoAction;
    }
    apply {
        hdr.ethernet.dst[15:0] = m.told;
        hdr.ethernet.src[31:0] = (PortIdUint_t) istd.egress_port;
        ways.apply();
    }
}

control OutDeparse(
        packet_out b, out told_t cloned, out told_t around, inout headers_t hdr, in metadata_t m,
        in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) { cloned.told = 0x5555; }
        if (psa_recirculate(istd, edstd)) { around.told = 0x6666; }
        b.emit(hdr);
    }
}

IngressPipeline(IngressParse(), In(), InDeparse()) ip;
EgressPipeline(OutParse(), Out(), OutDeparse()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
