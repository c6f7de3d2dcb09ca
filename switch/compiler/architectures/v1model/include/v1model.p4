// The v1model architecture: Weft's own interface file, after BMv2's docs/simple_switch.md and the
// names that programs for it use.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

#include <core.p4>

match_kind {
    range,
    optional,
    selector
}

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

@metadata @name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t ingress_port;
    PortId_t egress_spec;
    PortId_t egress_port;
#else
    bit<9>  ingress_port;
    bit<9>  egress_spec;
    bit<9>  egress_port;
#endif
    bit<32> instance_type;
    bit<32> packet_length;
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;
    bit<1>  checksum_error;
    error parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3> priority;
}

enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

enum MeterType {
    packets,
    bytes
}

// An array of counters.
extern counter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    counter(bit<32> size, CounterType type);
    void count(in
#if V1MODEL_VERSION >= 20200408
               I
#else
               bit<32>
#endif
               index);
}

// One counter for each entry of the table that names it in `counters`.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2

// An array of meters; a packet's colour is 0 (green), 1 (yellow) or 2 (red).
extern meter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in
#if V1MODEL_VERSION >= 20200408
                          I
#else
                          bit<32>
#endif
                          index, out T result);
}

// One meter for each entry of the table that names it in `meters`.
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

// An array of bit<W> or int<W>.
extern register<T
#if V1MODEL_VERSION >= 20200408
, I
#endif
> {
    register(bit<32> size);
    void read(out T result, in
#if V1MODEL_VERSION >= 20200408
              I
#else
              bit<32>
#endif
              index);
    void write(in
#if V1MODEL_VERSION >= 20200408
               I
#else
               bit<32>
#endif
               index, in T value);
}

// Actions with their data, shared by the entries that name them.
extern action_profile {
    action_profile(bit<32> size);
}

// An action profile with groups, of which a hash picks a member.
enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

enum CloneType {
    I2E,
    E2E
}

// A uniformly distributed number from lo to hi, both included.
extern void random<T>(out T result, in T lo, in T hi);

// Send the data to the control plane.
extern void digest<T>(in bit<32> receiver, in T data);

@deprecated("write mark_to_drop(standard_metadata)")
extern void mark_to_drop();
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

// base + H(data) mod max; base if max is 0.
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

@deprecated("use verify_checksum and update_checksum")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// In the VerifyChecksum control only: sets standard_metadata.checksum_error if a checksum is wrong.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

// In the ComputeChecksum control only.
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// At the end of ingress: process the packet again as it came. Fields of the user's metadata that are
// annotated @field_list(index) keep their values.
extern void resubmit_preserving_field_list(bit<8> index);

// At the end of egress: process the deparsed packet as if it had come in by a port.
extern void recirculate_preserving_field_list(bit<8> index);

// The older forms preserve the fields that they are given.
@deprecated("use resubmit_preserving_field_list")
extern void resubmit<T>(in T data);
@deprecated("use recirculate_preserving_field_list")
extern void recirculate<T>(in T data);
@deprecated("use clone_preserving_field_list")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);

// Cut the packet to its first bytes when it leaves.
extern void truncate(in bit<32> length);

extern void assert(in bool check);
extern void assume(in bool check);

extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif
