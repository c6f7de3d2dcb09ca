// Twelve tables that every packet goes through, as in a router's pipeline: for `weft bench switch`.
//
// All keys and actions are what such a pipeline has: exact, longest prefix, ternary and range
// matches, counters, a hash over the flow. Entries are constant, so that any switch runs it without
// a controller: what comes in for 10/8 leaves by port 2.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
}

struct metadata_t {
    bit<12> bridge;
    bit<10> vrf;
    bit<1> routed;
    bit<16> next_hop;
    bit<16> path;
    bit<4> traffic_class;
    bit<8> interface;
    bit<8> acl_label;
}

parser TwelveParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            17: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control TwelveVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control TwelveIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) route_counter;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action set_interface(bit<8> interface, bit<12> bridge) {
        meta.interface = interface;
        meta.bridge = bridge;
    }

    action set_vrf(bit<10> vrf) {
        meta.vrf = vrf;
    }

    action route() {
        meta.routed = 1;
    }

    action label(bit<8> value) {
        meta.acl_label = value;
    }

    action set_class(bit<4> traffic_class) {
        meta.traffic_class = traffic_class;
    }

    action set_next_hop(bit<16> next_hop) {
        route_counter.count();
        meta.next_hop = next_hop;
    }

    action set_path(bit<16> paths) {
        hash(meta.path, HashAlgorithm.crc16, 16w0,
             { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol, hdr.udp.src_port,
               hdr.udp.dst_port }, paths);
    }

    action forward(bit<9> port, bit<48> dst_addr) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table port_table {
        key = { standard_metadata.ingress_port: exact; }
        actions = { set_interface; drop; }
        const default_action = drop();
        const entries = { 1: set_interface(1, 10); 2: set_interface(2, 10); 3: set_interface(3, 11); }
    }

    table vrf_table {
        key = { meta.interface: exact; meta.bridge: exact; }
        actions = { set_vrf; }
        const default_action = set_vrf(0);
        const entries = { (1, 10): set_vrf(1); (2, 10): set_vrf(1); (3, 11): set_vrf(2); }
    }

    table station_table {
        key = { hdr.ethernet.dst_addr: ternary; meta.bridge: ternary; }
        actions = { route; NoAction; }
        const default_action = NoAction();
        const entries = { (0x020000000000 &&& 0x030000000000, _): route(); (_, 12): route(); }
    }

    table ingress_acl {
        key = {
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.ipv4.protocol: ternary;
            hdr.udp.dst_port: range;
        }
        actions = { label; drop; }
        const default_action = label(0);
        const entries = {
            (0xC0A80000 &&& 0xFFFF0000, _, _, _): drop();
            (_, 0x0AFF0000 &&& 0xFFFF0000, 6, _): drop();
            (_, _, 17, 4791..4792): label(7);
        }
    }

    table class_table {
        key = { hdr.ipv4.dscp: exact; }
        actions = { set_class; }
        const default_action = set_class(0);
        const entries = { 0: set_class(1); 26: set_class(3); 46: set_class(5); }
    }

    table host_table {
        key = { meta.vrf: exact; hdr.ipv4.dst_addr: exact; }
        actions = { set_next_hop; }
        counters = route_counter;
        const entries = { (2, 0x0A000001): set_next_hop(4); (2, 0x0A000002): set_next_hop(5); }
    }

    table route_table {
        key = { hdr.ipv4.dst_addr: lpm; meta.vrf: exact; }
        actions = { set_path; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0x0A000000 &&& 0xFF000000, 1): set_path(4);
            (0x0A010000 &&& 0xFFFF0000, 1): set_path(4);
            (0x0A010100 &&& 0xFFFFFF00, 1): set_path(4);
            (0x0B000000 &&& 0xFF000000, 1): set_path(1);
        }
    }

    table path_table {
        key = { meta.path: exact; }
        actions = { label; }
        const default_action = label(9);
        const entries = { 0: label(1); 1: label(2); 2: label(3); 3: label(4); }
    }

    table next_hop_table {
        key = { meta.routed: exact; meta.vrf: exact; }
        actions = { forward; drop; }
        const default_action = drop();
        const entries = { (1, 1): forward(2, 0x020000000009); (1, 2): forward(3, 0x02000000000A); }
    }

    apply {
        port_table.apply();
        vrf_table.apply();
        station_table.apply();
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && standard_metadata.checksum_error == 0) {
            class_table.apply();
            host_table.apply();
            route_table.apply();
            path_table.apply();
            next_hop_table.apply();
            ingress_acl.apply();
        } else {
            drop();
        }
    }
}

control TwelveEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(512, CounterType.packets_and_bytes) port_counter;

    action set_source(bit<48> address) {
        hdr.ethernet.src_addr = address;
    }

    action set_dscp(bit<6> dscp) {
        hdr.ipv4.dscp = dscp;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table source_table {
        key = { standard_metadata.egress_port: exact; }
        actions = { set_source; }
        const default_action = set_source(0x020000000001);
        const entries = { 2: set_source(0x020000000002); 3: set_source(0x020000000003); }
    }

    table remark_table {
        key = { meta.traffic_class: exact; standard_metadata.egress_port: exact; }
        actions = { set_dscp; NoAction; }
        const default_action = NoAction();
        const entries = { (1, 2): set_dscp(8); (3, 2): set_dscp(26); }
    }

    table egress_acl {
        key = { meta.acl_label: ternary; standard_metadata.egress_port: ternary; }
        actions = { drop; NoAction; }
        const default_action = NoAction();
        const entries = { (0x80 &&& 0x80, _): drop(); (_, 4): drop(); }
    }

    apply {
        source_table.apply();
        remark_table.apply();
        egress_acl.apply();
        port_counter.count((bit<32>)standard_metadata.egress_port);
    }
}

control TwelveCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control TwelveDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TwelveParser(), TwelveVerify(), TwelveIngress(), TwelveEgress(), TwelveCompute(),
         TwelveDeparser()) main;
