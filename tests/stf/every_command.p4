// For test_stf.py: something for every statement of an STF test to work on.
#include <core.p4>
#include <v1model.p4>

header head_t {
    bit<8> kind;
    bit<8> a;
    bit<16> b;
    bit<32> c;
}

struct headers_t {
    head_t head;
    head_t[2] more;
}

struct metadata_t {
    bit<9> way;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.head);
        transition select(hdr.head.kind) {
            9: stack;
            default: accept;
        }
    }
    state stack {
        packet.extract(hdr.more.next);
        transition accept;
    }
}

control Check(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(4, CounterType.packets_and_bytes) arrivals;
    direct_counter(CounterType.packets_and_bytes) hits;
    register<bit<32>>(4) memory;
    action_selector(HashAlgorithm.identity, 16, 8) ways;
    meter(4, MeterType.packets) pace;

    action drop() { mark_to_drop(standard); }
    action send(bit<9> port) { standard.egress_spec = port; }
    action mark(bit<9> port, bit<16> value) {
        standard.egress_spec = port;
        hdr.head.b = value;
    }
    action copy(bit<16> group) { standard.mcast_grp = group; }
    action mirror(bit<9> port) {
        standard.egress_spec = port;
        clone(CloneType.I2E, 5);
    }
    action load() {
        memory.read(hdr.head.c, 1);
        standard.egress_spec = 4;
    }
    action measure() {
        bit<8> colour;
        pace.execute_meter(1, colour);
        hdr.head.a = colour;
        standard.egress_spec = 4;
    }

    table by_exact {
        key = { hdr.head.kind: exact; hdr.head.a: exact; }
        actions = { drop; send; mark; copy; mirror; load; measure; }
        default_action = drop();
        counters = hits;
    }
    table by_ternary {
        key = { hdr.head.b: ternary; hdr.more[0].isValid(): exact; hdr.more[0].a: ternary; }
        actions = { send; mark; drop; }
    }
    table by_prefix {
        key = { hdr.head.c: lpm; }
        actions = { send; drop; }
    }
    table by_range {
        key = { hdr.head.b: range; hdr.head.a: optional; }
        actions = { send; drop; }
    }
    table by_selector {
        key = { hdr.head.a: exact; hdr.head.c: selector; }
        actions = { send; drop; NoAction; }
        implementation = ways;
    }

    apply {
        arrivals.count((bit<32>) standard.ingress_port);
        if (hdr.head.kind < 2) {
            by_exact.apply();
        } else if (hdr.head.kind == 3) {
            by_prefix.apply();
        } else if (hdr.head.kind == 4) {
            by_range.apply();
        } else if (hdr.head.kind == 5) {
            by_selector.apply();
        } else {
            by_ternary.apply();
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TheParser(), Check(), TheIngress(), TheEgress(), Update(), TheDeparser()) main;
