// A bit of everything that the language has; its test is what BMv2 does.
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

enum bit<16> EtherType {
    VLAN = 0x8100, QINQ = 0x9100, IPV4 = 0x0800
}

typedef bit<12> vlan_id_t;
type bit<9> PortNum_t;
header vlan_t {
    bit<3> pcp;
    bit<1> cfi;
    vlan_id_t vid;
    bit<16> etherType;
}

header opts_t {
    varbit<320> options;
}

struct pair_t {
    bit<8> x;
    bit<16> y;
}

header sum_t {
    int<8> s;
    int<8> t;
    bit<8> u;
    bit<8> v;
    bit<32> w;
    bit<64> z;
}

struct metadata {
    pair_t pair;
    bool flag;
    bit<4> nib;
    bit<16> l4len;
}

struct headers {
    ethernet_t ethernet;
    vlan_t[2] vlan;
    ipv4_t ipv4;
    opts_t opts;
    udp_t udp;
    sum_t sum;
}

bit<16> biggest(in bit<16> a, in bit<16> b) {
    if (a > b) {
        return a;
    }
    return b;
}

parser Sub(packet_in packet, inout vlan_t[2] vlan, out bit<16> et) {
    state start {
        packet.extract(vlan.next);
        transition select(vlan.last.etherType) {
            0x8100: more;
            default: done;
        }
    }
    state more {
        packet.extract(vlan.next);
        transition done;
    }
    state done {
        et = vlan.last.etherType;
        transition accept;
    }
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta,
        inout standard_metadata_t standard_metadata) {
    Sub() sub;
    value_set<bit<16>>(4) known;
    bit<16> et;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            EtherType.VLAN: tags;
            EtherType.QINQ: tags;
            EtherType.IPV4: ip;
            0x7000 &&& 0xff00: sums;
            0x6000 .. 0x60ff: sums;
            known: sums;
            _: accept;
        }
    }
    state tags {
        sub.apply(packet, hdr.vlan, et);
        transition select(et) {
            EtherType.IPV4: ip;
            default: accept;
        }
    }
    state ip {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl) {
            5: l4;
            6 .. 15: options;
            default: reject;
        }
    }
    state options {
        packet.extract(hdr.opts, ((bit<32>)hdr.ipv4.ihl - 5) * 32);
        transition l4;
    }
    state l4 {
        transition select(hdr.ipv4.protocol, hdr.ipv4.fragOffset) {
            (17, 0): udp;
            (_, _): accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dstPort) {
            7000: sums;
            default: accept;
        }
    }
    state sums {
        packet.extract(hdr.sum);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {
    }
}

control Inner(inout headers hdr, in bit<8> k)(bit<8> c) {
    apply {
        hdr.sum.v = k + c;
    }
}

control MyIngress(inout headers hdr, inout metadata meta,
        inout standard_metadata_t standard_metadata) {
    Inner(3) in3;
    Inner(5) in5;
    action set(bit<9> port, bit<4> n) {
        standard_metadata.egress_spec = port;
        meta.nib = n;
    }
    action nop() {
    }
    action set2() {
    }
    table again {
        key = {
            meta.nib: exact;
        }
        actions = {
            set2;
            nop;
        }
        const entries = {
            1: set2();
            2: nop();
        }
        default_action = nop();
    }
    table ranges {
        key = {
            hdr.ipv4.ttl: range;
            hdr.ipv4.isValid(): exact;
            hdr.vlan[0].vid: ternary @name("vid");
        }
        actions = {
            set;
            nop;
        }
        default_action = set(1, 0);
        const entries = {
            (1 .. 10, true, 5 &&& 0xf): set(2, 1);
            (1 .. 20, true, _): set(3, 2);
            (_, false, _): set(4, 3);
        }
    }
    apply {
        meta.pair = { x = 1, y = 2 };
        ranges.apply();
        switch (meta.nib) {
            1: {
                hdr.ethernet.srcAddr = 1;
            }
            2: {
                hdr.ethernet.srcAddr = 2;
            }
            default: {
                hdr.ethernet.srcAddr = 0xff;
            }
        }
        switch (again.apply().action_run) {
            set2: {
                hdr.ethernet.dstAddr[3:0] = meta.nib;
            }
            default: {
                hdr.ethernet.dstAddr = 0;
            }
        }
        if (hdr.sum.isValid()) {
            int<8> a = hdr.sum.s;
            int<8> b = hdr.sum.t;
            hdr.sum.z[7:0] = (bit<8>)(a |+| b);
            hdr.sum.z[15:8] = (bit<8>)(a |-| b);
            hdr.sum.z[23:16] = (bit<8>)(a >> 1);
            hdr.sum.z[31:24] = (bit<8>)(a * b);
            hdr.sum.z[32:32] = (bit<1>)(a < b);
            hdr.sum.z[39:33] = (hdr.sum.u >> 2)[6:0];
            hdr.sum.z[55:40] = biggest((bit<16>)hdr.sum.u, hdr.sum.w[15:0]);
            hdr.sum.z[63:56] = hdr.sum.u |-| hdr.sum.v;
            hdr.sum.w = hdr.sum.w << hdr.sum.u[2:0];
            hdr.sum.w = ~hdr.sum.w ^ (bit<32>)(hdr.sum.v ++ hdr.sum.u);
            if (a == -1 || (bool)hdr.sum.u[0:0]) {
                in3.apply(hdr, hdr.sum.u);
            } else {
                in5.apply(hdr, hdr.sum.u);
            }
            hdr.sum.s = -a;
            hdr.sum.t = (a > 0 ? b : -b);
        }
        if (hdr.vlan[0].isValid() && !hdr.vlan[1].isValid()) {
            hdr.vlan.push_front(1);
            hdr.vlan[0] = { 7, 0, 100, 0x8100 };
            hdr.ethernet.etherType = EtherType.QINQ;
        } else if (hdr.vlan[1].isValid()) {
            hdr.vlan.pop_front(1);
        }
        meta.l4len = hdr.ipv4.totalLen - (bit<16>)(hdr.ipv4.ihl * 4);
        log_msg("nib {} len {}", {meta.nib, meta.l4len});
    }
}

control MyEgress(inout headers hdr, inout metadata meta,
        inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.udp.isValid()) {
            hdr.udp.checksum = meta.l4len;
        }
    }
}

control MyComputeChecksum(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv,
                hdr.ipv4.totalLen, hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset,
                        hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr,
                                hdr.opts.options }, hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

control MyDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.opts);
        packet.emit(hdr.udp);
        packet.emit(hdr.sum);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(),
        MyDeparser()) main;
