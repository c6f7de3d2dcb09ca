// Aggregation: the switches of a tree add what its ranks send, and send the sum down again.
//
// The slots are those of SwitchML, each of them two rows. A row holds its job's epoch, its round, a
// bit for each child that has been added, and its state: collecting, partial sum sent up, final.
// Switches have no timers: a rank that waits too long sends its packet again, and every switch of
// the tree answers with what it holds, or asks its parent by sending its partial sum again.

#ifndef WEFT_AGGREGATION_P4
#define WEFT_AGGREGATION_P4

// Rows of the registers, for the pools of all jobs; jobs that a switch counts apart.
#define AGGREGATION_ROWS 1024
#define AGGREGATION_JOBS 256

// In hdr.aggregation.flags.
const bit<8> AGGREGATION_HAS_VALUES = 0x01;
const bit<8> AGGREGATION_IS_RESULT = 0x02;
const bit<8> AGGREGATION_SCATTER = 0x04;
const bit<8> AGGREGATION_SATURATED = 0x08;
// In a row's flags, beside those of values and saturation.
const bit<8> AGGREGATION_PARTIAL = 0x40;
const bit<8> AGGREGATION_FINAL = 0x80;

const int<16> AGGREGATION_NO_EXPONENT = -32768;
const bit<32> AGGREGATION_QUEUE_KEY = 0x57454147;
const bit<24> MULTICAST_QP = 0xFFFFFF;
const bit<8> AGGREGATION_TTL = 64;

// Bytes of a packet without values: IPv4, UDP, BTH, DETH, ImmDt, aggregation header, ICRC.
#define AGGREGATION_BYTES 72
#define AGGREGATION_VALUE_BYTES (4 * AGGREGATION_VALUES)

// What the ICRC covers (InfiniBand Architecture Specification, annex A17): 8 bytes of ones for the
// local route header, then the packet, with ones for what a router may change.
#define ICRC_FIELDS \
    64w0xFFFFFFFFFFFFFFFF, hdr.ipv4.version, hdr.ipv4.ihl, 8w0xFF, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, 8w0xFF, hdr.ipv4.protocol, \
    16w0xFFFF, hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.udp.src_port, hdr.udp.dst_port, \
    hdr.udp.length, 16w0xFFFF, hdr.bth.opcode, hdr.bth.solicited_event, hdr.bth.migration_state, \
    hdr.bth.pad_count, hdr.bth.header_version, hdr.bth.partition_key, 8w0xFF, \
    hdr.bth.destination_qp, hdr.bth.ack_request, hdr.bth.reserved_2, hdr.bth.psn, \
    hdr.deth.queue_key, hdr.deth.reserved, hdr.deth.source_qp, hdr.immediate.data, \
    hdr.aggregation.epoch, hdr.aggregation.round, hdr.aggregation.flags, \
    hdr.aggregation.reserved_1, hdr.aggregation.owner, hdr.aggregation.exponent, \
    hdr.aggregation.round_high

#define VALUE_INPUT(n) , hdr.values.v##n

// A CRC is sent with its least significant byte first.
#define ICRC_ON_WIRE(crc) (crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24])

