// A packet for each sentence of the PSA specification: its first byte says which; the others tell
// what ingress and egress saw. From 100 on packets also tell what metadata they took along.
#include <psa.p4>

error { OwnError }

header first_t {
    bit<8>  op;
    bit<8>  in_path;
    bit<8>  out_path;
    bit<8>  in_error;
    bit<8>  out_error;
    bit<16> in_port;
    bit<16> out_port;
    bit<8>  instance;
    bit<8>  class;
    bit<16> in_kept;
    bit<16> out_kept;
    bit<16> value;
}
header added_t { bit<16> value; }
header more_t { bit<8> last; bit<8> value; }

struct headers_t { first_t first; added_t added; more_t[2] more; }
struct metadata_t { bit<16> kept; }
struct pair_t { bit<8> one; bit<16> other; }
struct kept_t { bit<16> kept; }
struct empty_t {}

parser InParse(
        packet_in b, out headers_t hdr, inout metadata_t m,
        in psa_ingress_parser_input_metadata_t istd, in kept_t again, in kept_t around) {
    state start {
        m.kept = 0;
        transition select(istd.packet_path) {
            PSA_PacketPath_t.RESUBMIT: resubmitted;
            PSA_PacketPath_t.RECIRCULATE: recirculated;
            default: parse;
        }
    }
    state resubmitted { m.kept = again.kept; transition parse; }
    state recirculated { m.kept = around.kept; transition parse; }
    state parse {
        b.extract(hdr.first);
        verify(hdr.first.op != 30, error.OwnError);
        transition select(hdr.first.op) {
            31: more;
            32: without;
            default: accept;
        }
    }
    state more {
        b.extract(hdr.more.next);
        transition select(hdr.more.last.last) {
            1: more;
            default: accept;
        }
    }
    state without {
        transition select(hdr.first.value) {
            1: accept;
        }
    }
}

bit<8> number_of(in error found) {
    if (found == error.NoError) { return 0; }
    if (found == error.PacketTooShort) { return 1; }
    if (found == error.NoMatch) { return 2; }
    if (found == error.StackOutOfBounds) { return 3; }
    if (found == error.OwnError) { return 4; }
    return 5;
}

control In(
        inout headers_t hdr, inout metadata_t m, in psa_ingress_input_metadata_t istd,
        inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<32>, bit<16>>(4, PSA_CounterType_t.PACKETS) seen;
    Meter<bit<16>>(4, PSA_MeterType_t.PACKETS) pace;
    Register<bit<16>, bit<16>>(4) cells;
    Register<pair_t, bit<16>>(4) pairs;
    Random<bit<16>>(7, 7) seven;
    Hash<bit<16>>(PSA_HashAlgorithm_t.IDENTITY) same;
    bit<8> told;
    action to(PortId_t port) { send_to_port(ostd, port); }
    table ranges {
        key = { hdr.first.value: range; }
        actions = { to; NoAction; }
        const entries = {
            10..20: to((PortId_t) 2);
            15..30: to((PortId_t) 3);
        }
        default_action = NoAction;
    }
    table masks {
        key = { hdr.first.value: ternary; }
        actions = { to; NoAction; }
        const entries = {
            0x1000 &&& 0xf000: to((PortId_t) 2);
            0x0034 &&& 0x00ff: to((PortId_t) 3);
        }
        default_action = NoAction;
    }
    table prefixes {
        key = { hdr.first.value: lpm; }
        actions = { to; NoAction; }
        const entries = {
            0x1000 &&& 0xf000: to((PortId_t) 2);
            0x1200 &&& 0xff00: to((PortId_t) 3);
        }
        default_action = NoAction;
    }
    table values {
        key = { hdr.first.value: exact; hdr.first.out_kept: exact; }
        actions = { to; NoAction; }
        const entries = { (7, 8): to((PortId_t) 2); }
        default_action = to((PortId_t) 4);
    }
    apply {
        bit<8> op = hdr.first.isValid() ? hdr.first.op : 255;
        bool fresh = istd.packet_path == PSA_PacketPath_t.NORMAL;
        if (!hdr.first.isValid()) {
            hdr.first.setValid();
            hdr.first.op = 255;
            hdr.first.value = 0;
        }
        told = number_of(istd.parser_error);
        hdr.first.in_error = told;
        hdr.first.in_path = istd.packet_path == PSA_PacketPath_t.NORMAL ? 8w0 :
            istd.packet_path == PSA_PacketPath_t.RESUBMIT ? 8w5 :
            istd.packet_path == PSA_PacketPath_t.RECIRCULATE ? 8w6 : 8w99;
        if (op != 13) { hdr.first.in_port = (bit<16>) (PortIdUint_t) istd.ingress_port; }
        if (op >= 100) { hdr.first.in_kept = m.kept; }
        if (op == 1) {           // nothing is said: the packet is dropped
        } else if (op == 2) {
            ostd.drop = false;
            ostd.multicast_group = (MulticastGroup_t) 7;
            ostd.egress_port = (PortId_t) 1;
        } else if (op == 3) {
            multicast(ostd, (MulticastGroup_t) 8);
        } else if (op == 4) {
            send_to_port(ostd, (PortId_t) 1);
            ingress_drop(ostd);
        } else if (op == 5) {
            ingress_drop(ostd);
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 6) {
            multicast(ostd, (MulticastGroup_t) 7);
            ingress_drop(ostd);
        } else if (op == 7) {
            multicast(ostd, (MulticastGroup_t) 7);
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 8 || op == 108) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 3;
            hdr.first.value = 0x8888;
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 9) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 3;
        } else if (op == 10) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 9;
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 11) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 6;
            multicast(ostd, (MulticastGroup_t) 7);
        } else if (op == 12) {
            send_to_port(ostd, (PortId_t) 77);
        } else if ((op == 13 || op == 14 || op == 113) && fresh) {
            hdr.first.value = 0x1313;
            ostd.drop = false;
            ostd.resubmit = true;
            ostd.multicast_group = (MulticastGroup_t) 7;
        } else if (op == 15 && fresh) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 3;
            ostd.drop = false;
            ostd.resubmit = true;
        } else if (op == 16) {
            ostd.resubmit = true;
        } else if ((op == 17 || op == 18 || op == 19 || op == 117) && fresh) {
            hdr.added.setValid();
            hdr.added.value = 0x1717;
            send_to_port(ostd, PSA_PORT_RECIRCULATE);
        } else if (op == 20) {
            ostd.class_of_service = (ClassOfService_t) 200;
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 21) {
            hdr.added.setValid();
            hdr.added.value = 0x2121;
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 40) {
            seen.count(4);
            cells.write(1, 0x4040);
            cells.write(7, 0x4141);
            hdr.first.value = cells.read(1);
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 41) {
            PSA_MeterColor_t colour = pace.execute(1);
            hdr.first.value = colour == PSA_MeterColor_t.GREEN ? 16w1 : 16w2;
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 42) {
            hdr.first.value = seven.read();
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 60) {
            ranges.apply();
        } else if (op == 61) {
            masks.apply();
        } else if (op == 62) {
            prefixes.apply();
        } else if (op == 63) {
            values.apply();
        } else if (op == 44) {
            pairs.write(2, { 0x12, 0x3456 });
            pair_t pair = pairs.read(2);
            hdr.first.value = pair.other ^ (bit<16>) pair.one;
            send_to_port(ostd, (PortId_t) 1);
        } else if (op == 43) {
            hdr.first.value = same.get_hash(16w100, hdr.first.value, 16w10);
            send_to_port(ostd, (PortId_t) 1);
        } else {
            send_to_port(ostd, (PortId_t) 1);
        }
    }
}

