#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> kind; }
header cpu_t { bit<16> port; }
struct headers_t { cpu_t cpu; eth_t eth; }
struct metadata_t { bit<2> colour; bit<8> direct; @field_list(1) bit<32> kept; }
struct learn_t { bit<48> src; bit<9> port; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) special;
    state start { transition select(sm.ingress_port) { 7: cpu; default: eth; } }
    state cpu { packet.extract(hdr.cpu); transition eth; }
    state eth { packet.extract(hdr.eth); transition select(hdr.eth.kind) { special: marked; default: accept; } }
    state marked { meta.kept = 1; transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    meter(8, MeterType.packets) packets_meter;
    meter(8, MeterType.bytes) bytes_meter;
    direct_meter<bit<8>>(MeterType.bytes) direct;
    direct_counter(CounterType.packets_and_bytes) direct_count;
    action to(bit<9> port) { sm.egress_spec = port; direct.read(meta.direct); direct_count.count(); }
    action drop() { mark_to_drop(sm); direct_count.count(); direct.read(meta.direct); }
    table forward {
        key = { hdr.eth.dst: exact; }
        actions = { to; drop; }
        default_action = drop();
        size = 16;
        meters = direct;
        counters = direct_count;
        support_timeout = true;
    }
    apply {
        packets_meter.execute_meter((bit<32>)hdr.eth.src & 7, meta.colour);
        hdr.eth.src[9:8] = meta.colour;
        bytes_meter.execute_meter(((bit<32>)hdr.eth.src) & 7, meta.colour);
        hdr.eth.src[11:10] = meta.colour;
        digest<learn_t>(1, { hdr.eth.src, sm.ingress_port });
        if (hdr.cpu.isValid()) { sm.egress_spec = hdr.cpu.port[8:0]; hdr.cpu.setInvalid(); }
        else { forward.apply(); hdr.eth.src[19:12] = meta.direct; }
        hdr.eth.src[20:20] = meta.kept[0:0];
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { if (sm.egress_port == 7) { hdr.cpu.setValid(); hdr.cpu.port = (bit<16>)sm.ingress_port; } }
}
control U(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
