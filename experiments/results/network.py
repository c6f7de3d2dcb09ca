"""The results document of a network that was up."""

from typing import Any

import msgspec

from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.results.document import Document
from weft.experiments.results.queue_counts import PriorityQueueCounts
from weft.experiments.results.results import scenario_of
from weft.topo.network import Topology
from weft.topo.own import with_programs

SCHEMA = "weft.network"
FABRIC, PORTS, INTERFACE = "the fabric's program", "the switch's port", "the host's interface"
"""By what directions of links are counted."""


class DirectionCounts(
    msgspec.Struct, forbid_unknown_fields=True, rename={"from_node": "from", "to_node": "to"}
):
    """What one direction of one link has carried. Bytes are those of Ethernet frames without
    FCS."""

    from_node: str
    to_node: str
    port: int
    """The port number at the node that sends."""
    counted_by: str
    """``the fabric's program``, which counts since it was loaded, or ``the switch's port``, which
    counts since the network is up, or ``the host's interface`` between two hosts."""
    tx_packets: int
    tx_bytes: int
    lost: int | None = None
    """Packets lost on the link on purpose; None where nobody counts them."""
    queue_dropped: int | None = None
    """Packets that the sender's queue had no room for; None where that is not known."""
    refused: int | None = None
    """Frames that the kernel did not take from the sending switch, as when the link is down."""
    not_read: int | None = None
    """Frames that the switch that receives did not read in time."""
    queues: list[PriorityQueueCounts] = []
    """The queues of the port that sends, by priority, if it has several."""

    @property
    def dropped(self) -> int:
        """All packets of this direction that are known to have got lost."""
        found = (self.lost, self.queue_dropped, self.refused, self.not_read)
        return sum(each or 0 for each in found)


class TableSize(msgspec.Struct, forbid_unknown_fields=True):
    """How full a table is."""

    name: str
    size: int
    """For how many entries it has room."""
    entries: int


class SwitchState(msgspec.Struct, forbid_unknown_fields=True):
    """What a switch runs and holds."""

    name: str
    device_id: int
    program: str
    """The source of the user's own program; "" for the fabric's, or for none that Weft knows."""
    tables: list[TableSize] = []
    unread: str = ""
    """Why its tables could not be read."""
    form: str | None = None
    """How its program ran: ``compiled``, or ``plain`` until it has been compiled; None: BMv2, or no
    program."""
    dropped: dict[str, int] = {}
    """Packets that it has dropped, by reason: its program's wish, a port that it does not have."""


class NetworkResults(Document, msgspec.Struct, forbid_unknown_fields=True):
    """What a network has carried since it was up, and what its switches hold."""

    SCHEMA = SCHEMA
    WRITTEN_BY = "weft up --out DIR"

    network: str
    world: str
    switch_kind: str
    controlled: bool
    """Whether Weft's own controller owned the switches."""
    began: str
    """When it came up (ISO 8601)."""
    seconds: float
    """For how long it had been up, in its own world's time."""
    scenario: dict[str, Any]
    """The network in full, as a scenario has it."""
    links: list[DirectionCounts]
    switches: list[SwitchState]
    down: list[str] = []
    """The links that were down at the end."""
    environment: dict[str, Any] = {}
    schema: str = SCHEMA
    schema_version: int = 1

    @property
    def topology(self) -> Topology:
        """The network itself, with the programs that its switches ran at the end. Raises
        InputError for a document that describes none."""
        network = scenario_of(self.scenario).network()
        return with_programs(
            network, {each.name: each.program for each in self.switches if each.program}
        )

    def check(self, what: str) -> None:
        known = {direction.ends for direction in self.topology.directions}
        for each in self.links:
            if (each.from_node, each.to_node) not in known:
                raise InputError(
                    f"{what}: there is no link from {shown(each.from_node)} to "
                    f"{shown(each.to_node)} in its network"
                )
            if min(each.tx_packets, each.tx_bytes) < 0:
                raise InputError(f"{what}: links carry no less than 0 packets")
