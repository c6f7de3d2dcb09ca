"""A plan of a resharding as flows between hosts, with all that is needed to verify every tile.

A unit task begins when the links that it takes are free: its sender's, and those of its receivers,
in the order of the plan. So each takes its links alone, as the plan has it. Slices are packed in
the memory of a host, each once for a sender, whichever of its devices hold it. Packing takes no
time; copies between devices of a host take a declared time (`Flows.copied`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.tensors import Box, DeviceTile, Piece, Tensors, TensorShape, size_of
from weft.base.errors import refuse
from weft.experiments.families.resharding.meshes import MeshDevice
from weft.experiments.families.resharding.plan import ReshardingPlan
from weft.experiments.families.resharding.strategy import Event, Flows, Need, Strategy, Transfer
from weft.experiments.families.resharding.unit_tasks import UnitTask, overlap

MOST_GROUPS = 4096
"""The most multicast groups that a switch's table holds (``multicast_route`` of p4/fabric.p4)."""
LARGEST_BLOCK_BYTES = 64 * 1024

Near = Callable[[int], tuple[object, ...]]
"""The place of a host in the network: of hosts that are close to each other more of the first
numbers are equal."""


def nowhere(host: int) -> tuple[object, ...]:
    """Say that a host is as far from all others."""
    return ()


