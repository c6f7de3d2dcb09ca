"""A plan of a move of weights as flows between hosts, with all that is needed to verify every tile.

A bucket begins when the links that it takes are free, as a resharding's slice does
(`weft.experiments.families.resharding.carrier`). Its slices are packed one after the other in the
sender's memory, as the type in which they travel; packing takes no time.
"""

from collections.abc import Mapping

from weft.agents.collectives.tensors import Box, DeviceTile, Piece, Tensors
from weft.base.errors import refuse
from weft.experiments.families.resharding.carrier import MOST_GROUPS, Carried, Near, needs_of
from weft.experiments.families.resharding.meshes import MeshDevice
from weft.experiments.families.resharding.strategy import Event, Flows, Strategy, Transfer
from weft.experiments.families.resharding.unit_tasks import overlap
from weft.experiments.families.weights.plan import Bucket, WeightsPlan

Placed = dict[tuple[MeshDevice, int], list[Piece]]
"""By device and tensor, what has come, and where it is."""


def carry(plan: WeightsPlan, strategy: Strategy, flows: Flows, near: Near) -> Carried:
    """Return the flows of a move, and the tensors that they carry.

    Args:
        flows: has none yet.
        near: where each host is, for the order of chains.

    Raises:
        InputError: it takes more multicast groups than the table of a switch holds.
    """
    placed: Placed = {}
    free: dict[tuple[int, str], tuple[Event, ...]] = {}
    for bucket, sender in zip(plan.buckets, plan.senders, strict=True):
        offset = flows.buffer_bytes[sender]
        for each in bucket.slices:
            flows.hold(sender, each.tensor, each.box, each.size_bytes)
        needs = needs_of(bucket.remote, sender, near)
        waits = [*free.get((sender, "out"), ())]
        for need in needs:
            waits += free.get((need.host, "in"), ())
        after = tuple(dict.fromkeys(waits))
        delivery = strategy.add(flows, Transfer(sender, 0, offset, bucket.size_bytes, needs, after))
        free[sender, "out"] = delivery.sender_free
        free |= {(host, "in"): events for host, events in delivery.receivers_free.items()}
        _place(bucket, delivery.copies, placed)
    graph = flows.builder.build(flows.buffer_bytes, flows.output_bytes)
    refuse(
        len(graph.groups) > MOST_GROUPS,
        f"multicast: {len(graph.groups)} groups are needed, and the table of a switch holds "
        f"{MOST_GROUPS}; choose another strategy, like broadcast, or meshes of fewer hosts",
    )
    held = tuple(tuple(pieces.values()) for pieces in flows.held)
    tensors = Tensors(plan.tensors, held, _tiles(plan, flows.hosts, placed))
    return Carried(graph, tensors, flows.block_bytes, plan.bound_bytes)


def _place(bucket: Bucket, copies: Mapping[int, tuple[int, ...]], placed: Placed) -> None:
    """Note where each device finds the slices of a bucket."""
    for host, devices in bucket.remote.items():
        for number, device in enumerate(devices):
            offset = copies[host][number % len(copies[host])]
            for each in bucket.slices:
                piece = Piece(each.tensor, each.box, 1, offset)
                placed.setdefault((device, each.tensor), []).append(piece)
                offset += each.size_bytes


def _tiles(plan: WeightsPlan, hosts: int, placed: Placed) -> tuple[tuple[DeviceTile, ...], ...]:
    """Say of what every device's tile consists. A part that did not come is left out, so that the
    tile fails to verify."""
    found: list[list[DeviceTile]] = [[] for _ in range(hosts)]
    for tile in plan.tiles:
        device = tile.device
        pieces = [
            piece
            for piece in placed.get((device, tile.tensor), ())
            if _is_within(piece.box, tile.box)
        ]
        name = f"{device.local} of host {device.host}"
        found[device.host].append(DeviceTile(name, tile.tensor, tile.box, tuple(pieces)))
    return tuple(map(tuple, found))


def _is_within(box: Box, tile: Box) -> bool:
    return overlap(box, tile) == box
