// Parser, IPv4 checksum and deparser.

#ifndef WEFT_PARSER_P4
#define WEFT_PARSER_P4

parser FabricParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // IPv4 options follow where ihl > 5: such a packet is routed, its transport is not looked at.
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            UDP_PORT_ROCEV2: parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        packet.extract(hdr.bth);
        transition select(hdr.ipv4.dst_addr[31:16], hdr.bth.opcode) {
            (AGGREGATION_PREFIX, OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE): parse_aggregation;
            default: accept;
        }
    }

    state parse_aggregation {
        meta.aggregated = 1;
        packet.extract(hdr.deth);
        packet.extract(hdr.immediate);
        packet.extract(hdr.aggregation);
        transition select(hdr.aggregation.flags) {
            1 &&& 1: parse_values;
            default: parse_icrc;
        }
    }

    state parse_values {
        packet.extract(hdr.values);
        transition parse_icrc;
    }

    state parse_icrc {
        packet.extract(hdr.icrc);
        transition accept;
    }
}

control FabricVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
            hdr.ipv4.header_checksum, HashAlgorithm.csum16);
    }
}

control FabricComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
            hdr.ipv4.header_checksum, HashAlgorithm.csum16);
    }
}

control FabricDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.bth);
        packet.emit(hdr.deth);
        packet.emit(hdr.immediate);
        packet.emit(hdr.aggregation);
        packet.emit(hdr.values);
        packet.emit(hdr.icrc);
    }
}

#endif
