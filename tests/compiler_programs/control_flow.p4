// Control flow: switch, exit, return, hit and miss, functions, directed parameters, sub-controls.
// (p4c 1.2.5.16 crashes on an exit in a control that is instantiated twice: NO_EXIT_IN_SUBCONTROL.)
#include <core.p4>
#include <v1model.p4>

enum bit<8> Kind { plain = 1, double = 2, leave = 3, quit = 4 }
enum Colour { red, green, blue }

header h_t {
    bit<8> kind;
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> trace;
    bit<8> extra;
}

struct headers_t { h_t h; }
struct metadata_t { bit<8> x; Colour colour; }

bit<8> larger(in bit<8> left, in bit<8> right) {
    if (left > right) {
        return left;
    }
    return right;
}

void swap(inout bit<8> left, inout bit<8> right) {
    bit<8> kept = left;
    left = right;
    right = kept;
}

bit<8> bump(inout bit<8> value) {
    value = value + 1;
    return value;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Adder(inout bit<8> value, in bit<8> amount, out bit<8> before)(bit<8> offset) {
    apply {
        before = value;
        if (amount == 0) {
            return;
        }
        value = value + amount + offset;
#ifndef NO_EXIT_IN_SUBCONTROL
        if (value == 0xFE) {
            exit;
        }
#endif
        value = value ^ 1;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Adder(10) add_ten;
    Adder(20) add_twenty;
    bit<8> before = 7;

    action mark(bit<8> value) { hdr.h.trace = hdr.h.trace | value; }
    action combine(inout bit<8> target, in bit<8> amount, bit<8> data) {
        target = target + amount;
        hdr.h.c = hdr.h.c + 1;
        target = target + data;
    }
    action early(bit<8> value) {
        if (hdr.h.a < 16) {
            hdr.h.extra = 0x11;
            return;
        }
        if (hdr.h.a > 240) {
            hdr.h.extra = 0x22;
            exit;
        } else if (hdr.h.a > 200) {
            hdr.h.extra = 0x33;
        } else {
            hdr.h.extra = value;
        }
        hdr.h.trace = hdr.h.trace | 0x80;
    }

    table by_a {
        key = { hdr.h.a: exact; }
        actions = { mark; early; combine(hdr.h.c, hdr.h.b); NoAction; }
        const default_action = early(0x44);
        const entries = {
            1: mark(1);
            2: combine(hdr.h.c, hdr.h.b, 3);
            3: NoAction();
        }
    }

    table by_b {
        key = { hdr.h.b: ternary @name("b"); hdr.h.kind: exact; }
        actions = { mark; @defaultonly NoAction; }
        default_action = NoAction;
        const entries = {
            (0x10 &&& 0xF0, 1): mark(2);
            (_, 2): mark(4);
        }
    }

    table by_c {
        key = { hdr.h.c: exact; }
        actions = { mark; NoAction; }
        const entries = { 9: mark(8); }
    }

    apply {
        sm.egress_spec = 1;
        switch (by_a.apply().action_run) {
            mark: { hdr.h.extra = hdr.h.extra + 1; }
            combine:
            early: { hdr.h.extra = hdr.h.extra + 2; }
            default: { hdr.h.extra = 0x99; }
        }
        if (by_b.apply().hit) {
            hdr.h.trace = hdr.h.trace | 0x10;
        } else {
            hdr.h.trace = hdr.h.trace | 0x20;
        }
        if (hdr.h.kind < 0x80 && by_c.apply().hit) {
            hdr.h.trace = hdr.h.trace | 0x40;
        }
        switch (hdr.h.kind) {
            Kind.plain: { meta.colour = Colour.red; }
            Kind.double:
            5: { meta.colour = Colour.blue; hdr.h.a = larger(hdr.h.a, hdr.h.b); }
            Kind.leave: { return; }
            Kind.quit: { hdr.h.c = 0x77; }
            default: { meta.colour = Colour.green; }
        }
        if (hdr.h.c == 0x77) {
            return;
        }
        if (meta.colour == Colour.blue) {
            swap(hdr.h.a, hdr.h.c);
        }
        meta.x = 3;
        hdr.h.b = hdr.h.b + bump(meta.x) + meta.x;
        add_ten.apply(hdr.h.a, hdr.h.b, before);
        hdr.h.extra = hdr.h.extra + before;
        add_twenty.apply(hdr.h.a, 1, before);
        mark(0x01);
        combine(hdr.h.b, hdr.h.c, 2);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.h.kind = hdr.h.kind + 1;
    }
}

control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
