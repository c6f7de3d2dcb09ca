// Unicast IPv4 routing: pinned paths, equal-cost multipath, spraying.

#ifndef WEFT_FORWARDING_P4
#define WEFT_FORWARDING_P4

// Sets of ports that a switch tells apart, and the places in all of them.
#define SPRAY_SETS 4096
#define SPRAY_PLACES 16384

control Forwarding(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    action_selector(HashAlgorithm.crc32, 1024, 32) ecmp;

    // Whose turn it is in a set: one cell for packets with data, one for acknowledgements. With one
    // for both, flows whose packets and acknowledgements alternate would use every second port.
    register<bit<16>>(2 * SPRAY_SETS) spray_turn;

    bit<1> pinned = 0;
    bit<16> spray_set = 0; // 0: the packet is not sprayed
    bit<16> spray_last = 0;
    bit<1> spray_in_turn = 0;
    bit<16> index = 0;
    bit<32> turn = 0;

    // Salted: with one hash on every switch, all the flows that a switch gets from another would
    // have hashed alike there, and some of its own links would stay empty (polarisation).
    action set_salt(bit<32> salt) {
        meta.salt = salt;
    }

    // A CRC is linear: what a salt adds to the hash is the same for all flows, and where members
    // are a power of two, all those that a leaf sends to one switch above it would go the same way
    // there again, salted or not. So a switch that chooses after another multiplies.
    action set_salt_by_flow(bit<32> salt) {
        meta.salt = (hdr.ipv4.src_addr + (hdr.ipv4.dst_addr << 12)
            + ((bit<32>)hdr.udp.src_port << 4)) * (salt | 1);
    }

    table switch_config {
        actions = { set_salt; set_salt_by_flow; }
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

    // Over the places 0 to last of a set, in turn or at random.
    action spray(bit<16> set, bit<16> last, bit<1> in_turn) {
        spray_set = set;
        spray_last = last;
        spray_in_turn = in_turn;
    }

    action pin(port_t port, mac_address_t src_mac, mac_address_t dst_mac) {
        pinned = 1;
        forward(port, src_mac, dst_mac);
    }

    // The controller's choice for a queue pair. What is not here goes as its route says.
    table pinned_path {
        key = {
            hdr.ipv4.src_addr: exact;
            hdr.ipv4.dst_addr: exact;
            hdr.udp.src_port: exact;
        }
        actions = { pin; NoAction; }
        const default_action = NoAction();
        size = 65536;
    }

    // A route to one port, or to a set to spray over, names a member of the selector; a multipath
    // route names a group.
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
        actions = { forward; spray; drop; }
        implementation = ecmp;
        size = 4096;
    }

    table spray_port {
        key = { meta.place: exact; }
        actions = { forward; drop; }
        const default_action = drop();
        size = SPRAY_PLACES;
    }

    action take_turn() {
        spray_turn.read(index, turn);
        index = index >= spray_last ? 16w0 : index + 1;
        spray_turn.write(turn, index);
    }

    apply {
        if (hdr.bth.isValid()) {
            pinned_path.apply();
        }
        if (pinned == 0) {
            switch_config.apply();
            // v1model has no default action beside an action selector.
            if (ipv4_route.apply().miss) {
                mark_to_drop(standard_metadata);
            } else if (spray_set != 0) {
                if (!hdr.bth.isValid()) {
                    // What is not RoCEv2 may not bear reordering.
                    hash(index, HashAlgorithm.crc32, 16w0,
                         { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol, meta.salt },
                         (bit<32>)spray_last + 1);
                } else if (spray_in_turn == 0) {
                    random(index, 16w0, spray_last);
                } else {
                    turn = (bit<32>)spray_set;
                    if (hdr.bth.opcode == OPCODE_RC_ACKNOWLEDGE) {
                        turn = turn + SPRAY_SETS;
                    }
                    take_turn();
                }
                meta.place = spray_set ++ index;
                spray_port.apply();
            }
        }
    }
}

#endif
