"""The control plane of p4/fabric.p4: the names that its P4Info has."""

from __future__ import annotations

ROUTE_TABLE = "FabricIngress.forwarding.ipv4_route"
ECMP = "FabricIngress.forwarding.ecmp"
FORWARD = "FabricIngress.forwarding.forward"
DROP = "FabricIngress.forwarding.drop"
DESTINATION = "hdr.ipv4.dst_addr"

CONFIG_TABLE = "FabricIngress.forwarding.switch_config"
SET_SALT = "FabricIngress.forwarding.set_salt"

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
INGRESS_LOST = "FabricIngress.fault.ingress_lost"
EGRESS_LOST = "FabricEgress.fault.egress_lost"
