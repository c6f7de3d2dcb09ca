"""DTensors from mesh to mesh, by the strategies of ``weft run reshard``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from weft.agents.collectives.requests import Request
from weft.agents.collectives.tensors import Box, Bytes, DeviceTile, assembled
from weft.base.errors import InputError, refuse
from weft.experiments.families.resharding.carrier import Carrier, usual_block_bytes
from weft.experiments.families.resharding.choice import strategy_named
from weft.experiments.families.resharding.load import BLOCKS
from weft.experiments.families.resharding.meshes import Mesh
from weft.experiments.families.resharding.names import strategies
from weft.experiments.families.resharding.plan import ReshardingPlan, Tensor, plan
from weft.experiments.families.resharding.strategy import Flows
from weft.experiments.families.resharding.timing import Links
from weft.pytorch.process_group import WeftProcessGroup
from weft.pytorch.tensors import bytes_of

LOCAL_FACTOR = 50.0


def reshard(
    tensor: DTensor,
    mesh: DeviceMesh,
    placements: Sequence[Any],
    *,
    strategy: str = "broadcast",
    balance: str = "best",
    group: Any = None,
) -> DTensor:
    """Return a DTensor with the same elements on another mesh, sharded otherwise.

    Each rank of the group calls it; those of neither mesh, too. Torch itself redistributes within
    a mesh alone. Gradients do not go through it.

    Args:
        tensor: on any mesh of ranks of the group; its placements are Shard and Replicate.
        mesh: where it is to be; its ranks may be some of the tensor's.
        placements: one for each dimension of that mesh, Shard or Replicate.
        strategy: as ``weft run reshard --strategy`` has them: send-recv, send-recv+allgather,
            global-allgather, broadcast, multicast, auto.
        balance: as ``--balance`` has them.
        group: a process group of the backend weft; by default that of all ranks.

    Raises:
        InputError: something of this makes no sense.
        RuntimeError: the network has failed.
    """
    if not isinstance(tensor, DTensor):
        raise InputError(
            f"reshard: the tensor is a {type(tensor).__name__}; give a DTensor, as "
            "torch.distributed.tensor.distribute_tensor makes one"
        )
    if strategy not in strategies():
        raise InputError(f"reshard: strategy {strategy!r}: choose {', '.join(strategies())}")
    process_group = group_of("reshard", group)
    ranks = dist.get_process_group_ranks(process_group)
    made = plan(
        mesh_of("reshard: the tensor's mesh", tensor.device_mesh, ranks),
        mesh_of("reshard: mesh", mesh, ranks),
        [
            Tensor(
                tuple(tensor.shape),
                str(tensor.dtype).removeprefix("torch."),
                _spec("the tensor's placements", tensor.placements, tensor.dim()),
                _spec("placements", placements, tensor.dim()),
            )
        ],
        balance=balance,
    )
    tile = _brought(process_group, tensor, made, strategy)
    local = (
        torch.from_numpy(tile[1]).view(tensor.dtype).reshape(tile[0])
        if tile is not None
        else torch.empty(0, dtype=tensor.dtype)
    )
    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def _brought(
    process_group: WeftProcessGroup, tensor: DTensor, made: ReshardingPlan, strategy: str
) -> tuple[list[int], Bytes] | None:
    """Bring what this rank is to have, and return its shape and bytes; None if it has nothing."""
    rank, size = process_group.rank(), process_group.size()
    local, item_bytes = tensor.to_local().detach(), tensor.element_size()
    tiles = dict(zip(made.source.mesh_devices, made.source_tiles(0), strict=True))
    own = next((box for device, box in tiles.items() if device.host == rank), None)
    if not made.senders:  # what a rank needs is a part of what it has
        wanted = zip(made.destination.mesh_devices, made.destination_tiles(0), strict=True)
        box = next((box for device, box in wanted if device.host == rank), None)
        return None if box is None or own is None else (_shape(box), part_of(local, own, box))
    largest = max(task.size_bytes for task in made.tasks)
    settings = process_group.settings
    flows = Flows(
        size, settings.rate_bps, LOCAL_FACTOR,
        usual_block_bytes(0, largest, BLOCKS, settings.path_mtu),
    )  # fmt: skip
    carrier = Carrier(flows)
    links = Links(settings.rate_bps, settings.path_mtu, flows.block_bytes)
    carrier.add(made, strategy_named(strategy, made, carrier, links))
    carried = carrier.carried()
    data = np.empty(carried.graph.buffer_bytes(rank), np.uint8)
    result = np.empty(carried.graph.output_bytes(rank) or 0, np.uint8)
    for piece in carried.tensors.held[rank]:
        assert own is not None
        there = part_of(local, own, piece.box)
        data[piece.offset : piece.offset + len(there)] = there
    request = Request(
        0, "flows", "given", 0, flows=carried.graph, own={"block_bytes": carried.block_bytes}
    )
    process_group.carry_flows("reshard", request, data, result).wait()
    found: Sequence[DeviceTile] = carried.tensors.tiles[rank]
    if not found:
        return None
    return _shape(found[0].box), assembled(found[0], item_bytes, [data, result])


def _shape(box: Box) -> list[int]:
    return [end - begin for begin, end in box]


def group_of(call: str, group: Any) -> WeftProcessGroup:
    """Return the group that a call is for; None: that of all ranks. Raises `InputError` for one of
    another backend."""
    process_group = group or dist.group.WORLD
    if not isinstance(process_group, WeftProcessGroup):
        raise InputError(
            f"{call}: the group is of backend {dist.get_backend(process_group)!r}; start the "
            "program by 'weft torch run' and init_process_group() without a backend"
        )
    return process_group


def part_of(local: torch.Tensor, own: Box, box: Box) -> Bytes:
    """Return the bytes of a slice of this rank's tile."""
    within = tuple(
        slice(begin - base, end - base) for (begin, end), (base, _) in zip(box, own, strict=True)
    )
    return bytes_of(local[within].contiguous())


def mesh_of(what: str, mesh: DeviceMesh, ranks: Sequence[int]) -> Mesh:
    """Return a mesh of torch's as resharding has it: each rank is a host with a device."""
    members = mesh.mesh.flatten().tolist()
    unknown = [rank for rank in members if rank not in ranks]
    refuse(unknown, f"{what} has rank {unknown[:1]}, which is not in the group")
    hosts = tuple(ranks.index(rank) for rank in members)
    return Mesh(hosts, 1, tuple(mesh.mesh.shape))


def _spec(what: str, placements: Sequence[Any], dimensions: int) -> str:
    """Return placements in the notation of resharding."""
    words = []
    for each in placements:
        if isinstance(each, Partial) or not isinstance(each, (Shard, Replicate)):
            raise InputError(
                f"reshard: {what} have {each}: Shard and Replicate can be brought elsewhere; "
                "redistribute the tensor within its mesh first"
            )
        place = each.dim if isinstance(each, Shard) else 0
        if not -dimensions <= place < dimensions:
            raise InputError(
                f"reshard: {what} have {each}, and the tensor has {dimensions} dimensions"
            )
        place %= dimensions
        words.append(f"Shard({place})" if isinstance(each, Shard) else "Replicate()")
    return ",".join(words)
