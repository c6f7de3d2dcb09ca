"""State dicts of DTensors that are brought from one mesh to another, disjoint one, again and again:
the weights of a trainer to inference engines after each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial

from weft.agents.collectives.requests import Request
from weft.agents.collectives.tensors import Box, assembled, converted
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.families.resharding.carrier import Carried, nowhere, usual_block_bytes
from weft.experiments.families.resharding.dtensors import (
    LOCAL_FACTOR,
    group_of,
    mesh_of,
    part_of,
)
from weft.experiments.families.resharding.meshes import Mesh, MeshDevice
from weft.experiments.families.resharding.names import STRATEGIES
from weft.experiments.families.resharding.specs import spec_of_placements
from weft.experiments.families.resharding.strategy import Flows
from weft.experiments.families.weights.carry import carry
from weft.experiments.families.weights.load import BLOCKS
from weft.experiments.families.weights.names import BALANCE
from weft.experiments.families.weights.plan import Cut, plan_cuts, shape_of
from weft.experiments.families.weights.table import carried_as, floats
from weft.pytorch.process_group import WeftProcessGroup

BUCKET_BYTES = 4 << 20
"""The most that travels together."""


@dataclass(frozen=True)
class _Said:
    """What a rank says of one of its tensors."""

    shape: tuple[int, ...]
    dtype: str
    placements: tuple[str, ...]


Layout = dict[str, _Said]


def transfer(
    tensors: Mapping[str, DTensor] | DTensor,
    source_mesh: DeviceMesh,
    destination_mesh: DeviceMesh,
    *,
    strategy: str = "multicast",
    bucket_bytes: int = BUCKET_BYTES,
    group: Any = None,
) -> "Transfer":
    """Plan once how DTensors get from one mesh to another; `Transfer.run` then brings them, as
    often as is wanted.

    Each rank of the group calls it; those of neither mesh, too. Torch itself redistributes within a
    mesh alone ("Cross device mesh comm not supported yet").

    Args:
        tensors: on ranks of the source mesh what is brought, and on those of the destination mesh
            where it is to be: DTensors of these meshes by the same names, or one; placed as either
            likes by Shard and Replicate. Floating-point types may differ. On other ranks it says
            nothing.
        source_mesh, destination_mesh: of ranks of the group, none of which is in both.
        strategy: as ``weft run weights --strategy`` has them: multicast, broadcast, send-recv,
            send-recv+allgather, global-allgather.
        bucket_bytes: slices from the same ranks to the same ranks travel together, so many bytes
            at a time.
        group: a process group of the backend weft; by default that of all ranks.

    Raises:
        InputError: something of this makes no sense.
    """
    process_group = group_of("transfer", group)
    if strategy not in STRATEGIES:
        raise InputError(f"transfer: strategy {strategy!r}: choose {', '.join(STRATEGIES)}")
    refuse(bucket_bytes < 1, f"transfer: bucket_bytes {bucket_bytes}: 1 at least")
    ranks = dist.get_process_group_ranks(process_group)
    meshes = (
        mesh_of("transfer: the source mesh", source_mesh, ranks),
        mesh_of("transfer: the destination mesh", destination_mesh, ranks),
    )
    common = sorted({*meshes[0].hosts} & {*meshes[1].hosts})
    refuse(
        common,
        f"transfer: both meshes have rank {common[:1]}: it is for disjoint ones; within one, "
        "redistribute, or weft.torch.reshard",
    )
    named = {"tensor": tensors} if isinstance(tensors, DTensor) else dict(tensors)
    rank = process_group.rank()
    mine = next((side for side in (0, 1) if rank in meshes[side].hosts), None)
    own: Layout | str = {}
    try:
        if mine is not None:
            own = _said(named, (source_mesh, destination_mesh)[mine])
    except InputError as error:  # the others wait for what this rank says
        own = str(error)
    said: list[Any] = [None] * process_group.size()
    dist.all_gather_object(said, own, group=process_group)
    for other, each in enumerate(said):
        if isinstance(each, str):
            raise InputError(each if other == rank else f"{each} (on rank {ranks[other]})")
    layouts = [_layout(word, mesh, said) for word, mesh in zip(("source", "destination"), meshes,
                                                               strict=True)]  # fmt: skip
    _check_alike(layouts)
    return Transfer(process_group, named if mine is not None else {}, meshes, layouts, strategy,
                    bucket_bytes)  # fmt: skip


class Transfer:
    """A plan that brings tensors from ranks to others, which can be carried out again and again.

    It is made by `transfer`.
    """

    def __init__(
        self, group: WeftProcessGroup, tensors: Mapping[str, DTensor], meshes: tuple[Mesh, Mesh],
        layouts: Sequence[Layout], strategy: str, bucket_bytes: int,
    ) -> None:  # fmt: skip
        self._group, self._tensors = group, tensors
        self._names = [*layouts[0]]
        shapes, cuts = [], []
        for number, name in enumerate(self._names):
            one, other = layouts[0][name], layouts[1][name]
            shapes.append(
                shape_of(one.shape, one.dtype, carried_as(one.dtype, other.dtype), other.dtype)
            )
            cuts.append(Cut(number, _tiles(meshes[0], one), _tiles(meshes[1], other)))
        plan = plan_cuts(self._names, shapes, cuts, BALANCE, bucket_bytes, 1)
        settings = group.settings
        largest = max(bucket.size_bytes for bucket in plan.buckets)
        block_bytes = usual_block_bytes(0, largest, BLOCKS, settings.path_mtu)
        flows = Flows(group.size(), settings.rate_bps, LOCAL_FACTOR, block_bytes)
        self._carried: Carried = carry(plan, STRATEGIES[strategy], flows, nowhere)
        self._own = {
            cut.tensor: box
            for cut in cuts
            for device, box in cut.had
            if device.host == group.rank()
        }
        self.model_bytes = plan.model_bytes
        """The bytes of all tensors, each once, as they travel."""

    def run(self) -> None:
        """Bring what the source has now to the destination, in place.

        Each rank of the group calls it. Raises RuntimeError if the network has failed.
        """
        self.start().wait()

    def start(self) -> "Pending":
        """Begin what `run` does: what the source has now is packed, and may change afterwards. What
        the destination has changes in `Pending.wait` alone."""
        carried, rank = self._carried, self._group.rank()
        data = np.empty(carried.graph.buffer_bytes(rank), np.uint8)
        result = np.empty(carried.graph.output_bytes(rank) or 0, np.uint8)
        for piece in carried.tensors.held[rank]:
            local = self._tensors[self._names[piece.tensor]].to_local().detach()
            part = part_of(local, self._own[piece.tensor], piece.box)
            cast = carried.tensors.tensors[piece.tensor].cast
            if cast:
                part = converted(part, cast.source, cast.carried)
            data[piece.offset : piece.offset + len(part)] = part
        request = Request(
            0, "flows", "given", 0, flows=carried.graph, own={"block_bytes": carried.block_bytes}
        )
        return Pending(self, self._group.carry_flows("transfer", request, data, result), result)

    def _unpack(self, result: Any) -> None:
        """Put what has come into this rank's tensors."""
        tensors = self._carried.tensors
        for tile in tensors.tiles[self._group.rank()]:
            shape = tensors.tensors[tile.tensor]
            there = assembled(tile, shape.item_bytes, [result, result])
            if shape.cast:
                there = converted(there, shape.cast.carried, shape.cast.destination)
            local = self._tensors[self._names[tile.tensor]].to_local().detach()
            local.copy_(torch.from_numpy(there).view(local.dtype).reshape(local.shape))


