// What docs/simple_switch.md of p4lang/behavioral-model says of packets: a value of op for each case of cases.toml.
#include <core.p4>
#include <v1model.p4>

error { OwnError }

header first_t {
    bit<8> op;
    bit<8> in_type;
    bit<8> out_type;
    bit<8> rid;
    bit<16> in_length;
    bit<16> out_length;
    bit<16> kept;
    bit<16> lost;
    bit<8> told;
    bit<8> port;
}
header more_t { bit<8> last; bit<8> data; }
header length_t { bit<8> bits; }
header varied_t { varbit<16> data; }
header sum_t { bit<16> value; bit<16> sum; }
header added_t { bit<32> data; }

struct headers {
    first_t first;
    more_t[2] more;
    length_t length;
    varied_t varied;
    sum_t sum;
    added_t added;
}
struct metadata { @field_list(1) bit<16> kept; @field_list(2) bit<16> lost; }

parser P(packet_in packet, out headers hdr, inout metadata meta,
         inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.first);
        verify(hdr.first.op != 60, error.OwnError);
        transition select(hdr.first.op) {
            61: more;
            62: varied;
            63: sum;
            64: strict;
            default: accept;
        }
    }
    state more {
        packet.extract(hdr.more.next);
        transition select(hdr.more.last.last) {
            0: more;
            default: accept;
        }
    }
    state varied {
        packet.extract(hdr.length);
        packet.extract(hdr.varied, (bit<32>)hdr.length.bits);
        transition accept;
    }
    state sum {
        packet.extract(hdr.sum);
        transition accept;
    }
    state strict {
        transition select(hdr.first.rid) {
            1: accept;
        }
    }
}

