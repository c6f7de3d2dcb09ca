// Each extern of PSA once. What is asked for, `what`, says which answers.
#include "blocks.p4i"

header ipv4_t { bit<16> start; bit<16> checksum; bit<32> src; bit<32> dst; }
struct frame_t { ethernet_t ethernet; asked_t asked; ipv4_t ipv4; }
struct metadata_t { bit<1> learned; bit<16> parsed; }
struct learned_t { bit<48> src; PortId_t port; }

parser IngressParse(
        packet_in b, out frame_t hdr, inout metadata_t m,
        in psa_ingress_parser_input_metadata_t istd, in empty_t again, in empty_t around) {
    InternetChecksum() sum;
    state start {
        b.extract(hdr.ethernet);
        b.extract(hdr.asked);
        transition select(hdr.asked.what) {
            0x10 .. 0x1f: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        b.extract(hdr.ipv4);
        sum.clear();
        sum.add({ hdr.ipv4.start, hdr.ipv4.src, hdr.ipv4.dst });
        m.parsed = sum.get();
        transition accept;
    }
}

control In(
        inout frame_t hdr, inout metadata_t m, in psa_ingress_input_metadata_t istd,
        inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<32>, bit<8>>(16, PSA_CounterType_t.PACKETS_AND_BYTES) arrivals;
    DirectCounter<bit<64>>(PSA_CounterType_t.PACKETS_AND_BYTES) hits;
    Meter<bit<8>>(4, PSA_MeterType_t.PACKETS) pace;
    DirectCounter<bit<64>>(PSA_CounterType_t.PACKETS) seen;
    DirectMeter(PSA_MeterType_t.PACKETS) rate;
    Register<bit<32>, bit<8>>(8) last;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) hash16;
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32) hash32;
    Hash<bit<64>>(PSA_HashAlgorithm_t.IDENTITY) same;
    Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) together;
    Random<bit<8>>(7, 7) seven;
    ActionProfile(16) ways;
    ActionSelector(PSA_HashAlgorithm_t.CRC16, 16, 8) spread;

    action forward(PortId_t port) { hits.count(); send_to_port(ostd, port); }
    action pass(PortId_t port) { send_to_port(ostd, port); }  // counts nothing
    action measure(PortId_t port) {
        seen.count();
        hdr.asked.value = (rate.execute() == PSA_MeterColor_t.RED) ? 32w0x0bad : 32w0x600d;
        send_to_port(ostd, port);
    }
    action answer(bit<32> value, PortId_t port) { hdr.asked.value = value; send_to_port(ostd, port); }
    table counted {
        key = { hdr.ethernet.dst: lpm; }
        actions = { forward; pass; @defaultonly NoAction; }
        psa_direct_counter = hits;
        default_action = NoAction;
    }
    table measured {
        key = { hdr.ethernet.src: exact; }
        actions = { measure; NoAction; }
        psa_direct_counter = seen;
        psa_direct_meter = rate;
        default_action = NoAction;
    }
    table profiled {
        key = { hdr.ethernet.src: exact; }
        actions = { answer; NoAction; }
        psa_implementation = ways;
    }
    table selected {
        key = { hdr.ethernet.kind: exact; hdr.ethernet.src: selector; }
        actions = { answer; NoAction; }
        psa_implementation = spread;
    }
    apply {
        send_to_port(ostd, (PortId_t) 1);
        arrivals.count(hdr.asked.what);
        m.learned = 0;
        switch (hdr.asked.what) {
            1: { counted.apply(); }
            2: {
                PSA_MeterColor_t colour = pace.execute(hdr.asked.rounds);
                hdr.asked.told = colour == PSA_MeterColor_t.GREEN ? 16w0xaaaa :
                    colour == PSA_MeterColor_t.YELLOW ? 16w0xbbbb : 16w0xcccc;
            }
            3: { measured.apply(); }
            4: {
                bit<32> before = last.read(hdr.asked.rounds);
                last.write(hdr.asked.rounds, hdr.asked.value + before);
                hdr.asked.value = before;
            }
            5: {
                hdr.asked.told = hash16.get_hash({ hdr.ethernet.dst, hdr.ethernet.kind });
                hdr.asked.value = hash32.get_hash({ hdr.ethernet.dst, hdr.ethernet.kind });
            }
            6: {
                hdr.asked.told = hash16.get_hash(16w100, { hdr.ethernet.dst, 4w5, 4w6 }, 16w10);
                hdr.asked.value = (bit<32>) same.get_hash(hdr.ethernet.kind ++ 8w9);
            }
            7: {
                together.clear();
                together.update(hdr.ethernet.dst);
                together.update({ hdr.ethernet.kind });
                hdr.asked.value = together.get();
            }
            8: { hdr.asked.rounds = seven.read(); }
            9: { profiled.apply(); }
            10: { selected.apply(); }
            11: { m.learned = 1; }
            12: { hdr.asked.value = (bit<32>) (TimestampUint_t) istd.ingress_timestamp; }
        }
    }
}

control InDeparse(
        packet_out b, out empty_t clone, out empty_t again, out metadata_t normal,
        inout frame_t hdr, in metadata_t m, in psa_ingress_output_metadata_t istd) {
    Digest<learned_t>() learned;
    apply {
        normal = m;
        if (m.learned == 1) { learned.pack({ hdr.ethernet.src, (PortId_t) 5 }); }
        b.emit(hdr);
    }
}

parser OutParse(
        packet_in b, out frame_t hdr, inout metadata_t m,
        in psa_egress_parser_input_metadata_t istd, in metadata_t normal, in empty_t cloned,
        in empty_t cloned_again) {
    state start {
        m = normal;
        b.extract(hdr.ethernet);
        b.extract(hdr.asked);
        transition select(hdr.asked.what) {
            0x10 .. 0x1f: ipv4;
            default: accept;
        }
    }
    state ipv4 { b.extract(hdr.ipv4); transition accept; }
}

control Out(
        inout frame_t hdr, inout metadata_t m, in psa_egress_input_metadata_t istd,
        inout psa_egress_output_metadata_t ostd) {
    apply { }
}

control OutDeparse(
        packet_out b, out empty_t cloned, out empty_t around, inout frame_t hdr, in metadata_t m,
        in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    InternetChecksum() sum;
    apply {
        if (hdr.asked.what == 0x10) {  // of the whole header
            hdr.ipv4.checksum = m.parsed;
        }
        if (hdr.asked.what == 0x11) {  // as RFC 1624: the difference alone
            sum.set_state(~hdr.ipv4.checksum);
            sum.subtract(hdr.ipv4.dst);
            hdr.ipv4.dst = hdr.ipv4.dst + 1;
            sum.add(hdr.ipv4.dst);
            hdr.ipv4.checksum = sum.get();
            hdr.asked.told = sum.get_state();
        }
        b.emit(hdr);
    }
}

IngressPipeline(IngressParse(), In(), InDeparse()) ip;
EgressPipeline(OutParse(), Out(), OutDeparse()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
