// Values of more than 64 bits and varbit fields: one operation a packet, its result in `result`.
#include <core.p4>
#include <v1model.p4>

header main_t {
    bit<8> operation;
    bit<8> amount;
    bit<128> a;
    bit<128> b;
    int<100> s;
    bit<4> pad;
    bit<200> w;
}

header options_t {
    bit<4> kind;
    varbit<320> data;
    bit<4> last;
    bit<16> check;
}

header result_t {
    bit<300> result;
    bit<4> flags;
}

struct headers_t {
    main_t main;
    options_t options;
    options_t other;
    result_t result;
}

struct metadata_t {
    bit<100> ahead;
    bit<8> way;
    bit<128> kept;
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    state start {
        packet.extract(h.main);
        transition select(h.main.operation, h.main.a) {
            (0x40, 0x20010db8000000000000000000000001): exact_way;
            (0x40, 0x20010db8000000000000000000000000 &&& 0xffffffff000000000000000000000000): masked;
            (0x41, _): ahead;
            (0x50 &&& 0xf0, _): options;
            default: accept;
        }
    }
    state exact_way {
        m.way = 1;
        transition accept;
    }
    state masked {
        m.way = 2;
        transition accept;
    }
    state ahead {
        m.ahead = packet.lookahead<bit<100>>();
        transition select(packet.lookahead<bit<90>>()) {
            0x111111111111111111 &&& 0xffffffffffffffffff: exact_way;
            default: accept;
        }
    }
    state options {
        packet.extract(h.options, (bit<32>)h.main.amount << 1);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.options.isValid() && h.main.operation == 0x55,
            { h.options.kind, h.options.data, h.options.last }, h.options.check,
            HashAlgorithm.csum16);
    }
}

