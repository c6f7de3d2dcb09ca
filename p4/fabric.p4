// The switch program of Weft's fabrics: every leaf, spine and core runs it.
//
// It routes IPv4 by pinned paths, equal-cost multipath or spraying, marks packets that find a long
// queue, replicates multicast along the trees that the controller installed, adds what the ranks of
// an aggregation job send, counts packets and bytes per port, and loses packets on purpose where the
// controller asked for it. All tables are owned by the controller (folder controller/).

#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/faults.p4"
#include "include/multicast.p4"
#include "include/aggregation.p4"
#include "include/forwarding.p4"
#include "include/congestion.p4"
#include "include/priorities.p4"

// Features of other packages (controller/features): what weft_features.p4 includes and names.
#ifdef WEFT_FEATURES
#include "weft_features.p4"
#else
#define INGRESS_FEATURE_INSTANCES
#define INGRESS_FEATURES
#define EGRESS_FEATURE_INSTANCES
#define EGRESS_FEATURES
#endif

control FabricIngress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    // What arrived on each port, counted before any loss.
    counter(PORTS, CounterType.packets_and_bytes) port_ingress;

    IngressFault() fault;
    Multicast() multicast;
    Aggregation() aggregation;
    Forwarding() forwarding;
    PRIORITIES_INSTANCE
    INGRESS_FEATURE_INSTANCES

    apply {
        port_ingress.count((bit<32>)standard_metadata.ingress_port);
        fault.apply(meta, standard_metadata);
        if (meta.lost == 0) {
            APPLY_PRIORITIES
            if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1
                    || hdr.ipv4.ttl <= 1
                    || (standard_metadata.parser_error != error.NoError && meta.aggregated == 0)) {
                mark_to_drop(standard_metadata);
            } else if (meta.aggregated == 1) {
                aggregation.apply(hdr, meta, standard_metadata);
            } else if (hdr.ipv4.dst_addr[31:28] == MULTICAST_PREFIX) {
                multicast.apply(hdr, standard_metadata);
            } else {
                INGRESS_FEATURES
                forwarding.apply(hdr, meta, standard_metadata);
            }
        }
    }
}

control FabricEgress(inout headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    // What was put on each port's link, counted before any loss on that link.
    counter(PORTS, CounterType.packets_and_bytes) port_egress;
    // A counter has the bytes that came in. Aggregation changes that, so its packets, which have
    // all values or none, are counted apart.
    counter(PORTS, CounterType.packets) port_egress_headers;
    counter(PORTS, CounterType.packets) port_egress_values;

    EgressFault() fault;
    AggregationEgress() aggregation;
    CongestionMarking() congestion;
    EGRESS_FEATURE_INSTANCES

    apply {
        if (meta.aggregated == 1) {
            aggregation.apply(hdr, meta, standard_metadata);
        }
        if (standard_metadata.instance_type == INSTANCE_REPLICATION && meta.aggregated == 0
                && standard_metadata.egress_port == standard_metadata.ingress_port) {
            // A multicast tree is undirected: a packet never goes back to where it came from.
            mark_to_drop(standard_metadata);
        } else {
            congestion.apply(hdr, standard_metadata);
            EGRESS_FEATURES
            if (meta.aggregated == 0) {
                port_egress.count((bit<32>)standard_metadata.egress_port);
            } else if (hdr.values.isValid()) {
                port_egress_values.count((bit<32>)standard_metadata.egress_port);
            } else {
                port_egress_headers.count((bit<32>)standard_metadata.egress_port);
            }
            fault.apply(meta, standard_metadata);
        }
    }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), FabricIngress(), FabricEgress(),
         FabricComputeChecksum(), FabricDeparser()) main;
