// What the control plane sees: identifiers, names, annotations, types and objects of every kind.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/port", string)
type bit<9> port_id_t;
@p4runtime_translation("example.org/vrf", 32) @origin(routing, 7)
type bit<10> vrf_t;
type bit<12> plain_t;
type plain_t twice_t;
typedef vrf_t other_vrf_t;
enum bit<8> kind_t { FIRST = 1, LAST = 0xFE }
@name("renamed_kind")
enum bit<16> long_kind_t { SHORT = 2, LONG = 300 }
enum colour_t { RED, GREEN }

@name("packet_h")
header h_t {
    @name("first") bit<8> a;
    bit<8> b;
    bit<16> c;
}

@controller_header("packet_in")
header packet_in_t {
    @id(2) bit<9> ingress_port;
    @hidden bit<3> unseen;
    port_id_t target;
    @padding bit<3> pad;
}

@controller_header("packet_out") @sent
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct headers_t { packet_in_t packet_in; packet_out_t packet_out; h_t h; }

struct pair_t { bit<8> x; bit<8> y; }

struct metadata_t {
    @field_list(1) port_id_t port;
    @field_list(1, 2) pair_t pair;
    vrf_t vrf;
    plain_t plain;
    twice_t twice;
    kind_t kind;
    long_kind_t long_kind;
    bool flag;
    bit<2> colour;
    bit<8> x;
}

@name("report")
struct report_t { bit<8> a; kind_t kind; port_id_t port; bool flag; error problem; pair_t pair; }

struct set_t {
    @match(ternary) bit<8> first;
    @id(9) @brief("The second.") bit<8> second;
    @name("last") @match(range) bit<16> third;
}

action global_one() { }
action global_two(bit<8> v) { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t sm) {
    value_set<set_t>(4) many;
    @id(0x3000055) value_set<bit<16>>(1) one;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b, hdr.h.c) {
            many: next;
            _: accept;
        }
    }
    state next {
        transition select(hdr.h.c) { one: accept; default: reject; }
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        bool present = hdr.h.isValid();
        verify_checksum(present, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);
    }
}

control Part(inout h_t h)(bit<32> n) {
    counter(n, CounterType.packets) seen;
    action count(bit<8> v) { h.a = v; seen.count(0); }
    table part { key = { h.a: exact; } actions = { count; global_two; } size = n; }
    apply { part.apply(); }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    @brief("Short.") @description("Long, with \"quotes\".")
    register<port_id_t>(8) ports;
    register<colour_t>(2) colours;
    @name(".top.kinds") register<kind_t>(3) kinds;
    @id(77) @note(a.b, 8w0xff, "s", {1, 2}, -3) counter(16, CounterType.bytes) bytes_seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) rates;
    meter(4, MeterType.bytes) rate;
    @max_group_size(64) @selector_size_semantics("sum_of_members") @max_member_weight(4095)
    action_selector(HashAlgorithm.identity, 1024, 10) members;
    @selector_size_semantics("sum_of_weights")
    action_selector(HashAlgorithm.crc16, 16, 4) weights;

    @brief("Forwards.") @id(5)
    action forward(@id(3) @brief("Where to.") port_id_t port, @name("vlan") bit<12> v,
                   @limit[least=1, most=4094] kind_t kind) {
        meta.port = port;
        meta.plain = (plain_t)v;
        meta.kind = kind;
        rates.read(meta.colour);
    }
    action set_types(vrf_t vrf, other_vrf_t other, twice_t twice, int<7> number) {
        meta.vrf = vrf;
        meta.twice = twice;
    }
    action tell() { digest<report_t>(1, { hdr.h.a, meta.kind, meta.port, true, sm.parser_error,
                                          meta.pair }); }
    action tell_again() {
        report_t again = { 1, kind_t.LAST, meta.port, false, error.NoError, { 1, 2 } };
        digest(1, again);
    }
    @hidden action unseen() { }

    @foo @baz[1, "two", true] @kv[k1=1, k2="v", k3=false] @empty[] @id(0x02000001)
    table main_table {
        key = {
            hdr.h.a: ternary @id(7) @format(MAC_ADDRESS);
            meta.port: optional;
            hdr.h.a & 0x0F: exact;
            hdr.h.isValid(): exact @name("present");
            hdr.h.c[15:8]: range @brief("High.");
            meta.kind: exact;
        }
        actions = { forward; @tableonly tell; @proto_id(3) tell_again; @defaultonly NoAction; }
        const default_action = NoAction();
        counters = hits;
        meters = rates;
        size = 99;
        support_timeout = true;
    }
    table types {
        key = { meta.vrf: lpm; meta.plain: exact; meta.twice: exact; meta.long_kind: ternary; }
        actions = { set_types; global_two; unseen; global_one; }
        default_action = set_types((vrf_t)3, (vrf_t)4, (twice_t)(plain_t)5, 6);
        size = 0;
    }
    table group_one {
        key = { hdr.h.a: exact; hdr.h.b: selector; }
        actions = { global_one; NoAction; }
        implementation = members;
    }
    table group_two {
        key = { hdr.h.a: exact; hdr.h.c: selector; }
        actions = { global_one; NoAction; }
        implementation = weights;
    }
    table in_place {
        key = { hdr.h.a: exact; }
        actions = { global_one; }
        @name("placed") @foo(2) implementation = action_profile(9);
    }
    table fixed {
        key = { hdr.h.a: ternary; hdr.h.c: optional; }
        actions = { global_two; NoAction; }
        const entries = {
            (1, 5): global_two(9);
            (0x0F &&& 0x0F, _): NoAction() @priority(1);
            (_, 7): global_two(4);
        }
    }
    Part(5) first;
    @name("second_part") Part(6) second;

    action called(bit<8> v) { hdr.h.b = v; }

    apply {
        called(3);
        main_table.apply();
        types.apply();
        group_one.apply();
        group_two.apply();
        in_place.apply();
        fixed.apply();
        first.apply(hdr.h);
        second.apply(hdr.h);
        bytes_seen.count(1);
        bit<2> colour;
        rate.execute_meter(0, colour);
        meta.colour = colour;
        port_id_t port;
        ports.read(port, 0);
        ports.write(1, port);
        kinds.write(0, kind_t.FIRST);
        colours.write(0, colour_t.GREEN);
        clone_preserving_field_list(CloneType.I2E, 5, 1);
        resubmit_preserving_field_list(2);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    table egress_table {
        key = { sm.egress_port: exact; sm.egress_rid: exact; }
        actions = { global_two; NoAction; }
    }
    apply { egress_table.apply(); }
}

control U(inout headers_t hdr, inout metadata_t meta) { apply { } }

control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); log_msg("sent {}", { hdr.h.a }); assert(hdr.h.a != 0xEE); }
}

@pkginfo(name="control_plane.p4", version="3", organization="org", contact="c@d.e", url="http://x")
@platform_property(multicast_group_table_size=10, multicast_group_table_total_replicas=20,
                   multicast_group_table_max_replicas_per_entry=5)
@brief("All that a controller sees.") @owner("nobody") @rank[level=1]
V1Switch(dep = D(), p = P(), vr = V(), ig = I(), eg = E(), ck = U()) main;
