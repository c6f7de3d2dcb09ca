// Tables: every match kind, entries, profiles, direct counters and meters, annotations.
#include <core.p4>
#include <v1model.p4>

typedef bit<48> mac_t;
type bit<32> address_t;
@p4runtime_translation("example.org/port", 32)
type bit<9> port_id_t;
enum bit<8> Protocol { tcp = 6, udp = 17 }

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    @id(7) bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    port_id_t egress_port;
    bit<7> padding;
}

header h_t {
    mac_t destination;
    bit<32> source_address;
    bit<32> address;
    bit<16> port;
    bit<8> protocol;
    bit<8> tag;
}

header option_t { bit<8> value; }

struct headers_t {
    packet_in_t packet_in_header;
    packet_out_t packet_out_header;
    h_t h;
    option_t option;
}

struct inner_t { bit<8> deep; bool flag; }
struct metadata_t {
    inner_t inner;
    bit<2> colour;
    bit<8> class;
    port_id_t port;
    address_t address;
    Protocol protocol;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.tag) {
            1: option;
            default: accept;
        }
    }
    state option {
        packet.extract(hdr.option);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) exact_counter;
    direct_meter<bit<2>>(MeterType.bytes) lpm_meter;
    action_profile(128) profile;
    @max_group_size(8)
    action_selector(HashAlgorithm.crc16, 64, 14) selector_one;

    @brief("Sends the packet on.")
    action forward(@id(5) bit<9> port, bit<8> tag) { sm.egress_spec = port; hdr.h.tag = tag; }
    @name("throw_away")
    action drop() { mark_to_drop(sm); }
    action classify(bit<8> class) { meta.class = class; }
    action metered(bit<8> class) { meta.class = class; lpm_meter.read(meta.colour); }
    action send(port_id_t port) { sm.egress_spec = (bit<9>)port; }
    action with_flag(bit<1> flag) { meta.inner.flag = (bool)flag; }
    @hidden action secret() { meta.class = 3; }

    @id(0x1234)
    table exact_table {
        key = { hdr.h.destination: exact; hdr.option.isValid(): exact; meta.inner.flag: exact; }
        actions = { forward; drop; @tableonly classify; @defaultonly NoAction; }
        default_action = NoAction();
        counters = exact_counter;
        size = 64;
        support_timeout = true;
    }

    table lpm_table {
        key = { hdr.h.address: lpm; hdr.h.protocol: exact @name("proto"); }
        actions = { metered; NoAction; }
        meters = lpm_meter;
        const default_action = NoAction;
    }

    @name("the_ternary_table")
    table ternary_table {
        key = { hdr.h.port: ternary; hdr.h.tag[3:0]: ternary @name("low_tag"); hdr.h.address & 0xFF: ternary @name("masked"); }
        actions = { classify; forward; drop; }
        default_action = forward(3, 9);
        const entries = {
            (80, _, _): classify(1);
            (0x1000 &&& 0xF000, 1, _): classify(2);
            (_, 2, 0x10): forward(7, 0x2A);
            (_, _, _): drop();
        }
    }

    table range_table {
        key = { hdr.h.port: range; hdr.h.tag: optional; }
        actions = { classify; drop; NoAction; }
        const entries = {
            (1 .. 1023, _): classify(10);
            (1000 .. 2000, 4): classify(11);
            (8080, _): drop();
            (_, 5): classify(12);
        }
    }

    table optional_table {
        key = { hdr.h.protocol: optional; hdr.h.tag: optional; }
        actions = { classify; NoAction; }
        const entries = {
            (6, 1): classify(20);
            (6, _): classify(21);
            (_, 2): classify(22);
        }
    }

    table lpm_entries {
        key = { hdr.h.source_address: lpm; }
        actions = { with_flag; NoAction; }
        const entries = {
            0x0A000000 &&& 0xFF000000: with_flag(1);
            0x0A010000 &&& 0xFFFF0000: with_flag(0);
            0x0A010203: with_flag(1);
            _: NoAction();
        }
    }

    table profile_table {
        key = { hdr.h.protocol: exact; }
        actions = { classify; drop; }
        implementation = profile;
    }

    table selector_table {
        key = { hdr.h.address: exact; hdr.h.port: selector; hdr.h.protocol: selector; }
        actions = { forward; NoAction; }
        implementation = selector_one;
        size = 256;
    }

    table translated {
        key = { meta.port: exact; meta.address: ternary; meta.protocol: exact; }
        actions = { send; NoAction; }
    }

    table keyless {
        actions = { classify; NoAction; }
        default_action = classify(5);
    }

    @hidden
    table hidden_table {
        actions = { secret; }
        const default_action = secret();
    }

    apply {
        sm.egress_spec = 1;
        meta.port = (port_id_t)sm.ingress_port;
        meta.address = (address_t)hdr.h.address;
        meta.protocol = Protocol.tcp;
        exact_table.apply();
        lpm_table.apply();
        ternary_table.apply();
        range_table.apply();
        optional_table.apply();
        lpm_entries.apply();
        profile_table.apply();
        if (selector_table.apply().miss) {
            keyless.apply();
        }
        hidden_table.apply();
        translated.apply();
        hdr.h.protocol = meta.class;
        hdr.h.destination[0:0] = (bit<1>)meta.inner.flag;
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in_header);
        packet.emit(hdr.h);
        packet.emit(hdr.option);
    }
}

@pkginfo(name="tables.p4", version="2")
V1Switch(P(), V(), I(), E(), U(), D()) main;
