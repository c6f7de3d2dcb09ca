// Packets that multiply or go round without end, as their first byte says; of 0 and others a frame
// is forwarded, of 8 and 10 cut to nothing and to 3 bytes.
#include <core.p4>
#include <v1model.p4>

header order_t { bit<8> kind; bit<8> port; }
struct Headers { order_t order; }
struct Metadata { @field_list(1) bit<8> kept; }

parser TheParser(packet_in packet, out Headers hdr, inout Metadata meta,
                 inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.order); transition accept; }
}
control Verify(inout Headers hdr, inout Metadata meta) { apply { } }
control Compute(inout Headers hdr, inout Metadata meta) { apply { } }

control TheIngress(inout Headers hdr, inout Metadata meta,
                   inout standard_metadata_t standard_metadata) {
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    table ports {
        key = { hdr.order.port: exact; }
        actions = { forward; NoAction; }
    }
    apply {
        standard_metadata.egress_spec = (bit<9>) hdr.order.port;
        ports.apply();
        if (hdr.order.kind == 1) {
            standard_metadata.mcast_grp = 1;
        }
        if (hdr.order.kind == 2) {
            clone(CloneType.I2E, 1);
        }
        if (hdr.order.kind == 4) {
            resubmit_preserving_field_list(1);
        }
        if (hdr.order.kind == 6) {
            clone(CloneType.I2E, 2);
            resubmit_preserving_field_list(1);
        }
    }
}
control TheEgress(inout Headers hdr, inout Metadata meta,
                  inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.order.kind == 1 || hdr.order.kind == 2 || hdr.order.kind == 5) {
            recirculate_preserving_field_list(1);
        }
        if (hdr.order.kind == 3) {
            clone(CloneType.E2E, 1);
        }
        if (hdr.order.kind == 7) {
            clone(CloneType.E2E, 1);
            mark_to_drop(standard_metadata);
        }
        if (hdr.order.kind == 8) {
            truncate(0);
        }
        if (hdr.order.kind == 10) {
            truncate(3);
        }
    }
}
control TheDeparser(packet_out packet, in Headers hdr) { apply { packet.emit(hdr.order); } }

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Compute(), TheDeparser()) main;
