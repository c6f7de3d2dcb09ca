// Every operator on numbers. The results go into the packet.
#include <core.p4>
#include <v1model.p4>

header operands_t {
    bit<8> a;
    bit<8> b;
    bit<16> c;
    int<8> d;
    int<8> e;
    bit<32> f;
    bit<4> g;
    bit<4> h;
    bit<48> wide;
    bit<128> huge;
}

header results_t {
    bit<8> sum;
    bit<8> difference;
    bit<8> product;
    bit<8> saturated_sum;
    bit<8> saturated_difference;
    bit<8> shifted_left;
    bit<8> shifted_right;
    bit<8> shifted_by_field;
    bit<8> both;
    bit<8> either;
    bit<8> exclusive;
    bit<8> complement;
    bit<8> negative;
    bit<24> concatenated;
    bit<8> slice;
    bit<16> sliced;
    int<8> signed_sum;
    int<8> signed_difference;
    int<8> signed_product;
    int<8> signed_saturated_sum;
    int<8> signed_saturated_difference;
    int<8> signed_right;
    int<8> signed_left;
    int<8> signed_negative;
    int<16> sign_extended;
    bit<8> reinterpreted;
    int<8> narrowed;
    bit<4> truncated;
    bit<4> rest;
    bit<1> less;
    bit<1> less_signed;
    bit<1> equal;
    bit<1> different;
    bit<1> greater_equal;
    bit<1> combined;
    bit<1> negated;
    bit<1> chosen;
    bit<128> huge_sum;
    bit<48> wide_product;
    int<8> signed_both;
    int<16> signed_concatenated;
    bit<8> quotient;
    bit<8> remainder;
    bit<8> compound;
    bit<8> nested;
}

struct headers_t {
    operands_t operands;
    results_t results;
}

struct metadata_t {
    bool flag;
    bit<8> scratch;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.operands);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action compute() {
        hdr.results.setValid();
        hdr.results.sum = hdr.operands.a + hdr.operands.b;
        hdr.results.difference = hdr.operands.a - hdr.operands.b;
        hdr.results.product = hdr.operands.a * hdr.operands.b;
        hdr.results.saturated_sum = hdr.operands.a |+| hdr.operands.b;
        hdr.results.saturated_difference = hdr.operands.a |-| hdr.operands.b;
        hdr.results.shifted_left = hdr.operands.a << 3;
        hdr.results.shifted_right = hdr.operands.a >> 3;
        hdr.results.shifted_by_field = hdr.operands.a << hdr.operands.g;
        hdr.results.both = hdr.operands.a & hdr.operands.b;
        hdr.results.either = hdr.operands.a | hdr.operands.b;
        hdr.results.exclusive = hdr.operands.a ^ 0x5A;
        hdr.results.complement = ~hdr.operands.a;
        hdr.results.negative = -hdr.operands.a;
        hdr.results.concatenated = hdr.operands.a ++ hdr.operands.c;
        hdr.results.slice = hdr.operands.c[11:4];
        hdr.results.sliced = 0xFFFF;
        hdr.results.sliced[7:4] = hdr.operands.g;
        hdr.results.sliced[15:12] = hdr.operands.a[5:2];
        hdr.results.signed_sum = hdr.operands.d + hdr.operands.e;
        hdr.results.signed_difference = hdr.operands.d - hdr.operands.e;
        hdr.results.signed_product = hdr.operands.d * hdr.operands.e;
        hdr.results.signed_saturated_sum = hdr.operands.d |+| hdr.operands.e;
        hdr.results.signed_saturated_difference = hdr.operands.d |-| hdr.operands.e;
        hdr.results.signed_right = hdr.operands.d >> 2;
        hdr.results.signed_left = hdr.operands.d << 2;
        hdr.results.signed_negative = -hdr.operands.d;
        hdr.results.sign_extended = (int<16>)hdr.operands.d;
        hdr.results.reinterpreted = (bit<8>)hdr.operands.d;
        hdr.results.narrowed = (int<8>)(int<32>)hdr.operands.f;
        hdr.results.truncated = (bit<4>)hdr.operands.a;
        hdr.results.rest = (bit<4>)(hdr.operands.b >> 4);
        hdr.results.less = (bit<1>)(hdr.operands.a < hdr.operands.b);
        hdr.results.less_signed = (bit<1>)(hdr.operands.d < hdr.operands.e);
        hdr.results.equal = (bit<1>)(hdr.operands.g == hdr.operands.h);
        hdr.results.different = (bit<1>)(hdr.operands.g != hdr.operands.h);
        hdr.results.greater_equal = (bit<1>)(hdr.operands.f >= 0x80000000);
        hdr.results.combined = (bit<1>)((hdr.operands.a > 7 && hdr.operands.b < 200) || hdr.operands.g == 0);
        hdr.results.negated = (bit<1>)!(hdr.operands.a > 7);
        hdr.results.chosen = hdr.operands.a > hdr.operands.b ? hdr.operands.f[0:0] : hdr.operands.f[31:31];
        hdr.results.huge_sum = hdr.operands.huge + 128w0x0123456789ABCDEF0123456789ABCDEF;
        hdr.results.wide_product = hdr.operands.wide * 3;
        hdr.results.signed_both = hdr.operands.d & hdr.operands.e;
        hdr.results.signed_concatenated = hdr.operands.d ++ hdr.operands.e;
        hdr.results.compound = hdr.operands.a;
        hdr.results.compound += 5;
        hdr.results.compound ^= hdr.operands.b;
        hdr.results.compound <<= 1;
        hdr.results.nested = (hdr.operands.a + hdr.operands.b) - (hdr.operands.a * 3 + ~hdr.operands.b);
    }

    apply {
        compute();
        meta.flag = hdr.operands.a == hdr.operands.b;
        if (meta.flag || hdr.operands.g > 8) {
            hdr.results.quotient = 1;
        }
        meta.scratch = hdr.operands.a;
        meta.scratch[3:0] = hdr.operands.h;
        hdr.results.remainder = meta.scratch;
        sm.egress_spec = 1;
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