// One value: the stored one, the packet's or both are kept; the sum goes to the row and the packet.
#define ADD_VALUE(n) \
    row_values.read(word, first + n); \
    stored = (int<32>)word & keep_stored; \
    received = hdr.values.v##n & keep_received; \
    hdr.values.v##n = stored |+| received; \
    lost = lost | ((stored + received) ^ hdr.values.v##n); \
    row_values.write(first + n, (bit<32>)hdr.values.v##n);

control Aggregation(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    register<bit<32>>(AGGREGATION_ROWS) row_epoch;
    register<bit<48>>(AGGREGATION_ROWS) row_round;
    register<bit<64>>(AGGREGATION_ROWS) row_seen;
    register<bit<8>>(AGGREGATION_ROWS) row_flags;
    // Of numbers with a sign, the bits: BMv2's registers have none.
    register<bit<16>>(AGGREGATION_ROWS) row_exponent;
    register<bit<32>>(AGGREGATION_ROWS * AGGREGATION_VALUES) row_values;

    // By job. What was added; results made (root) or passed on; partial sums and results sent once
    // more. Contributions that were added before, or are of a round long gone; packets of another
    // epoch, that are not whole, or that are not due here; times that a sum did not fit.
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) contributions;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) results;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) resent_partials;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) resent_results;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) duplicates;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) late;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) other_epoch;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) malformed;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) unexpected;
    counter(AGGREGATION_JOBS, CounterType.packets_and_bytes) saturated;

    // The job, as its entry has it.
    bit<32> job_index = 0;
    bit<32> job_epoch = 0;
    bit<16> job_pool_base = 0;
    bit<16> job_pool_mask = 0;
    bit<64> job_children = 0;
    bit<1> job_is_root = 0;
    port_t job_parent_port = 0;
    bit<16> job_children_group = 0;
    ipv4_address_t job_switch_address = 0;

    // Whence the packet came.
    bit<1> is_child = 0;
    bit<1> is_parent = 0;
    bit<64> child_bit = 0;

    // What the packet's row holds, and what becomes of it.
    bit<32> row = 0;
    bit<32> held_epoch = 0;
    bit<48> held_round = 0;
    bit<48> round = 0; // of the packet
    bit<64> seen = 0;
    bit<8> flags = 0;
    int<16> exponent = 0;

    // What is to be done with the packet: go through its values, store the row, send it on.
    bit<1> use_values = 0;
    bit<1> store = 0;
    bit<1> send = 0;
    int<32> keep_stored = 0;
    int<32> keep_received = 0;

    // Of one value.
    bit<32> first = 0;
    bit<32> word = 0;
    int<32> stored = 0;
    int<32> received = 0;
    int<32> lost = 0;

    bit<32> crc = 0;
    bit<16> length = 0;

    action job(bit<16> job, bit<32> epoch, bit<16> pool_base, bit<16> pool_mask,
               bit<64> children, bit<1> is_root, port_t parent_port, bit<16> children_group,
               ipv4_address_t switch_address) {
        job_index = (bit<32>)job;
        job_epoch = epoch;
        job_pool_base = pool_base;
        job_pool_mask = pool_mask;
        job_children = children;
        job_is_root = is_root;
        job_parent_port = parent_port;
        job_children_group = children_group;
        job_switch_address = switch_address;
    }

    table aggregation_job {
        key = { hdr.ipv4.dst_addr: exact; }
        actions = { job; NoAction; }
        const default_action = NoAction();
        size = AGGREGATION_JOBS;
    }

    action from_child(bit<8> child) {
        is_child = 1;
        child_bit = 64w1 << child;
    }

    action from_parent() {
        is_parent = 1;
    }

    table aggregation_port {
        key = { hdr.ipv4.dst_addr: exact; standard_metadata.ingress_port: exact; }
        actions = { from_child; from_parent; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    action owner_port(port_t port) {
        meta.owner_port = port;
    }

    table aggregation_owner {
        key = { hdr.ipv4.dst_addr: exact; hdr.aggregation.owner: exact; }
        actions = { owner_port; NoAction; }
        const default_action = NoAction();
        size = 65536;
    }

    // The packet's row; one of another epoch, or of an older round, starts anew.
    action read_row() {
        row = (bit<32>)(job_pool_base + (hdr.aggregation.round[15:0] & job_pool_mask));
        first = row * AGGREGATION_VALUES;
        row_epoch.read(held_epoch, row);
        row_round.read(held_round, row);
        row_seen.read(seen, row);
        row_flags.read(flags, row);
        bit<16> bits;
        row_exponent.read(bits, row);
        exponent = (int<16>)bits;
        round = hdr.aggregation.round_high ++ hdr.aggregation.round;
    }

    action write_row() {
        row_epoch.write(row, held_epoch);
        row_round.write(row, held_round);
        row_seen.write(row, seen);
        row_flags.write(row, flags);
        row_exponent.write(row, (bit<16>)exponent);
    }

    action clear_row() {
        held_epoch = hdr.aggregation.epoch;
        held_round = round;
        seen = 0;
        flags = 0;
        exponent = AGGREGATION_NO_EXPONENT;
    }

    action hash_headers() {
        hash(crc, HashAlgorithm.crc32, 32w0, { ICRC_FIELDS }, 64w0x100000000);
    }

    action hash_values() {
        hash(crc, HashAlgorithm.crc32, 32w0, { ICRC_FIELDS EACH_VALUE(VALUE_INPUT) },
             64w0x100000000);
    }

    action go_through_values() {
        EACH_VALUE(ADD_VALUE)
    }

    // What is stored goes out: the packet's values do not matter.
    action send_stored() {
        send = 1;
        use_values = (bit<1>)(flags & AGGREGATION_HAS_VALUES);
        keep_stored = -1;
        keep_received = 0;
    }

    apply {
        if (!aggregation_job.apply().hit) {
            mark_to_drop(standard_metadata);
        } else {
            // Is it whole? Only then is it added: what leaves here has a new ICRC.
            length = AGGREGATION_BYTES;
            bit<1> whole = 0;
            if (hdr.values.isValid()) {
                length = AGGREGATION_BYTES + AGGREGATION_VALUE_BYTES;
            }
            if (standard_metadata.parser_error == error.NoError
                    && hdr.ipv4.total_length == length && hdr.udp.length == length - 20
                    && standard_metadata.packet_length == (bit<32>)length + 14
                    && hdr.bth.destination_qp == MULTICAST_QP
                    && hdr.bth.psn == hdr.aggregation.round[23:0]
                    && hdr.deth.queue_key == AGGREGATION_QUEUE_KEY) {
                if (hdr.values.isValid()) {
                    hash_values();
                } else {
                    hash_headers();
                }
                if (hdr.icrc.crc == ICRC_ON_WIRE(crc)) {
                    whole = 1;
                }
            }
            if (whole == 0) {
                malformed.count(job_index);
            } else if (hdr.aggregation.epoch != job_epoch) {
                other_epoch.count(job_index);
            } else {
                aggregation_port.apply();
                read_row();
                if (is_child == 1 && hdr.aggregation.flags & AGGREGATION_IS_RESULT == 0) {
                    if (held_epoch != job_epoch
                            || (held_round != round
                                && round - held_round < 0x800000000000)) {
                        clear_row();
                    }
                    if (held_round != round) {
                        late.count(job_index);
                    } else if (flags & AGGREGATION_FINAL != 0) {
                        // Its result was lost on the way to this child, which asks once more.
                        resent_results.count(job_index);
                        send_stored();
                        standard_metadata.egress_spec = standard_metadata.ingress_port;
                    } else if (flags & AGGREGATION_PARTIAL != 0) {
                        resent_partials.count(job_index);
                        send_stored();
                        standard_metadata.egress_spec = job_parent_port;
                    } else if (seen & child_bit != 0) {
                        duplicates.count(job_index);
                    } else {
                        contributions.count(job_index);
                        store = 1;
                        seen = seen | child_bit;
                        if (hdr.aggregation.exponent > exponent) {
                            exponent = hdr.aggregation.exponent;
                        }
                        if (hdr.values.isValid()) {
                            use_values = 1;
                            keep_received = -1;
                            if (flags & AGGREGATION_HAS_VALUES != 0) {
                                keep_stored = -1;
                            }
                            flags = flags | AGGREGATION_HAS_VALUES
                                | (hdr.aggregation.flags & AGGREGATION_SATURATED);
                        }
                        if (seen == job_children) {
                            send = 1;
                            if (!hdr.values.isValid()) {
                                send_stored();
                            }
                            if (job_is_root == 1) {
                                results.count(job_index);
                                flags = flags | AGGREGATION_FINAL;
                                standard_metadata.mcast_grp = job_children_group;
                            } else {
                                flags = flags | AGGREGATION_PARTIAL;
                                standard_metadata.egress_spec = job_parent_port;
                            }
                        }
                    }
                } else if (is_parent == 1 && hdr.aggregation.flags & AGGREGATION_IS_RESULT != 0
                           && held_epoch == job_epoch && held_round == round
                           && flags & AGGREGATION_PARTIAL != 0) {
                    results.count(job_index);
                    store = 1;
                    send = 1;
                    use_values = (bit<1>)(hdr.aggregation.flags & AGGREGATION_HAS_VALUES);
                    keep_received = -1;
                    exponent = hdr.aggregation.exponent;
                    flags = AGGREGATION_FINAL | (hdr.aggregation.flags
                        & (AGGREGATION_HAS_VALUES | AGGREGATION_SATURATED));
                    standard_metadata.mcast_grp = job_children_group;
                } else {
                    unexpected.count(job_index);
                }
            }

            if (use_values == 1) {
                if (!hdr.values.isValid()) {
                    hdr.values.setValid();
                }
                go_through_values();
                if (lost != 0) {
                    saturated.count(job_index);
                    flags = flags | AGGREGATION_SATURATED;
                }
            }
            if (store == 1) {
                write_row();
            }
            if (send == 0) {
                mark_to_drop(standard_metadata);
            } else {
                hdr.ethernet.src_addr = 16w0x0200 ++ job_switch_address;
                hdr.ipv4.src_addr = job_switch_address;
                hdr.ipv4.ttl = AGGREGATION_TTL;
                hdr.aggregation.exponent = exponent;
                hdr.aggregation.flags = (flags & (AGGREGATION_HAS_VALUES | AGGREGATION_SATURATED))
                    | (hdr.aggregation.flags & AGGREGATION_SCATTER);
                if (flags & AGGREGATION_FINAL != 0) {
                    hdr.aggregation.flags = hdr.aggregation.flags | AGGREGATION_IS_RESULT;
                    if (hdr.aggregation.flags & AGGREGATION_SCATTER != 0) {
                        aggregation_owner.apply();
                    }
                }
                if (flags & AGGREGATION_HAS_VALUES != 0) {
                    hdr.ipv4.total_length = AGGREGATION_BYTES + AGGREGATION_VALUE_BYTES;
                    hdr.udp.length = AGGREGATION_BYTES + AGGREGATION_VALUE_BYTES - 20;
                    hash_values();
                } else {
                    hdr.values.setInvalid();
                    hdr.ipv4.total_length = AGGREGATION_BYTES;
                    hdr.udp.length = AGGREGATION_BYTES - 20;
                    hash_headers();
                }
                hdr.icrc.crc = ICRC_ON_WIRE(crc);
            }
        }
    }
}

// Where only one rank needs the sum, the values go out of the port that leads there.
control AggregationEgress(inout headers_t hdr,
                          in metadata_t meta,
                          in standard_metadata_t standard_metadata) {
    bit<32> crc = 0;

    apply {
        if (hdr.values.isValid()
                && hdr.aggregation.flags & AGGREGATION_SCATTER != 0
                && hdr.aggregation.flags & AGGREGATION_IS_RESULT != 0
                && standard_metadata.egress_port != meta.owner_port) {
            hdr.values.setInvalid();
            hdr.aggregation.flags = hdr.aggregation.flags & ~AGGREGATION_HAS_VALUES;
            hdr.ipv4.total_length = AGGREGATION_BYTES;
            hdr.udp.length = AGGREGATION_BYTES - 20;
            hash(crc, HashAlgorithm.crc32, 32w0, { ICRC_FIELDS }, 64w0x100000000);
            hdr.icrc.crc = ICRC_ON_WIRE(crc);
        }
    }
}

#endif
