// Classes of service, keys of an enum's type, and what packets tell of themselves.
#include "blocks.p4i"

struct metadata_t { bit<8> rounds; }

parser IngressParse(
        packet_in b, out headers_t hdr, inout metadata_t m,
        in psa_ingress_parser_input_metadata_t istd, in empty_t again, in empty_t around) {
    state start {
        b.extract(hdr.ethernet);
        b.extract(hdr.asked);
        transition accept;
    }
}

control In(
        inout headers_t hdr, inout metadata_t m, in psa_ingress_input_metadata_t istd,
        inout psa_ingress_output_metadata_t ostd) {
    action go(ClassOfService_t service, PortId_t port) {
        ostd.class_of_service = service;
        send_to_port(ostd, port);
    }
    action also_clone(ClassOfService_t service, CloneSessionId_t session) {
        ostd.class_of_service = service;
        ostd.clone = true;
        ostd.clone_session_id = session;
    }
    table ways {
        key = { hdr.asked.what: exact; istd.packet_path: exact @name("path"); }
        actions = { go; also_clone; }
    }
    apply {
        hdr.asked.rounds = (bit<8>) (ClassOfServiceUint_t) ostd.class_of_service;
        if (istd.parser_error != error.NoError) { hdr.asked.rounds = 0xee; }
        ways.apply();
    }
}

control InDeparse(
        packet_out b, out empty_t clone, out empty_t again, out empty_t normal,
        inout headers_t hdr, in metadata_t m, in psa_ingress_output_metadata_t istd) {
    apply { b.emit(hdr); }
}

parser OutParse(
        packet_in b, out headers_t hdr, inout metadata_t m,
        in psa_egress_parser_input_metadata_t istd, in empty_t normal, in empty_t cloned,
        in empty_t cloned_again) {
    state start {
        b.extract(hdr.ethernet);
        b.extract(hdr.asked);
        transition accept;
    }
}

control Out(
        inout headers_t hdr, inout metadata_t m, in psa_egress_input_metadata_t istd,
        inout psa_egress_output_metadata_t ostd) {
    apply {
        hdr.ethernet.kind[15:8] = (bit<8>) (ClassOfServiceUint_t) istd.class_of_service;
        hdr.ethernet.kind[7:0] = (bit<8>) (EgressInstanceUint_t) istd.instance;
        if (istd.parser_error == error.PacketTooShort) { hdr.ethernet.src = 0xeeeeeeeeeeee; }
        if (hdr.asked.what == 7 && istd.packet_path != PSA_PacketPath_t.CLONE_E2E) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 7;
        }
    }
}

control OutDeparse(
        packet_out b, out empty_t cloned, out empty_t around, inout headers_t hdr,
        in metadata_t m, in psa_egress_output_metadata_t istd,
        in psa_egress_deparser_input_metadata_t edstd) {
    apply { b.emit(hdr); }
}

IngressPipeline(IngressParse(), In(), InDeparse()) ip;
EgressPipeline(OutParse(), Out(), OutDeparse()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
