// Actions of the whole program, of nested controls and of other actions, and annotations over several
// lines with conditions in them: where each is in P4Info.
#include <core.p4>
#include <v1model.p4>

header kind_h {
    bit<8> kind;
    bit<8> value;
}

struct headers_t {
    kind_h first;
}

struct metadata_t {
    bit<8> mark;
}

action nothing() {}

action note(inout metadata_t meta, bit<8> mark) {
    meta.mark = mark;
}

action clear(inout metadata_t meta) {
    meta.mark = 0;
}

parser Start(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Choose(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action helper(bit<9> port) {
        standard.egress_spec = port;
    }

    action send(bit<9> port) {
        helper(port);
        clear(meta);
    }

    @entry_restriction("
        // Kept.
#if defined(UNKNOWN)
        kind != 0;
        kind != 1;
        kind != 2;
        kind != 3;
        kind != 4;
#endif
        kind != 5;
    ")
    table choose {
        key = {
            hdr.first.kind: exact;
        }
        actions = {
            send;
            note(meta);
            nothing;
        }
        default_action = nothing();
    }

    apply {
        choose.apply();
    }
}

control First(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Choose() inner;

    action give_up() {
        mark_to_drop(standard);
    }

    action low() {
        hdr.first.value = 1;
    }

    action high() {
        low();
        meta.mark = 3;
    }

    table filter {
        key = {
            hdr.first.value: exact;
        }
        actions = {
            give_up;
            @defaultonly nothing;
        }
        const default_action = nothing();
    }

    apply {
        inner.apply(hdr, meta, standard);
        if (!filter.apply().hit) {
            note(meta, 7);
            high();
        }
    }
}

control Second(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action put() {
        hdr.first.value = meta.mark;
    }

    table seen {
        key = {
            meta.mark: exact;
        }
        actions = {
            put;
            NoAction;
        }
        const default_action = NoAction();
    }

    apply {
        seen.apply();
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.first);
    }
}

V1Switch(Start(), Verify(), First(), Second(), Compute(), Emit()) main;
