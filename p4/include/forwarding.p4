// Unicast IPv4 routing with equal-cost multipath.

#ifndef WEFT_FORWARDING_P4
#define WEFT_FORWARDING_P4

control Forwarding(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    action_selector(HashAlgorithm.crc32, 1024, 32) ecmp;

    // Salted: with one hash on every switch, all the flows that a switch gets from another would
    // have hashed alike there, and some of its own links would stay empty (polarisation).
    action set_salt(bit<32> salt) {
        meta.salt = salt;
    }

    table switch_config {
        actions = { set_salt; }
        default_action = set_salt(0);
    }

    action forward(port_t port, mac_address_t src_mac, mac_address_t dst_mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = src_mac;
        hdr.ethernet.dst_addr = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    // A route to one port names a member of the selector, a multipath route names a group.
    table ipv4_route {
        key = {
            hdr.ipv4.dst_addr: lpm;
            hdr.ipv4.src_addr: selector;
            hdr.ipv4.dst_addr: selector;
            hdr.ipv4.protocol: selector;
            hdr.udp.src_port: selector;
            hdr.udp.dst_port: selector;
            meta.salt: selector;
        }
        actions = { forward; drop; }
        implementation = ecmp;
        size = 4096;
    }

    apply {
        switch_config.apply();
        // v1model has no default action beside an action selector.
        if (ipv4_route.apply().miss) {
            mark_to_drop(standard_metadata);
        }
    }
}

#endif
