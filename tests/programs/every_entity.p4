// One of each thing that P4Runtime can write or read, for the tests of the server.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8>  a;
    bit<12> b;
    bit<4>  c;
    bit<32> d;
    bit<48> e;
}

struct headers_t {
    data_t data;
}

struct metadata_t {
    bit<16> mark;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control TheChecks(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    register<bit<20>>(8) cells;
    action_profile(4) plain_profile;
    action_selector(HashAlgorithm.crc32, 8, 16) selector_profile;

    action drop() {
        mark_to_drop(standard_metadata);
    }
    action send(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action rewrite(bit<48> e, bit<12> b) {
        hdr.data.e = e;
        hdr.data.b = b;
    }
    action mark(bit<16> value) {
        meta.mark = value;
    }

    table exact_table {
        key = { hdr.data.a: exact; hdr.data.b: exact; }
        actions = { send; rewrite; drop; NoAction; }
        default_action = drop();
        size = 4;
        counters = hits;
    }
    table lpm_table {
        key = { hdr.data.d: lpm; }
        actions = { send; drop; @defaultonly NoAction; @tableonly mark; }
        default_action = NoAction();
        size = 64;
    }
    table priority_table {
        key = { hdr.data.a: ternary; hdr.data.b: range; hdr.data.c: optional; hdr.data.d: exact; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        size = 64;
    }
    table const_table {
        key = { hdr.data.a: exact; }
        actions = { mark; NoAction; }
        const entries = {
            1: mark(10);
            2: mark(20);
        }
    }
    table keyless_table {
        actions = { mark; NoAction; }
        default_action = mark(7);
    }
    table profile_table {
        key = { hdr.data.a: exact; }
        actions = { send; drop; }
        implementation = plain_profile;
        size = 64;
    }
    table selector_table {
        key = { hdr.data.a: exact; hdr.data.e: selector; }
        actions = { send; drop; }
        implementation = selector_profile;
        size = 64;
    }

    apply {
        seen.count((bit<32>)standard_metadata.ingress_port);
        bit<20> value;
        cells.read(value, 0);
        cells.write(0, value + 1);
        exact_table.apply();
        lpm_table.apply();
        priority_table.apply();
        const_table.apply();
        keyless_table.apply();
        profile_table.apply();
        selector_table.apply();
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.data);
    }
}

V1Switch(TheParser(), TheChecks(), TheIngress(), TheEgress(), TheChecks(), TheDeparser()) main;
