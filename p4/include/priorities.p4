// Priorities: which queue of its egress port a packet waits in, where ports have several.

#ifndef WEFT_PRIORITIES_P4
#define WEFT_PRIORITIES_P4

#ifdef PRIORITIES
#define PRIORITIES_INSTANCE Priorities() priorities;
#define APPLY_PRIORITIES priorities.apply(hdr, standard_metadata);

control Priorities(in headers_t hdr, inout standard_metadata_t standard_metadata) {
    action set_priority(bit<3> priority) {
        standard_metadata.priority = priority;
    }

    // Of a job, by its hosts and its aggregation address; of acknowledgements; by DSCP. What is not here has priority 0.
    table traffic_class {
        key = {
            hdr.ipv4.dscp: ternary;
            hdr.ipv4.src_addr: ternary;
            hdr.ipv4.dst_addr: ternary;
            hdr.bth.opcode: ternary;
        }
        actions = { set_priority; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            traffic_class.apply();
        }
    }
}
#else
#define PRIORITIES_INSTANCE
#define APPLY_PRIORITIES
#endif

#endif
