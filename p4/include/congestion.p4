// Explicit congestion notification (RFC 3168): a packet that finds a long queue is marked.
//
// The queue is that of the egress port when the packet comes to it, in packets that wait. Only
// packets of a transport that understands marks are marked. An ICRC does not cover the mark.

#ifndef WEFT_CONGESTION_P4
#define WEFT_CONGESTION_P4

const bit<2> ECN_ECT_1 = 1;
const bit<2> ECN_ECT_0 = 2;
const bit<2> ECN_CE = 3;

control CongestionMarking(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets) ecn_marked;

    // 0: nothing is marked.
    bit<19> threshold = 0;

    action mark_from(bit<19> packets) {
        threshold = packets;
    }

    table ecn {
        actions = { mark_from; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.ipv4.ecn == ECN_ECT_0 || hdr.ipv4.ecn == ECN_ECT_1) {
            ecn.apply();
            if (threshold != 0 && standard_metadata.enq_qdepth >= threshold) {
                hdr.ipv4.ecn = ECN_CE;
                ecn_marked.count((bit<32>)standard_metadata.egress_port);
            }
        }
    }
}

#endif