control InDeparse(
        packet_out b, out kept_t clone, out kept_t again, out kept_t normal, inout headers_t hdr,
        in metadata_t m, in psa_ingress_output_metadata_t istd) {
    apply {
        normal.kept = 0x1111;
        if (psa_clone_i2e(istd)) { clone.kept = 0x2222; }
        if (psa_resubmit(istd)) { again.kept = 0x3333; }
        b.emit(hdr.first);
        b.emit(hdr.added);
        b.emit(hdr.more);
    }
}

parser OutParse(
        packet_in b, out headers_t hdr, inout metadata_t m,
        in psa_egress_parser_input_metadata_t istd, in kept_t normal, in kept_t cloned,
        in kept_t cloned_again) {
    state start {
        transition select(istd.packet_path) {
            PSA_PacketPath_t.CLONE_I2E: from_ingress;
            PSA_PacketPath_t.CLONE_E2E: from_egress;
            default: usual;
        }
    }
    state usual { m.kept = normal.kept; transition parse; }
    state from_ingress { m.kept = cloned.kept; transition parse; }
    state from_egress { m.kept = cloned_again.kept; transition parse; }
    state parse {
        b.extract(hdr.first);
        verify(hdr.first.op != 33, error.OwnError);
        transition accept;
    }
}

control Out(
        inout headers_t hdr, inout metadata_t m, in psa_egress_input_metadata_t istd,
        inout psa_egress_output_metadata_t ostd) {
    bit<8> told;
    apply {
        bit<8> op = hdr.first.op;
        bool copied = istd.packet_path == PSA_PacketPath_t.CLONE_E2E;
        told = number_of(istd.parser_error);
        hdr.first.out_error = told;
        hdr.first.out_path = istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST ? 8w1 :
            istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST ? 8w2 :
            istd.packet_path == PSA_PacketPath_t.CLONE_I2E ? 8w3 :
            istd.packet_path == PSA_PacketPath_t.CLONE_E2E ? 8w4 : 8w99;
        hdr.first.out_port = (bit<16>) (PortIdUint_t) istd.egress_port;
        hdr.first.instance = (bit<8>) (EgressInstanceUint_t) istd.instance;
        hdr.first.class = (ClassOfServiceUint_t) istd.class_of_service;
        if (op >= 100) { hdr.first.out_kept = m.kept; }
        bool leaving = istd.egress_port != PSA_PORT_RECIRCULATE;
        if (op == 18 && !leaving) {
            egress_drop(ostd);
        } else if (op == 19 && !leaving && !copied) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 3;
        } else if (op == 50) {
            egress_drop(ostd);
        } else if ((op == 51 || op == 151) && !copied) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 6;
            hdr.first.value = 0x5151;
        } else if (op == 52 && !copied) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 3;
            egress_drop(ostd);
        } else if (op == 53) {
            egress_drop(ostd);
            ostd.drop = false;
        } else if (op == 54) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 9;
        }
    }
}

control OutDeparse(
        packet_out b, out kept_t cloned, out kept_t around, inout headers_t hdr, in metadata_t m,
        in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) { cloned.kept = 0x5555; }
        if (psa_recirculate(istd, edstd)) { around.kept = 0x6666; }
        b.emit(hdr);
    }
}

IngressPipeline(InParse(), In(), InDeparse()) ip;
EgressPipeline(OutParse(), Out(), OutDeparse()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
