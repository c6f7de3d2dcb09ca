"""Unit tasks of a resharding: the slices that have to be moved, who can send and who needs each.

"On Optimizing the Communication of Model Parallelism" (MLSys 2023, arXiv 2211.05322), section 2.2:
each destination tile is cut by the source tiles; a slice is a unit task, its senders are the
replicas of the source tile, its receivers those of the destination tile. Devices that have a slice
already receive nothing, so meshes may overlap.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from weft.agents.collectives.tensors import Box, size_of
from weft.base.errors import refuse
from weft.experiments.families.resharding.meshes import MeshDevice

MOST_TASKS = 1 << 18
"""The most slices that a tensor may be cut into."""


@dataclass(frozen=True)
class UnitTask:
    """A unit task is a slice of a tensor that some devices have and others need."""

    tensor: int
    """The number of the tensor."""
    box: Box
    size_bytes: int
    senders: tuple[MeshDevice, ...]
    """The devices that have the whole slice."""
    receivers: tuple[MeshDevice, ...]
    """The devices that need it."""

    @cached_property
    def sender_hosts(self) -> tuple[int, ...]:
        """Return the hosts that have the slice, in order."""
        return tuple(dict.fromkeys(device.host for device in self.senders))

    @cached_property
    def local(self) -> tuple[MeshDevice, ...]:
        """Return the receivers on hosts of which another device has the slice: it is copied inside
        the host."""
        return tuple(each for each in self.receivers if each.host in self.sender_hosts)

    @cached_property
    def remote(self) -> Mapping[int, tuple[MeshDevice, ...]]:
        """Return, by host, the receivers to which it has to be sent."""
        near = {*self.sender_hosts}
        found: dict[int, list[MeshDevice]] = {}
        for each in self.receivers:
            if each.host not in near:
                found.setdefault(each.host, []).append(each)
        return {host: tuple(devices) for host, devices in found.items()}


def unit_tasks(
    tensor: int,
    item_bytes: int,
    source: Sequence[tuple[MeshDevice, Box]],
    destination: Sequence[tuple[MeshDevice, Box]],
) -> list[UnitTask]:
    """Return the unit tasks of one tensor, by destination tile and then by source tile.

    Args:
        source, destination: the tile of each device, as `specs.Spec.tile` has it: each dimension is
            cut in the same way whatever the place in the others.

    Raises:
        InputError: there are more than `MOST_TASKS`.
    """
    holders, needers = _by_tile(source), _by_tile(destination)
    places = {box: place for place, box in enumerate(holders)}
    having = {box: frozenset(devices) for box, devices in holders.items()}
    common = {device for device, _ in source} & {device for device, _ in destination}
    cuts = [sorted({*bounds}) for bounds in zip(*holders, strict=True)]
    met = [
        {part: _meeting(part, cut) for part in {*bounds}}
        for cut, bounds in zip(cuts, zip(*needers, strict=True), strict=True)
    ]
    slices = prod(sum(map(len, parts.values())) for parts in met)
    refuse(
        slices > MOST_TASKS,
        f"tensor {tensor} is cut into {slices} slices: a resharding has {MOST_TASKS} at most; "
        "choose coarser shardings",
    )
    tasks = []
    for tile, devices in needers.items():
        others = product(*(parts[bounds] for parts, bounds in zip(met, tile, strict=True)))
        for other in sorted(others, key=places.__getitem__):
            receivers = devices
            if common:
                receivers = tuple(device for device in devices if device not in having[other])
            if receivers:
                box = overlap(tile, other)
                assert box is not None
                size_bytes = size_of(box) * item_bytes
                tasks.append(UnitTask(tensor, box, size_bytes, holders[other], receivers))
    return tasks


def _meeting(part: tuple[int, int], cuts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return those of the parts of a dimension, which do not meet each other, that meet another."""
    first = bisect_right(cuts, part[0], key=lambda cut: cut[1])
    last = bisect_left(cuts, part[1], key=lambda cut: cut[0])
    return list(cuts[first:last])


def overlap(one: Box, other: Box) -> Box | None:
    """Return what two slices of a tensor have in common; None where that is nothing."""
    bounds = [
        (max(begin, start), min(end, stop))
        for (begin, end), (start, stop) in zip(one, other, strict=True)
    ]
    return tuple(bounds) if all(begin < end for begin, end in bounds) else None


def _by_tile(tiles: Sequence[tuple[MeshDevice, Box]]) -> dict[Box, tuple[MeshDevice, ...]]:
    found: dict[Box, list[MeshDevice]] = {}
    for device, box in tiles:
        if size_of(box):
            found.setdefault(box, []).append(device)
    return {box: tuple(devices) for box, devices in found.items()}
