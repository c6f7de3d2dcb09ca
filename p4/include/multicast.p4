// Multicast along the controller's trees.

#ifndef WEFT_MULTICAST_P4
#define WEFT_MULTICAST_P4

control Multicast(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    // The group's ports are all of this switch's ports on the tree; egress prunes the ingress port.
    action replicate(bit<16> group) {
        standard_metadata.mcast_grp = group;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table multicast_route {
        key = { hdr.ipv4.dst_addr: exact; }
        actions = { replicate; drop; }
        const default_action = drop();
        size = 4096;
    }

    apply {
        multicast_route.apply();
    }
}

#endif
