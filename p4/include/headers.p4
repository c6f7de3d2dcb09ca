// Headers and metadata of the fabric program.

#ifndef WEFT_HEADERS_P4
#define WEFT_HEADERS_P4

// Ports are numbered from 1; BMv2's port numbers have 9 bits.
#define PORTS 512

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> UDP_PORT_ROCEV2 = 4791;
const bit<4> MULTICAST_PREFIX = 0xE; // 224.0.0.0/4

// standard_metadata.instance_type of a copy that the multicast engine made (BMv2).
const bit<32> INSTANCE_REPLICATION = 5;

typedef bit<9> port_t;
typedef bit<48> mac_address_t;
typedef bit<32> ipv4_address_t;

header ethernet_t {
    mac_address_t dst_addr;
    mac_address_t src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> header_checksum;
    ipv4_address_t src_addr;
    ipv4_address_t dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// Base transport header (InfiniBand Architecture Specification, volume 1, section 9.2).
header bth_t {
    bit<8> opcode;
    bit<1> solicited_event;
    bit<1> migration_state;
    bit<2> pad_count;
    bit<4> header_version;
    bit<16> partition_key;
    bit<1> fecn;
    bit<1> becn;
    bit<6> reserved_1;
    bit<24> destination_qp;
    bit<1> ack_request;
    bit<7> reserved_2;
    bit<24> psn;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
}

struct metadata_t {
    bit<1> lost;      // 1: lost on purpose, on the link that it came in by
    bit<32> salt;     // of the multipath hash, different on every switch
}

#endif
