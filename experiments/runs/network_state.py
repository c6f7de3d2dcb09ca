"""What a network that is up has carried, and what its switches hold, read off it."""

from datetime import datetime, timezone
from pathlib import Path

import msgspec

from weft.controller.counters import LinkCounters
from weft.controller.inspection import Inspector
from weft.controller.remote import SwitchError
from weft.experiments.report.network import render
from weft.experiments.results.document import DOCUMENT
from weft.experiments.results.network import (
    FABRIC,
    DirectionCounts,
    NetworkResults,
    SwitchState,
    TableSize,
)
from weft.experiments.results.queue_counts import PriorityQueueCounts
from weft.experiments.runs.folder import REPORT, ResultsFolder
from weft.experiments.runs.switch_statistics import (
    PortStatistics,
    SwitchProcessStatistics,
    SwitchStatistics,
)
from weft.experiments.runs.up_network import UpNetwork
from weft.experiments.runs.versions import environment
from weft.topo.network import Direction, Switch
from weft.topo.worlds.registry import has_real_time


def gather(net: UpNetwork) -> NetworkResults:
    """Return what a network has carried and what its switches hold now.

    Raises RunError if a process of the network has ended.
    """
    counted = net.counts()
    told = msgspec.convert(net.backend.switch_statistics(), SwitchProcessStatistics)
    ports = {(each.name, port.port): port for each in told.switches for port in each.ports}
    hosts_drops = net.backend.host_queue_drops()
    links = [
        _direction(net, each, counted[each.ends], ports, hosts_drops)
        for each in net.topology.directions
    ]
    of_switches = {each.name: each for each in told.switches}
    programs = net.backend.programs()
    now = datetime.now(timezone.utc)
    elapsed_s = net.now - net.began_s
    began = datetime.fromtimestamp(net.began_s, timezone.utc) if has_real_time(net.world) else now
    return NetworkResults(
        network=net.topology.describe(),
        world=net.world,
        switch_kind=net.scenario.switch,
        controlled=net.standing.controlled,
        began=began.isoformat(timespec="seconds"),
        seconds=round(elapsed_s, 6),
        scenario=net.scenario.to_dict(),
        links=links,
        switches=[
            _switch(net, each, programs[each.name], of_switches.get(each.name))
            for each in net.topology.switches
        ],
        down=sorted(net.down),
        environment={**environment(), "switch": net.scenario.switch},
    )


def _direction(
    net: UpNetwork,
    direction: Direction,
    counted: LinkCounters,
    ports: dict[tuple[str, int], PortStatistics],
    hosts_drops: dict[str, int],
) -> DirectionCounts:
    sender, receiver = direction.source, direction.destination
    counted_by = net.counted_by(direction)
    builtin = net.scenario.switch == "weft"
    sending = ports.get((sender.node, sender.number))
    receiving = ports.get((receiver.node, receiver.number)) if builtin else None
    dropped = None if sending is None else sending.queue_drops
    if sending is None and len(net.topology.outward(sender.node)) == 1:
        dropped = hosts_drops.get(sender.node)
    return DirectionCounts(
        from_node=direction.ends[0],
        to_node=direction.ends[1],
        port=sender.number,
        counted_by=counted_by,
        tx_packets=counted.tx_packets,
        tx_bytes=counted.tx_bytes,
        lost=counted.lost_packets if counted_by == FABRIC or direction.link.loss else None,
        queue_dropped=dropped,
        refused=sending.send_errors if sending and builtin else None,
        not_read=receiving.kernel_drops if receiving else None,
        queues=[
            PriorityQueueCounts(
                each.priority, each.taken_packets, each.taken_bytes, each.drops, each.peak_bytes
            )
            for each in (sending.queues if sending else [])
        ],
    )


def _switch(
    net: UpNetwork, switch: Switch, program: str, told: SwitchStatistics | None
) -> SwitchState:
    name, device_id = switch.name, switch.device_id
    state = SwitchState(name, device_id, program)
    if told is not None:
        state.form = told.form
        state.dropped = {why: count for why, count in told.drops.items() if count}
    try:
        with Inspector(name, device_id, net.backend.switch_addresses[name]) as inspector:
            sizes = inspector.sizes()
    except SwitchError as error:
        state.unread = str(error)
        return state
    state.tables = [TableSize(table, room, held) for table, (room, held) in sizes.items()]
    return state


def write_results(results: NetworkResults, folder: ResultsFolder) -> list[Path]:
    """Write the document and its report to a results folder, and return the files. Raises
    MachineError if one cannot be written."""
    return folder.put(((DOCUMENT, results.text()), (REPORT, render(results))))
