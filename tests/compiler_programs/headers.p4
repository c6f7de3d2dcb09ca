// Headers: stacks, unions, assignment, validity, nested structs, headers as variables.
#include <core.p4>
#include <v1model.p4>

struct pair_t { bit<8> left; bit<8> right; }
header tag_t { bit<8> label; bit<8> depth; }
header nested_t { pair_t first; bit<16> middle; pair_t second; }
header small_t { bit<8> a; }
header large_t { bit<8> a; bit<16> b; }
header_union either_t { small_t small; large_t large; }
header control_t { bit<8> command; bit<8> index; bit<8> kind; bit<8> result; }

struct inner_t { nested_t nested; tag_t lone; }
struct headers_t {
    control_t ctl;
    tag_t[3] tags;
    inner_t inner;
    either_t either;
    tag_t[2] copies;
}
struct metadata_t { tag_t saved; pair_t pair; tuple<bit<8>, bit<8>> both; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ctl);
        packet.extract(hdr.tags.next);
        packet.extract(hdr.tags.next);
        packet.extract(hdr.inner.nested);
        packet.extract(hdr.inner.lone);
        transition select(hdr.ctl.kind) {
            1: small;
            2: large;
            default: accept;
        }
    }
    state small { packet.extract(hdr.either.small); transition accept; }
    state large { packet.extract(hdr.either.large); transition accept; }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Swap(inout pair_t pair) {
    apply { pair = { pair.right, pair.left }; }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    tag_t local;
    Swap() swapper;
    apply {
        sm.egress_spec = 1;
        if (hdr.ctl.command == 1) {
            hdr.tags.push_front(1);
            hdr.tags[0] = { 0xAA, 0xBB };
        } else if (hdr.ctl.command == 2) {
            hdr.tags.pop_front(1);
        } else if (hdr.ctl.command == 3) {
            hdr.tags[2] = hdr.tags[0];
            hdr.tags[0].setInvalid();
        } else if (hdr.ctl.command == 4) {
            hdr.tags[hdr.ctl.index & 1].label = 0x44;
            hdr.ctl.result = hdr.tags[hdr.ctl.index & 1].depth;
        } else if (hdr.ctl.command == 5) {
            swapper.apply(hdr.inner.nested.first);
            hdr.inner.nested.middle = hdr.inner.nested.second.left ++ hdr.inner.nested.first.right;
        } else if (hdr.ctl.command == 6) {
            local = hdr.inner.lone;
            meta.saved = local;
            meta.saved.label = meta.saved.label + 1;
            hdr.inner.lone = meta.saved;
            hdr.copies[0] = local;
            hdr.copies[1].setValid();
            hdr.copies[1].label = 9;
            hdr.copies[1].depth = 8;
        } else if (hdr.ctl.command == 7) {
            if (hdr.either.small.isValid()) {
                hdr.either.small.a = hdr.either.small.a + 1;
            }
            if (hdr.either.isValid()) {
                hdr.ctl.result = 0x55;
            }
        } else if (hdr.ctl.command == 8) {
            hdr.either.large.setValid();
            hdr.either.large.a = 1;
            hdr.either.large.b = 2;
        } else if (hdr.ctl.command == 9) {
            if (hdr.tags[0] == hdr.tags[1]) {
                hdr.ctl.result = 0x99;
            }
            meta.pair = { left = 3, right = hdr.ctl.kind };
            meta.both = { 1, hdr.ctl.kind };
            if (meta.pair == hdr.inner.nested.first) {
                hdr.ctl.result = hdr.ctl.result | 0x02;
            }
            hdr.ctl.index = meta.both[1] + meta.both[0];
        } else if (hdr.ctl.command == 10) {
            hdr.inner.lone = {#};
            if (!hdr.inner.lone.isValid() && !local.isValid()) {
                hdr.ctl.result = 0x10;
            }
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