control IngressC(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    register<bit<128>>(4) wide_register;
    register<int<100>>(4) signed_register;

    action give(bit<128> value) {
        h.result.result = (bit<300>)value;
    }
    action miss() {
        h.result.flags = 7;
    }
    table exact_table {
        key = { h.main.a: exact; h.main.amount: exact; }
        actions = { give; miss; }
        default_action = miss();
    }
    table prefix_table {
        key = { h.main.a: lpm; }
        actions = { give; miss; }
        default_action = miss();
    }
    table ternary_table {
        key = { h.main.w: ternary; h.main.b: exact; }
        actions = { give; miss; }
        default_action = miss();
    }
    table range_table {
        key = { h.main.a: range; h.main.amount: range; }
        actions = { give; miss; }
        default_action = miss();
    }
    table optional_table {
        key = { h.main.b: optional; h.main.a & 0xff00ff00ff00ff00ff00ff00ff: exact @name("low"); }
        actions = { give; miss; }
        const default_action = give(0xfedcba9876543210fedcba9876543210);
    }
    table constant_table {
        key = { h.main.a: ternary; }
        actions = { give; miss; }
        const entries = {
            0x20010db8000000000000000000000000 &&& 0xffffffff000000000000000000000000: give(0xffffffffffffffffffffffffffffffff);
            _: give(1 << 100);
        }
    }

    action compute() {
        bit<8> o = h.main.operation;
        bit<128> a = h.main.a;
        bit<128> b = h.main.b;
        int<100> s = h.main.s;
        bit<200> w = h.main.w;
        bit<8> n = h.main.amount;
        bit<300> r = 0;
        if (o == 0) { r = (bit<300>)(a + b); }
        else if (o == 1) { r = (bit<300>)(a - b); }
        else if (o == 2) { r = (bit<300>)(a * b); }
        else if (o == 3) { r = (bit<300>)(a << n); }
        else if (o == 4) { r = (bit<300>)(a >> n); }
        else if (o == 5) { r = (bit<300>)((a | b) ^ (a & ~b)); }
        else if (o == 6) { r = (bit<300>)(a |+| b); }
        else if (o == 7) { r = (bit<300>)(a |-| b); }
        else if (o == 8) { r = (bit<300>)(bit<100>)(s + s); }
        else if (o == 9) { r = (bit<300>)(bit<100>)(s >> n); }
        else if (o == 10) { r = (bit<300>)(bit<100>)(s |+| s); }
        else if (o == 11) { r = (bit<300>)(bit<100>)(-s); }
        else if (o == 12) { r = (bit<300>)(bit<200>)(int<200>)s; }
        else if (o == 13) { r = a ++ b ++ w[43:0]; }
        else if (o == 14) { r = (bit<300>)a[99:30]; }
        else if (o == 15) { r[271:100] = w[171:0]; }
        else if (o == 16) { r = w > (bit<200>)a ? (bit<300>)w : (bit<300>)a; }
        else if (o == 17) { r = s < 0 ? 300w1 : 300w2; }
        else if (o == 18) { r = (bit<300>)(w * (bit<200>)a); }
        else if (o == 19) { r = (bit<300>)(bit<100>)(s << n); }
        h.result.result = r;
        h.result.flags = (a == b ? 4w1 : 4w0) | (a < b ? 4w2 : 4w0) | (s >= -5 ? 4w4 : 4w0);
    }

    apply {
        sm.egress_spec = 2;
        h.result.setValid();
        if (h.main.operation < 0x20) {
            compute();
        } else if (h.main.operation == 0x20) {
            exact_table.apply();
        } else if (h.main.operation == 0x21) {
            prefix_table.apply();
        } else if (h.main.operation == 0x22) {
            ternary_table.apply();
        } else if (h.main.operation == 0x23) {
            range_table.apply();
        } else if (h.main.operation == 0x24) {
            optional_table.apply();
        } else if (h.main.operation == 0x25) {
            constant_table.apply();
        } else if (h.main.operation == 0x30) {
            wide_register.write((bit<32>)h.main.amount, h.main.a);
            signed_register.write((bit<32>)h.main.amount, h.main.s);
        } else if (h.main.operation == 0x31) {
            wide_register.read(m.kept, (bit<32>)h.main.amount);
            int<100> kept;
            signed_register.read(kept, (bit<32>)h.main.amount);
            h.result.result = m.kept ++ (bit<172>)(int<172>)kept;
        } else if (h.main.operation == 0x32) {
            bit<128> hashed;
            hash(hashed, HashAlgorithm.crc32, 128w5, { h.main.a, h.main.s, h.main.pad, h.main.w },
                128w0x100000000);
            h.result.result = (bit<300>)hashed;
        } else if (h.main.operation == 0x33) {
            bit<100> drawn;
            random(drawn, 100w7, 100w7);
            h.result.result = (bit<300>)drawn;
        } else if (h.main.operation == 0x40 || h.main.operation == 0x41) {
            h.result.result = (bit<300>)(m.ahead ++ m.way);
        } else if (h.main.operation == 0x50) {
            h.other = h.options;
        } else if (h.main.operation == 0x51) {
            h.other.setValid();
            h.other.kind = 3;
            h.other.data = h.options.data;
        } else if (h.main.operation == 0x52) {
            h.other.setValid();
            h.options.setInvalid();
        } else if (h.main.operation == 0x53) {
            h.other = h.options;
            h.other.last = 9;
            h.result.flags = h.other == h.options ? 4w1 : 4w2;
        } else if (h.main.operation == 0x54) {
            h.other = h.options;
            h.result.flags = h.other == h.options ? 4w1 : 4w2;
            h.options.setInvalid();
        } else if (h.main.operation == 0x55) {
            h.result.flags = (bit<4>)sm.checksum_error;
        } else if (h.main.operation == 0x56) {
            bit<32> hashed;
            hash(hashed, HashAlgorithm.crc32, 32w0, { h.options.data, h.main.pad, h.main.amount },
                33w0x100000000);
            h.result.result = (bit<300>)hashed;
        }
        if (sm.parser_error == error.HeaderTooShort) {
            h.result.result = 1;
        } else if (sm.parser_error == error.PacketTooShort) {
            h.result.result = 2;
        } else if (sm.parser_error == error.ParserInvalidArgument) {
            h.result.result = 3;
        }
    }
}

control EgressC(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        if (h.main.operation & 0xf0 == 0x50) {
            h.result.result[231:200] = sm.packet_length;
        }
    }
}

control Update(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.other.isValid(), { h.other.kind, h.other.data, h.other.last },
            h.other.check, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h);
    }
}

V1Switch(Parse(), Verify(), IngressC(), EgressC(), Update(), Deparse()) main;
