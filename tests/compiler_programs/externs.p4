// v1model's externs.
#include <core.p4>
#include <v1model.p4>

const bit<8> KEEP = 1;

header h_t {
    bit<8> command;
    bit<8> a;
    bit<16> b;
    bit<32> c;
    bit<16> crc_16;
    bit<32> crc_32;
    bit<16> sum_16;
    bit<16> xor_16;
    bit<16> same;
    bit<32> register_value;
    bit<8> kept;
    bit<8> instance;
    bit<8> colour;
    bit<8> draw;
}

header ip_t {
    bit<16> length;
    bit<16> checksum;
    bit<32> address;
}

struct headers_t { h_t h; ip_t ip; }

struct seen_t { bit<8> a; bit<16> b; }

struct metadata_t {
    @field_list(KEEP, 2)
    bit<8> kept;
    @field_list(KEEP)
    bit<8> also_kept;
    bit<8> lost;
    bit<2> colour;
    bit<8> draw;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.ip);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ip.isValid(), { hdr.ip.length, hdr.ip.address, 16w0x0011 }, hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

control U(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(hdr.ip.isValid() && hdr.h.command != 9,
            { hdr.ip.length, hdr.ip.address, 8w0, hdr.h.a }, hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(16, CounterType.bytes) octets;
    meter(16, MeterType.packets) rate;
    register<bit<32>>(16) numbers;
    register<int<8>>(4) small_numbers;
    int<8> small;

    apply {
        sm.egress_spec = 1;
        octets.count((bit<32>)hdr.h.a & 15);
        rate.execute_meter((bit<32>)hdr.h.a & 15, meta.colour);
        hdr.h.colour = (bit<8>)meta.colour;
        numbers.read(hdr.h.register_value, (bit<32>)hdr.h.a & 15);
        numbers.write((bit<32>)hdr.h.a & 15, hdr.h.register_value + hdr.h.c);
        small_numbers.read(small, 1);
        small = small - 3;
        small_numbers.write(1, small);
        hash(hdr.h.crc_16, HashAlgorithm.crc16, 16w0, { hdr.h.a, hdr.h.b, hdr.h.c }, 32w0x10000);
        hash(hdr.h.crc_32, HashAlgorithm.crc32, 32w0, { hdr.h.a, 8w0xFF, hdr.h.b ++ hdr.h.c }, 64w0x100000000);
        hash(hdr.h.sum_16, HashAlgorithm.csum16, 16w1, { hdr.h.b, hdr.h.c }, 32w1000);
        hash(hdr.h.xor_16, HashAlgorithm.xor16, 16w0, { hdr.h.b, hdr.h.c }, 32w0x10000);
        hash(hdr.h.same, HashAlgorithm.identity, 16w0, { hdr.h.b }, 32w0x10000);
        random(meta.draw, 8w4, 8w7);
        hdr.h.draw = meta.draw >> 2;
        if (sm.instance_type == 0) {
            meta.kept = hdr.h.a;
            meta.also_kept = hdr.h.a + 1;
            meta.lost = 0xFF;
            if (hdr.h.command == 1) {
                resubmit_preserving_field_list(KEEP);
            } else if (hdr.h.command == 2) {
                clone_preserving_field_list(CloneType.I2E, 5, 2);
            } else if (hdr.h.command == 3) {
                digest<seen_t>(1, { hdr.h.a, hdr.h.b });
            } else if (hdr.h.command == 4) {
                truncate(20);
            } else if (hdr.h.command == 5) {
                clone(CloneType.I2E, 6);
            } else if (hdr.h.command == 6) {
                mark_to_drop(sm);
            }
        }
        hdr.h.kept = meta.kept + meta.also_kept;
        hdr.h.instance = (bit<8>)sm.instance_type;
        if (sm.checksum_error == 1) {
            hdr.h.command[7:7] = 1;
        }
        assert(hdr.h.draw == 1);
        assume(hdr.h.isValid());
        log_msg("a is {} and b is {}", { hdr.h.a, hdr.h.b });
        log_msg("plain");
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.instance_type == 0 && hdr.h.command == 7) {
            hdr.h.command = 8;
            meta.kept = 0x42;
            recirculate_preserving_field_list(KEEP);
        }
        if (hdr.h.command == 10 && sm.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, 5, KEEP);
        }
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.ip);
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