def usual_block_bytes(asked_bytes: int, largest_bytes: int, blocks: int, mtu: int) -> int:
    """Return what flows pass on at a time, in whole packets.

    Args:
        asked_bytes: what is asked for; 0: the largest slice in so many blocks, or blocks of
            `LARGEST_BLOCK_BYTES` where these are smaller.
    """
    wanted = asked_bytes or min(LARGEST_BLOCK_BYTES, -(-largest_bytes // blocks))
    return -(-wanted // mtu) * mtu


@dataclass(frozen=True)
class Carried:
    """What ranks do for a resharding, and what they must have in the end."""

    graph: FlowGraph
    tensors: Tensors
    block_bytes: int
    """What flows pass on at a time."""
    bound_bytes: int
    """The least time by any plan, in bytes that a host's link carries meanwhile."""


def needs_of(
    remote: Mapping[int, Sequence[MeshDevice]], source: int, near: Near
) -> tuple[Need, ...]:
    """Return the hosts that need a slice, in the order of a chain that begins at its source: those
    of the same switch, then of the same pod, are visited one after the other.

    Args:
        remote: the devices that need it, by host.
    """
    here = near(source)

    def order(host: int) -> tuple[int, tuple[str, ...], int]:
        place = near(host)
        common = next(
            (level for level, (one, other) in enumerate(zip(here, place, strict=False))
             if one != other), len(here),
        )  # fmt: skip
        return -common, tuple(map(str, place)), host

    return tuple(Need(host, len(remote[host])) for host in sorted(remote, key=order))


class Carrier:
    """A carrier puts reshardings into one graph of flows.

    Args:
        flows: what the flows are added to.
        near: where each host is, for the order of chains.
    """

    def __init__(self, flows: Flows, near: Near = nowhere) -> None:
        self.flows = flows
        self._near = near
        self._tensors: list[TensorShape] = []
        self._bound_bytes = 0
        self._tiles: list[list[DeviceTile]] = [[] for _ in range(flows.hosts)]

    def empty(self) -> "Carrier":
        """Return another of the same hosts, links and blocks, which carries nothing yet."""
        flows = self.flows
        fresh = Flows(flows.hosts, flows.rate_bps, flows.local_factor, flows.block_bytes)
        return Carrier(fresh, self._near)

    def add(
        self,
        plan: ReshardingPlan,
        strategy: Strategy,
        after: Mapping[int, Sequence[Event]] | None = None,
    ) -> tuple[dict[int, tuple[Event, ...]], dict[int, tuple[Event, ...]]]:
        """Add a resharding.

        Args:
            after: by host, after what its devices have their source tiles.

        Returns:
            by host, after what its devices have their tiles; and by host that sends, after what
            its slices have left it.
        """
        after = after or {}
        base = len(self._tensors)
        self._bound_bytes += plan.bound_bytes
        self._tensors += [TensorShape(each.shape, each.item_bytes) for each in plan.tensors]
        placed: dict[tuple[int, Box, MeshDevice], Piece] = {}
        there: dict[int, list[Event]] = {}
        out_free: dict[int, tuple[Event, ...]] = {}
        in_free: dict[int, tuple[Event, ...]] = {}
        sent: dict[int, list[Event]] = {}
        for number in plan.order:
            task = plan.tasks[number]
            self._copy_inside(task, base, placed, there, after)
            sender = plan.senders.get(number)
            if sender is None:
                continue
            source = self._hold(sender.host, task.tensor + base, task)
            needs = needs_of(task.remote, sender.host, self._near)
            waits = [*after.get(sender.host, ()), *out_free.get(sender.host, ())]
            for need in needs:
                waits += in_free.get(need.host, ())
            delivery = strategy.add(
                self.flows,
                Transfer(sender.host, source.memory, source.offset, task.size_bytes, needs,
                         tuple(dict.fromkeys(waits))),
            )  # fmt: skip
            out_free[sender.host] = delivery.sender_free
            sent.setdefault(sender.host, []).extend(delivery.sender_free)
            in_free |= delivery.receivers_free
            for need in needs:
                there.setdefault(need.host, []).extend(delivery.there[need.host])
                copies = delivery.copies[need.host]
                for place, device in enumerate(task.remote[need.host]):
                    offset = copies[place % len(copies)]
                    piece = Piece(task.tensor + base, task.box, 1, offset)
                    placed[task.tensor + base, task.box, device] = piece
        self._add_tiles(plan, base, placed, there, after)
        return (
            {host: tuple(events) for host, events in there.items()},
            {host: tuple(events) for host, events in sent.items()},
        )

    def carried(self) -> Carried:
        """Return all that was added.

        Raises:
            InputError: there is nothing to be sent, or it takes more multicast groups than the
                table of a switch holds.
        """
        flows = self.flows
        graph = flows.builder.build(flows.buffer_bytes, flows.output_bytes)
        refuse(
            len(graph.groups) > MOST_GROUPS,
            f"multicast: {len(graph.groups)} groups are needed, and the table of a switch holds "
            f"{MOST_GROUPS}; choose another strategy, like broadcast, or meshes of fewer hosts",
        )
        held = tuple(tuple(pieces.values()) for pieces in flows.held)
        tensors = Tensors(tuple(self._tensors), held, (*map(tuple, self._tiles),))
        return Carried(graph, tensors, flows.block_bytes, self._bound_bytes)

    def _hold(self, host: int, tensor: int, task: UnitTask) -> Piece:
        return self.flows.hold(host, tensor, task.box, task.size_bytes)

    def _copy_inside(
        self, task: UnitTask, base: int, placed: dict[tuple[int, Box, MeshDevice], Piece],
        there: dict[int, list[Event]], after: Mapping[int, Sequence[Event]],
    ) -> None:  # fmt: skip
        """Add the copies to devices on hosts of which another device holds the slice."""
        by_host: dict[int, list[MeshDevice]] = {}
        for device in task.local:
            by_host.setdefault(device.host, []).append(device)
        for host, devices in by_host.items():
            piece = self._hold(host, task.tensor + base, task)
            size_bytes = task.size_bytes * len(devices)
            events = self.flows.copied(host, size_bytes, after.get(host, ()))
            there.setdefault(host, []).extend(events)
            for device in devices:
                placed[task.tensor + base, task.box, device] = piece

    def _add_tiles(
        self, plan: ReshardingPlan, base: int, placed: Mapping[tuple[int, Box, MeshDevice], Piece],
        there: dict[int, list[Event]], after: Mapping[int, Sequence[Event]],
    ) -> None:  # fmt: skip
        """Say of what every device's tile consists: what was brought to it, and what it has had. A
        part that is neither is left out, so that the tile fails to verify."""
        for number, tensor in enumerate(plan.tensors):
            had = dict(zip(plan.source.mesh_devices, plan.source_tiles(number), strict=True))
            sources = dict.fromkeys(had.values())
            for device, box in zip(
                plan.destination.mesh_devices, plan.destination_tiles(number), strict=True
            ):
                pieces = []
                for other in sources:
                    common = overlap(box, other)
                    if common is None:
                        continue
                    piece = placed.get((number + base, common, device))
                    if piece is None and had.get(device) == other:
                        size_bytes = size_of(common) * tensor.item_bytes
                        piece = self.flows.hold(device.host, number + base, common, size_bytes)
                    pieces += [piece] if piece else []
                name = f"{device.local} of host {device.host}"
                self._tiles[device.host].append(DeviceTile(name, number + base, box, (*pieces,)))
                if device.host not in there:  # it has everything from the start
                    there[device.host] = list(after.get(device.host, ()))
