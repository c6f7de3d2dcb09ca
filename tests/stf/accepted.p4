// What BMv2's JSON has no word for, and temporaries, copies and more nodes do: arrays in headers, stack.last and .next
// as values, extraction to elements, stacks of unions at an index known at run time, varbits outside of headers,
// tables with different code after each place that they are applied at, headers that are not of whole bytes.
#include <core.p4>
#include <v1model.p4>

header control_t { bit<8> kind; bit<8> index; bit<16> result; }
header array_t { bit<8>[4] values; bit<8> last; }
struct pair_t { bit<4> high; bit<4> low; }
header item_t { pair_t pair; bit<8> more; }
header short_t { bit<8> value; }
header long_t { bit<16> value; }
header_union number_t { short_t short; long_t long; }
header option_t { bit<8> length; varbit<32> bits; }
header odd_t { bit<3> one; bit<6> two; }
struct ahead_t { bit<8> first; item_t[2] items; bit<4>[2] halves; }

struct headers_t {
    control_t head;
    array_t array;
    item_t[3] items;
    number_t[3] numbers;
    option_t option;
    option_t other;
    bit<8> counted;
    odd_t odd;
}
struct metadata_t { varbit<32> kept; odd_t odd; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    item_t copy;
    state start {
        hdr.counted = 0;
        packet.extract(hdr.head);
        transition select(hdr.head.kind) {
            1: array;
            2: items;
            3: elements;
            4: ahead;
            5: numbers;
            6: option;
            7: full;
            default: accept;
        }
    }
    state array { packet.extract(hdr.array); transition accept; }
    state items {
        packet.extract(hdr.items.next);
        hdr.counted = hdr.counted + 1;
        copy = hdr.items.last;
        hdr.head.result = hdr.head.result + (bit<16>)(copy.pair.high ++ hdr.items.last.pair.low);
        transition select(hdr.items.last.more, hdr.items.last.pair.high, hdr.items.last.isValid()) {
            (1, 0..8, true): items;
            default: last;
        }
    }
    state last { hdr.items.next = { { 1, 2 }, 3 }; transition accept; }
    state full { packet.extract(hdr.items.next); transition select(hdr.items.next.more) { 0: full; default: full; } }
    state elements {
        packet.extract(hdr.items[1]);
        packet.extract(hdr.items[hdr.head.index]);
        transition accept;
    }
    state ahead {
        item_t[2] two = packet.lookahead<item_t[2]>();
        ahead_t all = packet.lookahead<ahead_t>();
        hdr.head.result = two[1].pair.high ++ all.items[1].pair.low ++ all.halves[1] ++ all.first[3:0];
        transition accept;
    }
    state numbers {
        packet.extract(hdr.numbers.next.short);
        packet.extract(hdr.numbers.next.long);
        packet.extract(hdr.numbers[2].short);
        transition accept;
    }
    state option {
        packet.extract(hdr.option, (bit<32>)hdr.head.index * 8);
        varbit<32> bits = hdr.option.bits;
        meta.kept = bits;
        transition accept;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<8> index = hdr.head.index;
    action add(bit<16> value) { hdr.head.result = hdr.head.result + value; }
    action twice() { hdr.head.result = hdr.head.result << 1; }
    table steps {
        key = { hdr.head.result: exact; }
        actions = { add; twice; @defaultonly NoAction; }
        const entries = { 1: add(4); 5: twice(); 11: add(1); 12: add(3); }
    }
    action digest() { hdr.odd.one = hdr.odd.one + 6; }
    apply {
        sm.egress_spec = 1;
        if (hdr.array.isValid()) {
            hdr.array.values[1] = hdr.array.values[0] + hdr.array.values[2];
            hdr.array.last = hdr.array.values[index];
            hdr.array.values[index] = 7;
        }
        if (hdr.head.kind == 2) {
            hdr.items[index].pair = { hdr.counted[3:0], 5 };
            hdr.items[index + 1] = hdr.items[index];
        }
        if (hdr.head.kind == 5) {
            bool was = hdr.numbers[index].isValid() && hdr.numbers[index].short.isValid();
            if (was) {
                hdr.numbers[index].short.value = hdr.numbers[index].short.value + 1;
                number_t copy = hdr.numbers[index];
                hdr.head.result = (bit<16>)copy.short.value;
                hdr.numbers[index].long.setValid();
                hdr.numbers[index].long.value = 0xabcd;
            } else {
                hdr.numbers[index] = hdr.numbers[0];
            }
        }
        if (hdr.head.kind == 6) {
            hdr.other = hdr.option;
            varbit<32> swap = hdr.head.result == 0 ? hdr.option.bits : meta.kept;
            hdr.other.bits = swap;
            hdr.head.result = swap == hdr.option.bits ? 16w1 : 16w2;
        }
        if (hdr.head.kind == 7) { hdr.head.result = (bit<16>)(bit<1>)(sm.parser_error == error.StackOutOfBounds); }
        if (hdr.head.kind == 8) {
            steps.apply();
            hdr.head.result = hdr.head.result + (bit<16>)index;
            if (steps.apply().hit) { steps.apply(); } else { hdr.head.result = 99; }
        }
        if (hdr.head.kind == 9) {
            hdr.odd = { 3, 9 };
            meta.odd = hdr.odd;
            digest();
            hdr.head.result = hdr.odd == meta.odd ? 16w0 : (bit<16>)(hdr.odd.one ++ meta.odd.two);
        }
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.head);
        packet.emit(hdr.array);
        packet.emit(hdr.items);
        packet.emit(hdr.numbers);
        packet.emit(hdr.option);
        packet.emit(hdr.other);
    }
}
V1Switch(P(), V(), I(), E(), V(), D()) main;
