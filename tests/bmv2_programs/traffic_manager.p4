#include <core.p4>
#include <v1model.p4>
// What to do in each of the two controls, in the first pass and in later ones; then what was seen.
header todo_t { bit<8> first; bit<8> again; bit<8> egress; bit<8> egress_again; bit<8> more; bit<16> port; }
header item_t { bit<16> x; bit<16> y; }
header seen_t {
    bit<32> type; bit<32> length; bit<16> in_port; bit<16> spec; bit<16> out_port; bit<16> rid;
    bit<16> mcast; bit<8> m; bit<8> n; bit<8> passes; bit<8> checksum_error; bit<32> parser_error;
}
struct headers_t { todo_t todo; seen_t ingress; seen_t egress; item_t item; item_t added; }
struct meta_t { @field_list(1) bit<8> m; @field_list(1, 2) bit<8> n; @field_list(2) bit<8> passes; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.todo);
        transition select(h.todo.more) { 1: item; 2: seen; _: accept; }
    }
    state seen { p.extract(h.ingress); transition item; }
    state item { p.extract(h.item); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply { verify_checksum(h.item.isValid(), { h.item.x }, h.item.y, HashAlgorithm.csum16); }
}
control Do(inout headers_t h, inout meta_t m, inout standard_metadata_t s, in bit<8> what) {
    apply {
        if (what == 1) clone_preserving_field_list(CloneType.I2E, 1, 1);
        else if (what == 2) { clone(CloneType.I2E, 2); mark_to_drop(s); }
        else if (what == 3) resubmit_preserving_field_list(2);
        else if (what == 4) { resubmit_preserving_field_list(1); clone_preserving_field_list(CloneType.I2E, 1, 2); }
        else if (what == 5) s.mcast_grp = 1;
        else if (what == 6) { s.mcast_grp = 1; mark_to_drop(s); }
        else if (what == 7) { mark_to_drop(s); s.mcast_grp = 1; }
        else if (what == 8) { mark_to_drop(s); s.egress_spec = 3; }
        else if (what == 9) mark_to_drop(s);
        else if (what == 10) truncate(12);
        else if (what == 11) { truncate(12); truncate(30); }
        else if (what == 12) { s.mcast_grp = 9; }
        else if (what == 13) { clone_preserving_field_list(CloneType.I2E, 77, 1); }
        else if (what == 14) { h.added.setValid(); h.added.x = 7; }
        else if (what == 15) { h.item.setInvalid(); }
        else if (what == 16) { truncate(12); s.mcast_grp = 1; }
        else if (what == 17) { s.egress_spec = (bit<9>)h.todo.port; }
        else if (what == 18) { s.priority = 3; }
        else if (what == 19) { clone_preserving_field_list(CloneType.I2E, 1, 1); clone_preserving_field_list(CloneType.I2E, 2, 2); }
        else if (what == 20) { truncate(12); clone_preserving_field_list(CloneType.I2E, 1, 1); }
        else if (what == 21) { resubmit_preserving_field_list(2); s.mcast_grp = 1; }
        else if (what == 22) { m.n = 99; s.instance_type = 42; s.packet_length = 1234; s.egress_port = 5; s.egress_rid = 6; }
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Do() first;
    apply {
        s.egress_spec = 2;
        h.ingress.setValid();
        h.ingress.type = s.instance_type; h.ingress.length = s.packet_length;
        h.ingress.in_port = (bit<16>)s.ingress_port; h.ingress.out_port = (bit<16>)s.egress_port;
        h.ingress.rid = s.egress_rid; h.ingress.mcast = s.mcast_grp; h.ingress.m = m.m; h.ingress.n = m.n;
        h.ingress.passes = m.passes; h.ingress.checksum_error = (bit<8>)s.checksum_error;
        if (s.parser_error == error.PacketTooShort) h.ingress.parser_error = 1;
        m.m = m.m + 3; m.n = m.n + 5; m.passes = m.passes + 1;
        bit<8> what = h.todo.first;
        if (s.instance_type != 0) what = h.todo.again;
        first.apply(h, m, s, what);
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.egress.setValid();
        h.egress.type = s.instance_type; h.egress.length = s.packet_length;
        h.egress.in_port = (bit<16>)s.ingress_port; h.egress.spec = (bit<16>)s.egress_spec;
        h.egress.out_port = (bit<16>)s.egress_port; h.egress.rid = s.egress_rid; h.egress.mcast = s.mcast_grp;
        h.egress.m = m.m; h.egress.n = m.n; h.egress.passes = m.passes;
        h.egress.checksum_error = (bit<8>)s.checksum_error;
        if (s.parser_error == error.PacketTooShort) h.egress.parser_error = 1;
        bit<8> what = h.todo.egress;
        if (s.instance_type == 1 || s.instance_type == 2 || h.todo.more == 2) what = h.todo.egress_again;
        if (what == 1) clone_preserving_field_list(CloneType.E2E, 1, 1);
        else if (what == 2) { clone_preserving_field_list(CloneType.E2E, 2, 2); mark_to_drop(s); }
        else if (what == 3) { h.todo.more = 2; recirculate_preserving_field_list(2); }
        else if (what == 4) { mark_to_drop(s); recirculate_preserving_field_list(1); }
        else if (what == 5) { truncate(12); h.todo.more = 2; recirculate_preserving_field_list(1); clone(CloneType.E2E, 1); }
        else if (what == 6) { mark_to_drop(s); s.egress_spec = 1; }
        else if (what == 7) { s.egress_spec = 4; s.mcast_grp = 1; }
        else if (what == 8) { truncate(12); h.added.setValid(); h.added.y = 3; }
        else if (what == 9) { clone(CloneType.E2E, 3); h.item.setInvalid(); }
        else if (what == 10) { clone(CloneType.E2E, 1); truncate(9); h.item.setValid(); h.item.x = 5; }
        else if (what == 11) { mark_to_drop(s); }
        else if (what == 12) { h.added.setValid(); h.added.x = 3; clone_preserving_field_list(CloneType.E2E, 1, 2); h.added.y = 9; }
    }
}
control U(inout headers_t h, inout meta_t m) {
    apply { update_checksum_with_payload(h.item.isValid(), { h.item.x, h.todo.port }, h.item.y, HashAlgorithm.csum16); }
}
control D(packet_out p, in headers_t h) {
    apply { p.emit(h.todo); p.emit(h.ingress); p.emit(h.egress); p.emit(h.item); p.emit(h.added); }
}
V1Switch(P(), V(), I(), E(), U(), D()) main;
