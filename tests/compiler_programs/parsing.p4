// Parsers: select of every sort, look-ahead, stacks, variable length, sub-parsers, value sets, if.
#include <core.p4>
#include <v1model.p4>

error { BadVersion, TooManyTags }

header first_t {
    bit<8> kind;
    bit<16> number;
    bit<4> version;
    bit<4> length;
}

header tag_t {
    bit<7> label;
    bit<1> last;
}

header options_t {
    bit<8> code;
    varbit<120> data;
}

header tail_t {
    bit<8> value;
}

header report_t {
    bit<8> error_code;
    bit<8> tags;
    bit<8> seen;
    bit<8> ahead;
    bit<8> path;
}

struct headers_t {
    report_t report;
    first_t first;
    tag_t[4] tags;
    options_t options;
    tail_t tail;
    tail_t other_tail;
}

struct metadata_t {
    bit<8> seen;
    bit<8> ahead;
    bit<8> path;
    bit<8> tags;
}

parser TailParser(packet_in packet, out tail_t tail, inout metadata_t meta)(bit<8> mark) {
    state start {
        packet.extract(tail);
        meta.path = meta.path | mark;
        transition select(tail.value) {
            0x00 .. 0x1F: low;
            0x20: accept;
            0x31 .. 0x7E: high;
            default: accept;
        }
    }
    state low {
        meta.seen = meta.seen + 16;
        transition accept;
    }
    state high {
        meta.seen = meta.seen + 32;
        transition accept;
    }
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) special_numbers;
    TailParser(8w0x10) tail_parser;
    TailParser(8w0x20) other_tail_parser;
    bit<8> counted = 0;
    const bit<16> special_state_number = 0x0303;

    state start {
        packet.extract(hdr.first);
        verify(hdr.first.version == 4 || hdr.first.version == 6, error.BadVersion);
        meta.ahead = packet.lookahead<bit<8>>();
        if (hdr.first.kind == 0xEE) {
            meta.path = 1;
            if (meta.ahead == 0xFF) {
                meta.path = 2;
            }
        } else {
            meta.path = 4;
        }
        transition select(hdr.first.kind, hdr.first.number) {
            (0x01, _): parse_tags;
            (0x02, 0x0100 &&& 0xFF00): parse_options;
            (0x02, 0x0200 .. 0x0340): parse_tail;
            (0x03, special_state_number): skip;
            (0xEE, default): parse_tail;
            default: by_number;
        }
    }

    state by_number {
        transition select(hdr.first.number) {
            special_numbers: parse_tail;
            0x0777: no_default;
            default: accept;
        }
    }

    state no_default {
        transition select(hdr.first.length) {
            1: accept;
            2: parse_tail;
        }
    }

    state skip {
        packet.advance(8);
        packet.advance((bit<32>)hdr.first.length << 3);
        transition parse_tail;
    }

    state parse_tags {
        packet.extract(hdr.tags.next);
        counted = counted + 1;
        meta.tags = counted;
        transition select(hdr.tags.last.last) {
            0: parse_tags;
            1: check_tags;
        }
    }

    state check_tags {
        verify(hdr.tags.lastIndex < 3, error.TooManyTags);
        transition parse_tail;
    }

    state parse_options {
        packet.extract(hdr.options, (bit<32>)hdr.first.length * 8);
        transition parse_tail;
    }

    state parse_tail {
        tail_parser.apply(packet, hdr.tail, meta);
        transition select(packet.lookahead<bit<4>>(), hdr.tail.value[3:0]) {
            (0xA, 0x1 .. 0x9): more;
            default: accept;
        }
    }

    state more {
        other_tail_parser.apply(packet, hdr.other_tail, meta);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.report.setValid();
        if (sm.parser_error == error.NoError) {
            hdr.report.error_code = 0;
        } else if (sm.parser_error == error.BadVersion) {
            hdr.report.error_code = 0x80;
        } else if (sm.parser_error == error.TooManyTags) {
            hdr.report.error_code = 0x81;
        } else if (sm.parser_error == error.NoMatch) {
            hdr.report.error_code = 0x82;
        } else if (sm.parser_error == error.PacketTooShort) {
            hdr.report.error_code = 0x83;
        } else {
            hdr.report.error_code = 0x84;
        }
        hdr.report.tags = meta.tags;
        hdr.report.seen = meta.seen;
        hdr.report.ahead = meta.ahead;
        hdr.report.path = meta.path;
        sm.egress_spec = 1;
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.first);
        packet.emit(hdr.tags);
        packet.emit(hdr.options);
        packet.emit(hdr.tail);
        packet.emit(hdr.other_tail);
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
