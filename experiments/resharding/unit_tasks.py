"""Unit tasks of a resharding: the slices that have to be moved, who can send and who needs each.

"On Optimizing the Communication of Model Parallelism" (MLSys 2023, arXiv 2211.05322), section 2.2:
each destination tile is cut by the source tiles; a slice is a unit task, its senders are the
replicas of the source tile, its receivers those of the destination tile. Devices that have a slice
already receive nothing, so meshes may overlap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.agents.collectives.tensors import Box, size_of
from weft.experiments.resharding.meshes import Device


@dataclass(frozen=True)
class UnitTask:
    """A unit task is a slice of a tensor that some devices have and others need."""

    tensor: int
    """The number of the tensor."""
    box: Box
    size_bytes: int
    senders: tuple[Device, ...]
    """The devices that have the whole slice."""
    receivers: tuple[Device, ...]
    """The devices that need it."""

    @cached_property
    def sender_hosts(self) -> tuple[int, ...]:
        """Return the hosts that have the slice, in order."""
        return tuple(dict.fromkeys(device.host for device in self.senders))

    @cached_property
    def local(self) -> tuple[Device, ...]:
        """Return the receivers on hosts of which another device has the slice: it is copied inside
        the host."""
        return tuple(each for each in self.receivers if each.host in self.sender_hosts)

    @cached_property
    def remote(self) -> Mapping[int, tuple[Device, ...]]:
        """Return, by host, the receivers to which it has to be sent."""
        found: dict[int, tuple[Device, ...]] = {}
        for each in self.receivers:
            if each.host not in self.sender_hosts:
                found[each.host] = (*found.get(each.host, ()), each)
        return found


def unit_tasks(
    tensor: int,
    item_bytes: int,
    source: Sequence[tuple[Device, Box]],
    destination: Sequence[tuple[Device, Box]],
) -> list[UnitTask]:
    """Return the unit tasks of one tensor, by destination tile and then by source tile.

    Args:
        source, destination: the tile of each device.
    """
    holders, needers = _by_tile(source), _by_tile(destination)
    tasks = []
    for tile, devices in needers.items():
        for other, senders in holders.items():
            box = overlap(tile, other)
            if box is None:
                continue
            having = {*senders}
            receivers = tuple(device for device in devices if device not in having)
            if receivers:
                size_bytes = size_of(box) * item_bytes
                tasks.append(UnitTask(tensor, box, size_bytes, senders, receivers))
    return tasks


def overlap(one: Box, other: Box) -> Box | None:
    """Return what two slices of a tensor have in common; None where that is nothing."""
    bounds = [
        (max(begin, start), min(end, stop))
        for (begin, end), (start, stop) in zip(one, other, strict=True)
    ]
    return tuple(bounds) if all(begin < end for begin, end in bounds) else None


def _by_tile(tiles: Sequence[tuple[Device, Box]]) -> dict[Box, tuple[Device, ...]]:
    found: dict[Box, list[Device]] = {}
    for device, box in tiles:
        if size_of(box):
            found.setdefault(box, []).append(device)
    return {box: tuple(devices) for box, devices in found.items()}
