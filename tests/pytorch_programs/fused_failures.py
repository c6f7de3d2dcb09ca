"""Calls fused operators wrongly, each time in a group of its own, or dies meanwhile; every rank
prints what it was told."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory

from weft.torch import (
    ColumnParallelLinear,
    EmbeddingBagAllToAll,
    MixtureOfExperts,
    RowParallelLinear,
)


def gemv(group, rows=1000, inner=8, **options):
    weight, x = torch.ones(rows, inner), torch.ones(inner)
    return torch.ops.weft.gemv_allreduce(weight, x, group.group_name, **options)


def gemm(group, splits, returns, **options):
    tokens, weights = torch.ones(int(splits.sum()), 8), torch.ones(splits.shape[1], 8, 8)
    return torch.ops.weft.gemm_all_to_all(
        tokens, weights, splits, returns, group.group_name, **options
    )


def experts(group, tokens):
    return torch.full((group.size(), 1), tokens)


# -- where the ranks do not fit together: `odd` is rank 1


def size(group, odd):
    gemv(group, 999 if odd else 1000)


def tiles(group, odd):
    gemv(group, tile_rows=10 if odd else 20)


def operator(group, odd):
    gemm(group, experts(group, 1), experts(group, 1)) if odd else gemv(group)


def collective(group, odd):
    dist.all_reduce(torch.ones(1000), group=group) if odd else gemv(group)


def collective_of_the_others(group, odd):
    gemv(group) if odd else dist.all_reduce(torch.ones(1000), group=group)


def refused_by_one(group, odd):
    gemv(group, order="backwards" if odd else "remote-first")


def refused_by_one_of_those_whose_sums_switches_make(group, odd):
    gemv(group, algorithm="switch", slice_tiles=-1 if odd else 4)


def counts(group, odd):
    returns = experts(group, 2)
    if odd:
        returns[0] = 3
    gemm(group, experts(group, 2), returns)


def raises_inside(group, odd):
    """As when memory runs out in the middle of a call."""
    given, torch.mm = torch.mm, (missing if odd else torch.mm)
    try:
        gemv(group)
    except ZeroDivisionError as error:
        raise RuntimeError(str(error)) from None
    finally:
        torch.mm = given


def missing(*arguments, **options):
    time.sleep(0.2)
    raise ZeroDivisionError("no memory is left")


APART = (
    size, tiles, operator, collective, collective_of_the_others, refused_by_one,
    refused_by_one_of_those_whose_sums_switches_make, counts,
    raises_inside,
)  # fmt: skip


def apart():
    """Each group fails on all of its ranks, and no other one does."""
    rank = dist.get_rank()
    for wrong in APART:
        group = dist.new_group(range(dist.get_world_size()))
        gemv(group)
        begun = time.monotonic()
        for attempt in ("told", "again"):
            try:
                wrong(group, rank == 1 and attempt == "told")
                print(f"{wrong.__name__}: not noticed", flush=True)
            except (RuntimeError, ValueError) as error:
                took = time.monotonic() - begun
                what = f"{type(error).__name__}: {error}"
                print(f"{wrong.__name__}: {attempt} after {took:.1f} s: {what}", flush=True)
            dist.barrier()
    gemv(dist.group.WORLD)
    print("the group of all ranks works", flush=True)


def bad():
    """What all ranks refuse does no harm."""
    world = dist.group.WORLD
    name, count = world.group_name, world.size()
    ops = torch.ops
    ones, whole = torch.ones, torch.ones(count, 1, dtype=torch.int64)
    indices = torch.zeros(1, 2 * count, 3, dtype=torch.int64)
    gloo = dist.new_group(backend="gloo")
    one = [1] * count

    def embedding(weight=None, indices=indices, tables=one, **options):
        weights = [ones(10, 4) if weight is None else weight]
        return ops.weft.embedding_all_to_all(weights, indices, tables, name, **options)

    def gathered(a, b, dim=0):
        return ops.symm_mem.fused_all_gather_matmul(a, [b], dim, name)

    def scattered(a, b, op="sum", dim=0):
        return ops.symm_mem.fused_matmul_reduce_scatter(a, b, op, dim, name)

    for call, why in (
        (lambda: gemv(world, order="backwards"), "order 'backwards': choose from remote-first, "),
        (lambda: gemv(world, tile_rows=-1), "tile_rows -1: choose 1 or more"),
        (lambda: gemv(world, slice_tiles=0), "slice_tiles 0: choose 1 or more"),
        (lambda: gemv(world, algorithm="tree"), "algorithm 'tree': choose owner or switch"),
        (lambda: gemv(gloo), "is of another backend than weft"),
        (
            lambda: ops.weft.gemv_allreduce(ones(4, 8), ones(8), "nowhere"),
            "there is no process group of the name 'nowhere'",
        ),
        (
            lambda: ops.weft.gemv_allreduce(ones(4, 8), ones(7), name),
            "x is (7,) of torch.float32 and weight (4, 8)",
        ),
        (
            lambda: ops.weft.gemv_allreduce(ones(4, 8).int(), ones(8).int(), name),
            "weight is of torch.int32: choose torch.float32, ",
        ),
        (
            lambda: ops.weft.gemv_allreduce(
                ones(4, 8).double(), ones(8).double(), name, algorithm="switch"
            ),
            "algorithm switch: switches add float32, ",
        ),
        (
            lambda: ops.weft.gemv_allreduce(ones(4, 8).to_sparse(), ones(8), name),
            "layout torch.sparse_coo: a dense tensor on the CPU is needed",
        ),
        (
            lambda: embedding(tables=[1] * (count - 1)),
            f"say for each of the {count} ranks of the group how many it has",
        ),
        (lambda: embedding(tables=[2] * count), "has 2 tables"),
        (
            lambda: embedding(indices=indices[:, 1:]),
            f"the global batch has {2 * count - 1} rows, which {count} ranks cannot share evenly",
        ),
        (
            lambda: embedding(indices=indices + 10),
            "indices of own table 0 are 10 to 10, and it has rows 0 to 9",
        ),
        (lambda: embedding(indices=indices.int()), "indices is of torch.int32: choose torch.int64"),
        (lambda: embedding(weight=ones(10)), "weights[0] is (10,)"),
        (
            lambda: gemm(world, whole[1:], whole[1:]),
            f"splits have shape ({count - 1}, 1): ({count}, 1), for each rank",
        ),
        (
            lambda: ops.weft.gemm_all_to_all(ones(5, 8), ones(1, 8, 8), whole, whole, name),
            f"splits count {count} tokens, and there are 5",
        ),
        (lambda: gemm(world, whole, -whole), "returns have -1: numbers of tokens are 0 or more"),
        (lambda: gemm(world, whole, 2 * whole), "[1] tokens of its own by splits, and [2] by"),
        (lambda: gathered(ones(4, 8), ones(7, 3)), "Bs[0] is (7, 3)"),
        (lambda: gathered(ones(4, 8), ones(8, 3), 2), "gather_dim 2: A_shard has 2 dimensions"),
        (lambda: gathered(ones(4, 8).int(), ones(8, 3).int()), "A_shard is of torch.int32"),
        (
            lambda: scattered(ones(count + 1, 8), ones(8, 3)),
            f"dimension 0 of the product has {count + 1}, which {count} ranks cannot share",
        ),
        (lambda: scattered(ones(count, 8), ones(8, 3), "max"), "reduce_op 'max': choose sum or"),
        (lambda: scattered(ones(count, 8), ones(7, 3)), f"A is ({count}, 8) of torch.float32"),
        (
            lambda: EmbeddingBagAllToAll([10] * count, 4, tables=[1] * (count - 1)),
            "each table belongs to one rank",
        ),
        (lambda: MixtureOfExperts(8, 8, count + 1), f"choose a multiple of {count}"),
        (lambda: MixtureOfExperts(8, 8, count, top_k=0), f"top_k 0: choose 1 to {count}"),
        (lambda: MixtureOfExperts(8, 8, count, group=gloo), "is of another backend than weft"),
        (
            lambda: MixtureOfExperts(8, 8, count, dispatch="pigeon"),
            "dispatch 'pigeon': choose unic",
        ),
        (
            lambda: MixtureOfExperts(8, 8, count, group=gloo, fused=False, dispatch="multicast"),
            "MixtureOfExperts with dispatch multicast: group",
        ),
        (lambda: ColumnParallelLinear(8, count + 1), f"choose a multiple of {count}"),
        (lambda: RowParallelLinear(count + 1, 8), f"choose a multiple of {count}"),
        (lambda: RowParallelLinear(count, 8)(ones(3, 2)), "x is (3, 2)"),
    ):
        try:
            call()
        except ValueError as error:
            assert why in str(error), (why, str(error))
        else:
            raise AssertionError(f"not refused: {why}")
    assert torch.equal(gemv(world), torch.full((1000,), 8.0 * count))
    print("35 calls are refused, and what is right goes on")


def dying(how):
    odd, world = dist.get_rank() == 1, dist.group.WORLD
    gemv(world)
    begun = time.monotonic()
    try:
        if how == "killed" and odd:
            time.sleep(0.5)  # the others wait for its flags by then
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "raises" and odd:
            raise ValueError("bad luck")
        elif how == "stopped" and odd:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "backward":
            x = torch.ones(8 * world.size(), 8, requires_grad=True)
            eight = experts(world, 8)
            ones = torch.ones(1, 8, 8)
            found = torch.ops.weft.gemm_all_to_all(x, ones, eight, eight, world.group_name)
            if odd:
                os._exit(3)
            found.sum().backward()
        elif not (how == "ends" and odd):
            gemv(world)
        print("ended" if odd else "not noticed", flush=True)
    except RuntimeError as error:
        print(f"told after {time.monotonic() - begun:.1f} s: {error}", flush=True)


def main():
    dist.init_process_group()
    how = sys.argv[1]
    if how == "apart":
        apart()
    elif how == "bad":
        bad()
    else:
        dying(how)


if __name__ == "__main__":
    main()
