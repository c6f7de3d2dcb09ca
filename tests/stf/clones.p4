// Clones, resubmission, recirculation, multicast, truncation, in every combination; its test is what BMv2 does.
#include <core.p4>
#include <v1model.p4>
header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> diffserv;
    bit<16> totalLen;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragOffset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> hdrChecksum;
    bit<32> srcAddr;
    bit<32> dstAddr;
}

header tcp_t {
    bit<16> srcPort;
    bit<16> dstPort;
    bit<32> seqNo;
    bit<32> ackNo;
    bit<4> dataOffset;
    bit<4> res;
    bit<1> cwr;
    bit<1> ece;
    bit<1> urg;
    bit<1> ack;
    bit<1> psh;
    bit<1> rst;
    bit<1> syn;
    bit<1> fin;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgentPtr;
}

header udp_t {
    bit<16> srcPort;
    bit<16> dstPort;
    bit<16> length_;
    bit<16> checksum;
}

header tag_t {
    bit<8> kind;
    bit<8> count;
    bit<16> a;
    bit<32> b;
}

struct metadata {
    @field_list(1) bit<16> kept;
    @field_list(1, 2) bit<8> loops;
    bit<16> lost;
    @field_list(2) bit<32> other;
}

struct headers {
    ethernet_t ethernet;
    tag_t tag;
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta,
        inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.tag);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {
    }
}

control MyIngress(inout headers hdr, inout metadata meta,
        inout standard_metadata_t standard_metadata) {
    action noop() {
    }
    action clone_plain(bit<9> port) {
        standard_metadata.egress_spec = port;
        clone(CloneType.I2E, 32w3);
        hdr.tag.a = 0x1111;
    }
    action clone_kept(bit<9> port) {
        meta.kept = 0x2222;
        meta.lost = 0x3333;
        meta.loops = 9;
        clone_preserving_field_list(CloneType.I2E, 4, 1);
        standard_metadata.egress_spec = port;
        hdr.tag.a = 0x1112;
    }
    action again() {
        meta.loops = meta.loops + 1;
        meta.lost = meta.lost + 1;
        resubmit_preserving_field_list(1);
        hdr.tag.b = 0xffffffff;
        standard_metadata.egress_spec = 5;
    }
    action mcast(bit<16> g) {
        standard_metadata.mcast_grp = g;
        standard_metadata.egress_spec = 7;
    }
    action go(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action drop() {
        mark_to_drop(standard_metadata);
    }
    action drop_clone() {
        mark_to_drop(standard_metadata);
        clone(CloneType.I2E, 3);
    }
    action drop_then_mc(bit<16> g) {
        mark_to_drop(standard_metadata);
        standard_metadata.mcast_grp = g;
    }
    table t {
        key = {
            hdr.tag.kind: exact;
        }
        actions = {
            noop;
            clone_plain;
            clone_kept;
            again;
            mcast;
            go;
            drop;
            drop_clone;
            drop_then_mc;
        }
        default_action = noop();
    }
    apply {
        if (hdr.tag.kind == 3 && meta.loops == 3) {
            standard_metadata.egress_spec = 6;
            hdr.tag.a = meta.kept;
            hdr.tag.count = meta.loops;
            hdr.tag.b = (bit<32>)meta.lost;
        } else {
            t.apply();
        }
        if (hdr.tag.kind == 3) {
            hdr.ethernet.srcAddr[7:0] = (bit<8>) standard_metadata.instance_type;
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta,
        inout standard_metadata_t standard_metadata) {
    apply {
        hdr.ethernet.dstAddr =
                8w0 ++ (bit<8>)standard_metadata.instance_type ++ (bit<16>)standard_metadata.egress_rid ++ meta.kept;
        hdr.tag.b = hdr.tag.b + (bit<32>) meta.lost;
        if (standard_metadata.instance_type == 0 && hdr.tag.kind == 9) {
            clone(CloneType.E2E, 0);
            hdr.tag.a = 0x9999;
        }
        if (standard_metadata.instance_type == 0 && hdr.tag.kind == 10) {
            meta.other = 77;
            meta.loops = 5;
            clone_preserving_field_list(CloneType.E2E, 0, 2);
            mark_to_drop(standard_metadata);
        }
        if (standard_metadata.instance_type == 2) {
            hdr.tag.count = meta.loops;
            hdr.tag.a = (bit<16>)meta.other;
        }
        if (hdr.tag.kind == 11 && standard_metadata.instance_type == 0) {
            meta.kept = 0x4444;
            recirculate_preserving_field_list(1);
            hdr.tag.count = hdr.tag.count + 1;
        }
        if (hdr.tag.kind == 12) {
            truncate(20);
        }
        if (hdr.tag.kind == 13) {
            truncate(3);
        }
        hdr.ethernet.srcAddr[15:8] = (bit<8>) (standard_metadata.packet_length);
    }
}

control MyComputeChecksum(inout headers hdr, inout metadata meta) {
    apply {
    }
}

control MyDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(),
        MyDeparser()) main;