class Pending:
    """A transfer that is under way."""

    def __init__(self, made: Transfer, work: Any, result: Any) -> None:
        self._made, self._work, self._result = made, work, result

    def wait(self) -> None:
        """Wait for it to end, and put what has come into the destination's tensors. Raises
        RuntimeError if the network has failed."""
        self._work.wait()
        self._made._unpack(self._result)


def _said(tensors: Mapping[str, DTensor], mesh: DeviceMesh) -> Layout:
    """Return what a rank says of its tensors. Raises `InputError`."""
    found = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, DTensor):
            raise InputError(
                f"transfer: {shown(name)} is a {type(tensor).__name__}; give DTensors, as "
                "torch.distributed.tensor.distribute_tensor makes them"
            )
        if tensor.device_mesh.mesh.tolist() != mesh.mesh.tolist():
            raise InputError(
                f"transfer: {shown(name)} is on the mesh {tensor.device_mesh.mesh.tolist()}, and "
                f"that of its side is {mesh.mesh.tolist()}: give tensors of that mesh"
            )
        if not tensor.dim():
            raise InputError(f"transfer: {shown(name)} is a number; give tensors of dimensions")
        if any(isinstance(each, Partial) for each in tensor.placements):
            raise InputError(
                f"transfer: {shown(name)} has {tensor.placements}: Shard and Replicate can be "
                "brought elsewhere; redistribute the tensor within its mesh first"
            )
        dtype = str(tensor.dtype).removeprefix("torch.")
        found[name] = _Said(tuple(tensor.shape), dtype, tuple(map(str, tensor.placements)))
    return found


def _layout(word: str, mesh: Mesh, said: Sequence[Layout]) -> Layout:
    """Return what all ranks of a mesh say. Raises `InputError` where they differ."""
    first, *others = mesh.hosts
    found = said[first]
    for rank in others:
        if said[rank] != found:
            raise InputError(
                f"transfer: ranks {first} and {rank} of the {word} mesh have different tensors: "
                "all of a mesh give the same names, shapes, dtypes and placements"
            )
    return found


def _check_alike(layouts: Sequence[Layout]) -> None:
    """Raise `InputError` unless two sides have the same tensors, of types that can be converted."""
    source, destination = layouts
    if not source:
        raise InputError("transfer: there are no tensors; give one at least")
    for name in dict.fromkeys([*source, *destination]):
        if name not in source or name not in destination:
            lacking = "destination" if name in source else "source"
            raise InputError(f"transfer: the {lacking} mesh has no tensor {shown(name)}")
        one, other = source[name], destination[name]
        if one.shape != other.shape:
            raise InputError(
                f"transfer: {shown(name)} has shape {one.shape} at the source and {other.shape} at "
                "the destination; it has one"
            )
        if one.dtype != other.dtype and not (floats(one.dtype) and floats(other.dtype)):
            raise InputError(
                f"transfer: {shown(name)} of {one.dtype} cannot be converted to {other.dtype}: "
                "floating-point types can"
            )


def _tiles(mesh: Mesh, said: _Said) -> list[tuple[MeshDevice, Box]]:
    spec = spec_of_placements(said.placements, mesh, said.shape)
    found = [spec.tile(mesh, said.shape, device) for device in range(mesh.size)]
    return [
        (device, box)
        for device, box in zip(mesh.mesh_devices, found, strict=True)
        if all(begin < end for begin, end in box)
    ]
