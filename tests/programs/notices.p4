// Cells, and what a switch tells its controller: a program for both kinds of switch, CPU port 200.

#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
@controller_header("packet_in")
header packet_in_t { bit<9> port; bit<7> reason; }
@controller_header("packet_out")
header packet_out_t { bit<9> port; bit<7> pad; }
struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; }
struct learned_t { bit<48> src; bit<9> port; }
struct metadata { bit<2> colour; }

const bit<9> CPU_PORT = 200;

parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }
    state from_controller { p.extract(hdr.packet_out); transition ethernet; }
    state ethernet { p.extract(hdr.ethernet); transition accept; }
}

control V(inout headers hdr, inout metadata m) { apply { } }

control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    register<bit<32>>(8) seen;
    counter(8, CounterType.packets_and_bytes) passed;
    meter(4, MeterType.packets) police;

    action send(bit<9> port) { s.egress_spec = port; }
    action punt() {
        s.egress_spec = CPU_PORT;
        hdr.packet_in.setValid();
        hdr.packet_in.port = s.ingress_port;
        hdr.packet_in.reason = 5;
    }
    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src, s.ingress_port });
        mark_to_drop(s);
    }
    table steps {
        key = { hdr.ethernet.dst : exact; }
        actions = { send; punt; learn; NoAction; }
        support_timeout = true;
        size = 64;
    }
    apply {
        if (hdr.packet_out.isValid()) {
            s.egress_spec = hdr.packet_out.port;
            hdr.packet_out.setInvalid();
        } else {
            steps.apply();
            seen.write(1, 7);
            passed.count(2);
            police.execute_meter(1, m.colour);
            hdr.ethernet.src[1:0] = m.colour;
        }
    }
}

control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) {
    apply { p.emit(hdr.packet_in); p.emit(hdr.packet_out); p.emit(hdr.ethernet); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