control V(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum(hdr.sum.isValid() && hdr.sum.value != 9, { hdr.sum.value }, hdr.sum.sum,
                        HashAlgorithm.csum16);
    }
}

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    action lose() { mark_to_drop(standard_metadata); }
    action to(bit<9> port) { standard_metadata.egress_spec = port; }
    table widths {
        key = { hdr.first.op: range; }
        actions = { to; lose; NoAction; }
        const entries = {
            200..210: to(2);
            205..220: to(3);
        }
        default_action = NoAction();
    }
    apply {
        bit<8> op = hdr.first.isValid() ? hdr.first.op : 0xff;
        bit<32> instance = standard_metadata.instance_type;
        hdr.first.in_type = (bit<8>)instance;
        hdr.first.in_length = (bit<16>)standard_metadata.packet_length;
        hdr.first.kept = meta.kept;
        hdr.first.lost = meta.lost;
        if (op != 10) {
            standard_metadata.egress_spec = 1;
        }
        if (standard_metadata.parser_error == error.OwnError) {
            hdr.first.told = 0xe1;
        } else if (standard_metadata.parser_error == error.PacketTooShort) {
            hdr.first.setValid();
            hdr.first.op = 0xff;
            hdr.first.told = 0xe2;
        } else if (standard_metadata.parser_error == error.StackOutOfBounds) {
            hdr.first.told = 0xe3;
        } else if (standard_metadata.parser_error == error.HeaderTooShort) {
            hdr.first.told = 0xe4;
        } else if (standard_metadata.parser_error == error.ParserInvalidArgument) {
            hdr.first.told = 0xe5;
        } else if (standard_metadata.parser_error == error.NoMatch) {
            hdr.first.told = 0xe6;
        } else if (standard_metadata.parser_error != error.NoError) {
            hdr.first.told = 0xee;
        }
        widths.apply();
        if (op == 63) {
            hdr.first.told = (bit<8>)standard_metadata.checksum_error;
        } else if (op == 1) {
            clone(CloneType.I2E, 3);
            clone(CloneType.I2E, 4);
        } else if (op == 2) {
            clone(CloneType.I2E, 9);
        } else if (op == 3) {
            mark_to_drop(standard_metadata);
            standard_metadata.egress_spec = 2;
        } else if (op == 4) {
            standard_metadata.mcast_grp = 7;
            mark_to_drop(standard_metadata);
        } else if (op == 5) {
            mark_to_drop(standard_metadata);
            standard_metadata.mcast_grp = 7;
        } else if (op == 6 && instance == 0) {
            standard_metadata.mcast_grp = 7;
            meta.kept = 0x55;
            meta.lost = 0x100;
            hdr.first.told = 6;
            resubmit_preserving_field_list(1);
        } else if (op == 7 && instance == 0) {
            clone(CloneType.I2E, 3);
            hdr.first.told = 7;
            resubmit_preserving_field_list(1);
            mark_to_drop(standard_metadata);
        } else if (op == 8) {
            standard_metadata.egress_spec = 511;
            standard_metadata.mcast_grp = 7;
        } else if (op == 9) {
            standard_metadata.egress_spec = 511;
        } else if (op == 11) {
            standard_metadata.mcast_grp = 8;
        } else if (op == 12) {
            meta.kept = 0x12;
            meta.lost = 0x21;
            hdr.first.told = 12;
            standard_metadata.mcast_grp = 7;
        } else if (op == 13) {
            meta.kept = 0x13;
            hdr.first.told = 13;
            clone(CloneType.I2E, 3);
        } else if (op == 14) {
            clone_preserving_field_list(CloneType.I2E, 3, 1);
            meta.kept = 0x14;
            meta.lost = 0x41;
        } else if (op == 15) {
            mark_to_drop(standard_metadata);
            clone(CloneType.I2E, 3);
        } else if (op == 16) {
            clone(CloneType.I2E, 3);
            mark_to_drop(standard_metadata);
            exit;
        } else if (op == 17 && instance == 0) {
            meta.kept = 0x17;
            meta.lost = 0x71;
            resubmit_preserving_field_list(1);
            resubmit_preserving_field_list(2);
        } else if (op == 18 && instance == 4) {
            hdr.first.told = 0x81;
            clone(CloneType.I2E, 3);
        } else if (op == 19) {
            hdr.added.setValid();
            hdr.added.data = 0xadadadad;
        } else if (op == 20) {
            hdr.added.setValid();
            hdr.added.data = 0x20202020;
            clone(CloneType.I2E, 3);
        } else if (op == 21) {
            truncate(14);
            standard_metadata.mcast_grp = 7;
        } else if (op == 22) {
            truncate(14);
        } else if (op == 23) {
            hash(hdr.first.kept, HashAlgorithm.identity, 16w100, { hdr.first.told }, 16w10);
            hash(hdr.first.lost, HashAlgorithm.identity, 16w100, { hdr.first.told }, 16w0);
        } else if (op == 24) {
            random(hdr.first.kept, 16w7, 16w7);
        } else if (op == 25) {
            clone(CloneType.I2E, 6);
        } else if (op == 26) {
            truncate(14);
            clone(CloneType.I2E, 3);
        } else if (op == 27 && instance == 0) {
            truncate(14);
            resubmit_preserving_field_list(1);
        } else if (op == 28) {
            standard_metadata.mcast_grp = 7;
            clone(CloneType.I2E, 3);
        } else if ((op == 81 || op == 88 || op == 89 || op == 93) && instance == 0) {
            standard_metadata.mcast_grp = 7;
        } else if ((op == 82 || op == 84 || op == 92) && instance == 0) {
            clone(CloneType.I2E, 3);
        } else if (op == 86 && instance == 0 || op == 87 && instance == 4) {
            resubmit_preserving_field_list(1);
        } else if ((op == 90 || op == 91) && instance == 0) {
            truncate(14);
        } else if (op == 95 && instance == 0) {
            clone(CloneType.I2E, 3);
            resubmit_preserving_field_list(1);
        } else if (op == 95) {
            clone(CloneType.I2E, 4);
        }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {
        bit<8> op = hdr.first.op;
        bit<32> instance = standard_metadata.instance_type;
        bool fresh = hdr.first.in_type != 4 && instance == 0;
        hdr.first.out_type = (bit<8>)instance;
        hdr.first.rid = (bit<8>)standard_metadata.egress_rid;
        hdr.first.out_length = (bit<16>)standard_metadata.packet_length;
        hdr.first.port = (bit<8>)standard_metadata.egress_port;
        if (op == 12 || op == 14 || op == 44) {
            hdr.first.kept = meta.kept;
            hdr.first.lost = meta.lost;
        }
        if (op == 18 && fresh) {
            recirculate_preserving_field_list(1);
        } else if (op == 40 && fresh) {
            meta.kept = 0x40;
            meta.lost = 0x04;
            hdr.added.setValid();
            hdr.added.data = 0x40404040;
            recirculate_preserving_field_list(1);
        } else if (op == 41 && fresh) {
            recirculate_preserving_field_list(1);
            mark_to_drop(standard_metadata);
        } else if (op == 42 && fresh) {
            clone(CloneType.E2E, 3);
            hdr.first.told = 0x42;
            hdr.added.setValid();
            hdr.added.data = 0x42424242;
        } else if (op == 43 && fresh) {
            clone(CloneType.E2E, 3);
            mark_to_drop(standard_metadata);
        } else if (op == 44 && fresh) {
            clone_preserving_field_list(CloneType.E2E, 3, 1);
            meta.kept = 0x44;
            meta.lost = 0x45;
        } else if (op == 45) {
            standard_metadata.egress_spec = 3;
        } else if (op == 46) {
            standard_metadata.egress_spec = 511;
        } else if (op == 47 && fresh) {
            clone(CloneType.E2E, 3);
            clone(CloneType.E2E, 4);
        } else if (op == 48 && fresh) {
            clone(CloneType.E2E, 3);
            recirculate_preserving_field_list(1);
        } else if (op == 49) {
            truncate(100);
            truncate(10);
        } else if (op == 50) {
            truncate(100);
        } else if (op == 51 && fresh) {
            truncate(10);
            recirculate_preserving_field_list(1);
        } else if (op == 52 && fresh) {
            truncate(10);
            clone(CloneType.E2E, 3);
        } else if (op == 53) {
            mark_to_drop(standard_metadata);
            standard_metadata.egress_spec = 0;
        } else if (op == 54) {
            hdr.first.told = (bit<8>)standard_metadata.egress_spec;
        } else if (op == 80) {
            hdr.first.in_length = (bit<16>)standard_metadata.ingress_global_timestamp;
            hdr.first.out_length = (bit<16>)standard_metadata.egress_global_timestamp;
            hdr.first.kept = (bit<16>)standard_metadata.enq_timestamp;
            hdr.first.lost = (bit<16>)standard_metadata.deq_timedelta;
            hdr.first.told = (bit<8>)standard_metadata.enq_qdepth;
            hdr.first.rid = (bit<8>)standard_metadata.deq_qdepth;
        } else if (op == 55 && fresh) {
            meta.kept = 0x55;
            meta.lost = 0x56;
            recirculate_preserving_field_list(1);
            recirculate_preserving_field_list(2);
        } else if (op == 81 && standard_metadata.egress_rid == 1 || op == 82 && instance == 1
                   || op == 83 && instance == 2 || op == 86 && hdr.first.in_type == 6
                   || op == 87 && hdr.first.in_type == 0 || op == 90 && fresh) {
            recirculate_preserving_field_list(1);
        } else if ((op == 83 || op == 91) && fresh) {
            clone(CloneType.E2E, 3);
        } else if (op == 84 && instance == 1 || op == 89 && instance == 5) {
            clone(CloneType.E2E, 4);
        } else if (op == 85 && hdr.first.told < 2 && hdr.first.in_type == 0) {
            hdr.first.told = hdr.first.told + 1;
            clone(CloneType.E2E, 3);
        } else if (op == 88 && standard_metadata.egress_rid == 2) {
            mark_to_drop(standard_metadata);
        } else if (op == 92 && instance == 1 || op == 93 && standard_metadata.egress_rid == 1) {
            truncate(15);
        } else if (op == 96 && fresh) {
            clone(CloneType.E2E, 6);
            mark_to_drop(standard_metadata);
        }
    }
}

control C(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.sum.isValid() && hdr.sum.value != 9, { hdr.sum.value }, hdr.sum.sum,
                        HashAlgorithm.csum16);
    }
}

control D(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.first);
        packet.emit(hdr.more);
        packet.emit(hdr.length);
        packet.emit(hdr.varied);
        packet.emit(hdr.sum);
        packet.emit(hdr.added);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
