/* A bridge: frames for a known address leave by its port; all others are copied to a group of ports. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

struct headers {
    ethernet_t ethernet;
}

struct metadata { }

parser BridgeParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoChecksum(inout headers hdr, inout metadata meta) {
    apply { }
}

control BridgeIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    action flood(bit<16> group) {
        standard.mcast_grp = group;
    }
    table mac {
        key = { hdr.ethernet.dst : exact; }
        actions = { forward; flood; }
        default_action = flood(1);
        size = 1024;
    }
    apply {
        mac.apply();
    }
}

control BridgeEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    counter(64, CounterType.packets) sent;
    apply {
        if (standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard); // a frame does not go back where it came from
        } else {
            sent.count((bit<32>) standard.egress_port);
        }
    }
}

control BridgeDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(BridgeParser(), NoChecksum(), BridgeIngress(), BridgeEgress(), NoChecksum(), BridgeDeparser()) main;
