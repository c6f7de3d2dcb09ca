// Loss on purpose: each direction of each link loses a packet with a probability of its own.
//
// The link's far end decides, at ingress. Hosts run no P4, so towards a host the switch's egress
// decides. So every packet is exposed once per link. The probability is threshold / 2^32.

#ifndef WEFT_FAULTS_P4
#define WEFT_FAULTS_P4

control IngressFault(inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) ingress_lost;

    action lose(bit<32> threshold) {
        bit<32> draw;
        random(draw, 32w0, 32w0xFFFFFFFF);
        meta.lost = draw < threshold ? 1w1 : 1w0;
    }

    action lose_all() {
        meta.lost = 1;
    }

    table ingress_fault {
        key = { standard_metadata.ingress_port: exact; }
        actions = { lose; lose_all; NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    apply {
        ingress_fault.apply();
        if (meta.lost == 1) {
            ingress_lost.count((bit<32>)standard_metadata.ingress_port);
            mark_to_drop(standard_metadata);
        }
    }
}

control EgressFault(inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) egress_lost;

    action lose(bit<32> threshold) {
        bit<32> draw;
        random(draw, 32w0, 32w0xFFFFFFFF);
        meta.lost = draw < threshold ? 1w1 : 1w0;
    }

    action lose_all() {
        meta.lost = 1;
    }

    table egress_fault {
        key = { standard_metadata.egress_port: exact; }
        actions = { lose; lose_all; NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    apply {
        egress_fault.apply();
        if (meta.lost == 1) {
            egress_lost.count((bit<32>)standard_metadata.egress_port);
            mark_to_drop(standard_metadata);
        }
    }
}

#endif
