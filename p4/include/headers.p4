// Headers and metadata of the fabric program.

#ifndef WEFT_HEADERS_P4
#define WEFT_HEADERS_P4

// Ports are numbered from 1; BMv2's port numbers have 9 bits.
#define PORTS 512

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> UDP_PORT_ROCEV2 = 4791;
const bit<8> OPCODE_RC_ACKNOWLEDGE = 0x11;
const bit<8> OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE = 0x65;
const bit<16> AGGREGATION_PREFIX = 0xEFFF; // 239.255.0.0/16
const bit<4> MULTICAST_PREFIX = 0xE; // 224.0.0.0/4

// standard_metadata.instance_type of a copy that the multicast engine made (BMv2).
const bit<32> INSTANCE_REPLICATION = 5;

// Values of an aggregation packet. P4 has no loops: EACH_VALUE(M) is M(0x00) M(0x01) and so on.
#ifndef AGGREGATION_VALUES
#define AGGREGATION_VALUES 256
#endif

#define SIXTEEN(M, p) \
    M(p##0) M(p##1) M(p##2) M(p##3) M(p##4) M(p##5) M(p##6) M(p##7) \
    M(p##8) M(p##9) M(p##A) M(p##B) M(p##C) M(p##D) M(p##E) M(p##F)

#if AGGREGATION_VALUES == 16
#define EACH_VALUE(M) SIXTEEN(M, 0x0)
#elif AGGREGATION_VALUES == 32
#define EACH_VALUE(M) SIXTEEN(M, 0x0) SIXTEEN(M, 0x1)
#elif AGGREGATION_VALUES == 64
#define EACH_VALUE(M) SIXTEEN(M, 0x0) SIXTEEN(M, 0x1) SIXTEEN(M, 0x2) SIXTEEN(M, 0x3)
#elif AGGREGATION_VALUES == 128
#define EACH_VALUE(M) \
    SIXTEEN(M, 0x0) SIXTEEN(M, 0x1) SIXTEEN(M, 0x2) SIXTEEN(M, 0x3) \
    SIXTEEN(M, 0x4) SIXTEEN(M, 0x5) SIXTEEN(M, 0x6) SIXTEEN(M, 0x7)
#elif AGGREGATION_VALUES == 256
#define EACH_VALUE(M) \
    SIXTEEN(M, 0x0) SIXTEEN(M, 0x1) SIXTEEN(M, 0x2) SIXTEEN(M, 0x3) \
    SIXTEEN(M, 0x4) SIXTEEN(M, 0x5) SIXTEEN(M, 0x6) SIXTEEN(M, 0x7) \
    SIXTEEN(M, 0x8) SIXTEEN(M, 0x9) SIXTEEN(M, 0xA) SIXTEEN(M, 0xB) \
    SIXTEEN(M, 0xC) SIXTEEN(M, 0xD) SIXTEEN(M, 0xE) SIXTEEN(M, 0xF)
#else
#error AGGREGATION_VALUES must be 16, 32, 64, 128 or 256
#endif

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

// Datagram extended transport header (section 9.3.4).
header deth_t {
    bit<32> queue_key;
    bit<8> reserved;
    bit<24> source_qp;
}

header immediate_t {
    bit<32> data;
}

// Of a contribution to a sum, or of a sum; see aggregation.p4.
header aggregation_t {
    bit<32> epoch;
    bit<32> round;
    bit<8> flags;
    bit<8> reserved_1;
    bit<16> owner;
    int<16> exponent;
    bit<16> round_high; // of 48 bits
}

#define VALUE_FIELD(n) int<32> v##n;

header values_t {
    EACH_VALUE(VALUE_FIELD)
}

header icrc_t {
    bit<32> crc;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
    deth_t deth;
    immediate_t immediate;
    aggregation_t aggregation;
    values_t values;
    icrc_t icrc;
}

struct metadata_t {
    bit<1> lost;       // 1: lost on purpose, on the link that it came in by
    bit<32> salt;      // of the multipath hash, different on every switch
    bit<32> place;     // in the set of ports that the packet is sprayed over: set, index
    bit<1> aggregated; // 1: it belongs to an aggregation job, whether or not it is whole
    port_t owner_port; // that leads to the one rank that needs the values; 0: all ports do
}

#endif
