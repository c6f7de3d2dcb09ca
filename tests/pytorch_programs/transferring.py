"""State dicts that go from one mesh to another, again and again, and what is refused."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from weft.base.errors import InputError
from weft.torch import transfer

SHAPES = {"table": (37, 10), "square": (8, 8), "norm": (5,), "cube": (3, 4, 6)}


def local_of(whole, mesh, placements):
    """The tile of this rank, by slicing; None on a rank that is not in the mesh."""
    place = (mesh.mesh == dist.get_rank()).nonzero()
    if not len(place):
        return None
    tile = whole
    for dimension, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts = list(tile.chunk(mesh.mesh.shape[dimension], placement.dim))
            number = int(place[0, dimension])
            shape = list(tile.shape)
            shape[placement.dim] = 0
            tile = parts[number] if number < len(parts) else tile.new_empty(shape)
    return tile.contiguous()


def state(wholes, mesh, placements, dtype):
    """The DTensors of this rank on a mesh, none if it is not in it."""
    found = {}
    for name, whole in wholes.items():
        tile = local_of(whole.to(dtype), mesh, placements[name])
        if tile is not None:
            found[name] = DTensor.from_local(
                tile.clone(),
                mesh,
                placements[name],
                run_check=False,
                shape=whole.shape,
                stride=whole.stride(),
            )
    return found


def wholes_of(step):
    draw = torch.Generator().manual_seed(step)
    return {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}


def moves(rank):
    trainer = DeviceMesh("cpu", [[0, 1], [2, 3]], _init_backend=False)
    engines = DeviceMesh("cpu", [5, 4], _init_backend=False)
    row, both = [Shard(0), Shard(1)], [Shard(0), Shard(0)]
    here = {
        "table": both,
        "square": row,
        "norm": [Replicate(), Shard(0)],
        "cube": [Replicate(), Replicate()],
    }
    there = {
        "table": [Shard(1)],
        "square": [Replicate()],
        "norm": [Replicate()],
        "cube": [Shard(2)],
    }
    done = 0
    for strategy in ("multicast", "broadcast", "send-recv"):
        for dtype in (torch.float32, torch.bfloat16):
            mine = state(wholes_of(0), trainer, here, torch.float32)
            mine |= state(wholes_of(99), engines, there, dtype)
            made = transfer(mine, trainer, engines, strategy=strategy, bucket_bytes=512)
            for step in (1, 2):
                for name, tensor in state(wholes_of(step), trainer, here, torch.float32).items():
                    mine[name].to_local().copy_(tensor.to_local())
                pending = made.start()
                if rank < 4:  # what was sent is what there was
                    for tensor in mine.values():
                        tensor.to_local().zero_()
                pending.wait()
                right = state(wholes_of(step), engines, there, dtype)
                for name, tensor in right.items():
                    assert torch.equal(mine[name].to_local(), tensor.to_local()), (name, strategy)
                done += 1
    if rank == 0:
        print(f"transfer: {done} state dicts from mesh to mesh")


def refused(rank):
    pair = DeviceMesh("cpu", [0, 1], _init_backend=False)
    other = DeviceMesh("cpu", [1, 2], _init_backend=False)
    apart = DeviceMesh("cpu", [2, 3], _init_backend=False)
    whole = {"w": torch.zeros(4, 4)}
    plain, cut = {"w": [Replicate()]}, {"w": [Shard(0)]}
    one = state(whole, pair, plain, torch.float32)
    cases = {
        "both meshes have rank [1]": lambda: transfer(one, pair, other),
        "strategy 'auto'": lambda: transfer(one, pair, apart, strategy="auto"),
        "no tensor 'w'": lambda: transfer(one, pair, apart),
        "cannot be converted to int64": lambda: transfer(
            one | state(whole, apart, cut, torch.int64), pair, apart
        ),
        "has shape (4, 4) at the source and (4, 5) at the destination": lambda: transfer(
            one | state({"w": torch.zeros(4, 5)}, apart, cut, torch.float32), pair, apart
        ),
    }
    for message, call in cases.items():
        try:
            call()
        except InputError as error:
            assert message in str(error), (message, error)
        else:
            raise AssertionError(f"not refused: {message}")
    for message in ("redistribute", "give DTensors"):  # what one rank alone gives, all hear of
        given = one
        if rank == 1:
            partial = DTensor.from_local(torch.zeros(4), pair, [Partial()], run_check=False)
            given = {"w": partial if message == "redistribute" else 1}
        try:
            transfer(given, pair, apart)
        except InputError as error:
            assert message in str(error), error
            assert ("(on rank 1)" in str(error)) == (rank != 1), error
        else:
            raise AssertionError(f"not refused: {message}")
    if rank == 0:
        print(f"transfer: {len(cases) + 2} refused")


if __name__ == "__main__":
    dist.init_process_group()
    moves(dist.get_rank())
    refused(dist.get_rank())
    dist.destroy_process_group()
