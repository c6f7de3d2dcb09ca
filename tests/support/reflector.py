"""A program that sends every packet back where it came from, for tests of what runs it."""

REFLECTOR = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { ethernet_t ethernet; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.ethernet); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    counter(8, CounterType.packets) reflected;
    action send(bit<9> port) { s.egress_spec = port; }
    table away { key = { hdr.ethernet.kind : exact; } actions = { send; NoAction; } }
    apply {
        reflected.count((bit<32>) s.ingress_port);
        s.egress_spec = s.ingress_port;
        away.apply();
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
