// A switch that sends on what comes to a port by another port, whatever it is.
#include <core.p4>
#include <v1model.p4>

struct headers { }
struct metadata { }

parser Parse(packet_in packet, out headers hdr, inout metadata meta,
             inout standard_metadata_t standard) {
    state start { transition accept; }
}

control Check(inout headers hdr, inout metadata meta) { apply { } }

control Forward(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action send(bit<9> port) { standard.egress_spec = port; }
    action drop() { mark_to_drop(standard); }
    table way {
        key = { standard.ingress_port : exact; }
        actions = { send; drop; }
        default_action = drop();
    }
    apply { way.apply(); }
}

control Leave(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply { }
}

control Compute(inout headers hdr, inout metadata meta) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { } }

V1Switch(Parse(), Check(), Forward(), Leave(), Compute(), Deparse()) main;
