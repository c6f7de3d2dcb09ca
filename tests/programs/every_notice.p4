// What a switch tells its controller of itself, and types that read otherwise than they are, for the
// tests of the P4Runtime server.

#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("weft/port_name", string)
type bit<9> port_name_t;

@p4runtime_translation("", string)
@p4runtime_translation_mappings({ {"", 0}, {"blue", 3} })
type bit<10> vrf_name_t;

@p4runtime_translation("weft/wide", bit<32>)
type bit<9> wide_port_t;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<1> is_clone;
    bit<6> _pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9>  egress_port;
    bit<7>  _pad;
    bit<16> mark;
}

header data_t {
    bit<8>  kind;
    bit<16> key;
    bit<48> wide;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    data_t       data;
}

struct learned_t {
    bit<16> key;
    bit<9>  port;
}

struct metadata_t {
    bit<2>    colour;
    learned_t learned;
    port_name_t name;
    vrf_name_t  vrf;
    wide_port_t wide_port;
}

const bit<9> CPU_PORT = 8;

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    @name("kinds") value_set<bit<8>>(4) kinds;
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: from_controller;
            default: data;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition accept;
    }
    state data {
        packet.extract(hdr.data);
        transition select(hdr.data.kind) {
            kinds: special;
            default: accept;
        }
    }
    state special {
        hdr.data.key = 0xffff;
        transition accept;
    }
}

control TheChecks(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    meter(4, MeterType.packets) rates;
    direct_meter<bit<2>>(MeterType.bytes) entry_rates;
    direct_counter(CounterType.packets) hits;
    register<int<12>>(2) signed_cells;
    register<bit<64>>(2) wide_cells;

    action send(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action metered(bit<9> port) {
        entry_rates.read(meta.colour);
        standard_metadata.egress_spec = port;
    }
    action learn() {
        digest<learned_t>(1, meta.learned);
        mark_to_drop(standard_metadata);
    }
    action punt() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in.is_clone = 1;
        hdr.packet_in._pad = 0;
        standard_metadata.egress_spec = CPU_PORT;
    }
    action named(port_name_t port, vrf_name_t vrf, wide_port_t wide) {
        meta.vrf = vrf;
        meta.wide_port = wide;
        standard_metadata.egress_spec = (bit<9>)port;
    }

    table ageing {
        key = { hdr.data.key: exact; }
        actions = { send; learn; punt; NoAction; }
        default_action = punt();
        size = 16;
        support_timeout = true;
        counters = hits;
    }
    @p4runtime_role("names")
    table names {
        key = { meta.name: exact; meta.vrf: optional; hdr.data.wide: ternary; }
        actions = { named; NoAction; }
        size = 16;
    }
    table rated {
        key = { hdr.data.key: exact; }
        actions = { metered; NoAction; }
        size = 16;
        meters = entry_rates;
    }
    table given {
        key = { hdr.data.key: exact; }
        actions = { send; NoAction; }
        size = 4;
        entries = { const 0x1233: send(4); 0x1234: send(2); 0x1235: send(3); }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            meta.learned.key = hdr.data.key;
            meta.learned.port = standard_metadata.ingress_port;
            meta.name = (port_name_t)standard_metadata.ingress_port;
            rates.execute_meter((bit<32>)0, meta.colour);
            ageing.apply();
            if (hdr.data.kind == 9) {
                rated.apply();
                if (meta.colour != 0) {
                    mark_to_drop(standard_metadata);
                }
            }
            if (hdr.data.kind == 6) {
                given.apply();
            }
            if (hdr.data.kind == 8) {
                names.apply();
            }
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.data);
    }
}

V1Switch(TheParser(), TheChecks(), TheIngress(), TheEgress(), TheChecks(), TheDeparser()) main;
