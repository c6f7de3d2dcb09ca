// One of each thing that a script can handle and that test_switch_handle.py's program lacks.

#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header mark_t { bit<16> rid; bit<8> colour; bit<8> parsed; }
struct headers { ethernet_t ethernet; mark_t mark; }
struct metadata { bit<2> colour; bit<8> parsed; }
struct pair_t {
    @match(ternary) bit<48> dst;
    @match(exact) bit<16> kind;
}

parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) kinds;
    value_set<pair_t>(4) pairs;
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            kinds: known;
            default: other;
        }
    }
    state known { m.parsed = 1; transition accept; }
    state other {
        transition select(hdr.ethernet.dst, hdr.ethernet.kind) {
            pairs: both;
            default: accept;
        }
    }
    state both { m.parsed = 2; transition accept; }
}

control V(inout headers hdr, inout metadata m) { apply { } }

control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    direct_meter<bit<2>>(MeterType.packets) police;
    direct_counter(CounterType.packets) hits;
    action_selector(HashAlgorithm.crc16, 16, 8) choice;
    action_profile(4) plain;

    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    action copy(bit<16> group) { s.mcast_grp = group; }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); s.egress_spec = 2; }
    action metered() { police.read(m.colour); }
    table policed {
        key = { hdr.ethernet.src : exact; }
        actions = { metered; NoAction; }
        default_action = NoAction;
        meters = police;
        counters = hits;
    }
    table steps {
        key = { hdr.ethernet.dst : exact; }
        actions = { send; copy; mirror; drop; }
        default_action = drop;
    }
    table choosing {
        key = { hdr.ethernet.dst : exact; hdr.ethernet.src : selector; }
        actions = { send; drop; }
        implementation = choice;
    }
    table bound {
        key = { hdr.ethernet.dst : exact; }
        actions = { send; drop; }
        implementation = plain;
    }
    apply {
        policed.apply();
        if (!choosing.apply().hit) {
            if (!bound.apply().hit) { steps.apply(); }
        }
    }
}

control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    apply {
        hdr.mark.setValid();
        hdr.mark.rid = s.egress_rid;
        hdr.mark.colour = (bit<8>) m.colour;
        hdr.mark.parsed = m.parsed;
    }
}

control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.ethernet); p.emit(hdr.mark); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
