"""The control plane of p4/fabric.p4: the names that its P4Info has."""

from __future__ import annotations

ROUTE_TABLE = "FabricIngress.forwarding.ipv4_route"
ECMP = "FabricIngress.forwarding.ecmp"
FORWARD = "FabricIngress.forwarding.forward"
DROP = "FabricIngress.forwarding.drop"
DESTINATION = "hdr.ipv4.dst_addr"

PINNED_TABLE = "FabricIngress.forwarding.pinned_path"
PIN = "FabricIngress.forwarding.pin"
SOURCE = "hdr.ipv4.src_addr"
SOURCE_PORT = "hdr.udp.src_port"
PINNED_ENTRIES = 65536

SPRAY = "FabricIngress.forwarding.spray"
SPRAY_TABLE = "FabricIngress.forwarding.spray_port"
SPRAY_PLACE = "meta.place"
SPRAY_SETS = 4096
SPRAY_PLACES = 16384

ECN_TABLE = "FabricEgress.congestion.ecn"
MARK_FROM = "FabricEgress.congestion.mark_from"
ECN_MARKED = "FabricEgress.congestion.ecn_marked"
MAX_ECN_THRESHOLD = (1 << 19) - 1
"""v1model's queue depths have 19 bits."""

CONFIG_TABLE = "FabricIngress.forwarding.switch_config"
SET_SALT = "FabricIngress.forwarding.set_salt"
SET_SALT_BY_FLOW = "FabricIngress.forwarding.set_salt_by_flow"

MULTICAST_TABLE = "FabricIngress.multicast.multicast_route"
REPLICATE = "FabricIngress.multicast.replicate"

INGRESS_FAULT_TABLE = "FabricIngress.fault.ingress_fault"
INGRESS_LOSE = "FabricIngress.fault.lose"
INGRESS_LOSE_ALL = "FabricIngress.fault.lose_all"
INGRESS_PORT = "standard_metadata.ingress_port"

EGRESS_FAULT_TABLE = "FabricEgress.fault.egress_fault"
EGRESS_LOSE = "FabricEgress.fault.lose"
EGRESS_LOSE_ALL = "FabricEgress.fault.lose_all"
EGRESS_PORT = "standard_metadata.egress_port"

PORT_INGRESS = "FabricIngress.port_ingress"
PORT_EGRESS = "FabricEgress.port_egress"
PORT_EGRESS_HEADERS = "FabricEgress.port_egress_headers"
PORT_EGRESS_VALUES = "FabricEgress.port_egress_values"
"""Packets of aggregation, without values and with them, are counted apart from all others."""
INGRESS_LOST = "FabricIngress.fault.ingress_lost"
EGRESS_LOST = "FabricEgress.fault.egress_lost"

AGGREGATION = "FabricIngress.aggregation."
"""What the names of in-switch aggregation begin with; a program may be compiled without it."""
AGGREGATION_JOB_TABLE = AGGREGATION + "aggregation_job"
AGGREGATION_JOB = AGGREGATION + "job"
AGGREGATION_PORT_TABLE = AGGREGATION + "aggregation_port"
AGGREGATION_FROM_CHILD = AGGREGATION + "from_child"
AGGREGATION_FROM_PARENT = AGGREGATION + "from_parent"
AGGREGATION_OWNER_TABLE = AGGREGATION + "aggregation_owner"
AGGREGATION_OWNER_PORT = AGGREGATION + "owner_port"
AGGREGATION_OWNER = "hdr.aggregation.owner"
AGGREGATION_ROW_VALUES = AGGREGATION + "row_values"
"""The register whose size is that of all rows' values."""
AGGREGATION_FRAME_BYTES = 14 + 20 + 8 + 12 + 8 + 4 + 16 + 4
"""Of a packet without values: Ethernet to the aggregation header, and ICRC."""
AGGREGATION_ROWS = 1024
"""Of the switch's registers, for the pools of all jobs."""
AGGREGATION_JOBS = 256
"""Jobs that a switch tells apart, by the last bits of their addresses."""
