#include <core.p4>
#include <psa.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t { bit<8> seen; }
struct empty_t {}
parser IP(packet_in b, out headers_t hdr, inout metadata_t m, in psa_ingress_parser_input_metadata_t istd, in empty_t rs, in empty_t rc) {
    state start { b.extract(hdr.ethernet); transition accept; }
}
control IG(inout headers_t hdr, inout metadata_t m, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    action forward(PortId_t port) { send_to_port(ostd, port); }
    action flood(MulticastGroup_t group) { multicast(ostd, group); }
    action drop() { ingress_drop(ostd); }
    table l2 { key = { hdr.ethernet.dst: exact; } actions = { forward; flood; drop; } default_action = drop; }
    apply { m.seen = 1; l2.apply(); }
}
control ID(packet_out b, out empty_t a, out empty_t r, out empty_t n, inout headers_t hdr, in metadata_t m, in psa_ingress_output_metadata_t istd) {
    apply { b.emit(hdr.ethernet); }
}
parser EP(packet_in b, out headers_t hdr, inout metadata_t m, in psa_egress_parser_input_metadata_t istd, in empty_t n, in empty_t c, in empty_t e) {
    state start { b.extract(hdr.ethernet); transition accept; }
}
control EG(inout headers_t hdr, inout metadata_t m, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply { if (istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST) { hdr.ethernet.src = (bit<48>)(bit<16>) istd.instance; } }
}
control ED(packet_out b, out empty_t c, out empty_t r, inout headers_t hdr, in metadata_t m, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { b.emit(hdr); }
}
IngressPipeline(IP(), IG(), ID()) ip;
EgressPipeline(EP(), EG(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
