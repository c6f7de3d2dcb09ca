// Everything goes to port 4; the last bits of the destination address are the priority.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}
struct headers_t {
    ethernet_t ethernet;
}
struct meta_t { }

parser Headers(packet_in packet, out headers_t headers, inout meta_t meta,
               inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.ethernet);
        transition accept;
    }
}
control NoCheck(inout headers_t headers, inout meta_t meta) {
    apply { }
}
control Classes(inout headers_t headers, inout meta_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 4;
        standard.priority = headers.ethernet.dst[2:0];
    }
}
control Nothing(inout headers_t headers, inout meta_t meta, inout standard_metadata_t standard) {
    apply { }
}
control Emit(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.ethernet);
    }
}
V1Switch(Headers(), NoCheck(), Classes(), Nothing(), NoCheck(), Emit()) main;
