"""Trains with layers that use fused operators, with the same layers unfused, and with plain ones in
one process, and compares; compiles the operators, too."""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from weft.torch import (
    ColumnParallelLinear,
    EmbeddingBagAllToAll,
    MixtureOfExperts,
    RowParallelLinear,
)

STEPS = 5


def close(what, found, right, tolerance=1e-5):
    assert found.shape == right.shape, (what, found.shape, right.shape)
    off = (found - right).abs().max().item() if right.numel() else 0
    scale = max(right.abs().max().item(), 1e-3) if right.numel() else 1
    assert off <= tolerance * scale, (what, off, scale)


def average(parameters, size):
    """What all ranks have of replicated parameters."""
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= size


def dlrm(rank, size):
    """Tables of different sizes, more than ranks and fewer."""
    for rows, tables in (([30, 7, 100, 12, 50], None), ([20] * size, [size] + [0] * (size - 1))):
        dim, each = 8, 6
        losses = {}
        whole = None
        for fused in (True, False):
            torch.manual_seed(1)
            layer = EmbeddingBagAllToAll(
                rows, dim, tables=tables, fused=fused, tile_rows=2, slice_tiles=2
            )
            if whole is None:
                torch.manual_seed(1)
                whole = EmbeddingBagAllToAll(
                    rows, dim, tables=[len(rows)], group=alone[rank], fused=False
                )
            top = nn.Linear(dim * len(rows), 1)
            torch.manual_seed(2)
            with torch.no_grad():
                for parameter in top.parameters():
                    parameter.normal_(std=0.1)
            everything = [*layer.parameters(), *top.parameters()]
            draw = torch.Generator().manual_seed(3)
            losses[fused] = []
            for _ in range(STEPS):
                indices = torch.stack(
                    [torch.randint(n, (each * size, 3), generator=draw) for n in rows]
                )
                target = torch.randn(each * size, generator=draw)
                mine = slice(rank * each, (rank + 1) * each)
                own = indices[layer.own_tables.start : layer.own_tables.stop]
                found = layer(own)
                assert found.shape == (each, len(rows), dim)
                loss = F.mse_loss(top(found.flatten(1)).squeeze(1), target[mine])
                loss.backward()
                average(top.parameters(), size)
                with torch.no_grad():
                    for parameter in everything:
                        parameter -= 0.01 * parameter.grad
                        parameter.grad = None
                mean = loss.detach().clone()
                dist.all_reduce(mean)
                losses[fused].append(float(mean / size))
        assert losses[True] == losses[False], losses  # the same bits
        # The whole of it in one process; the gradient of a mean over all ranks is 1 / P of theirs.
        torch.manual_seed(2)
        top = nn.Linear(dim * len(rows), 1)
        torch.manual_seed(2)
        with torch.no_grad():
            for parameter in top.parameters():
                parameter.normal_(std=0.1)
        draw = torch.Generator().manual_seed(3)
        for number in range(STEPS):
            indices = torch.stack(
                [torch.randint(n, (each * size, 3), generator=draw) for n in rows]
            )
            target = torch.randn(each * size, generator=draw)
            loss = F.mse_loss(top(whole(indices).flatten(1)).squeeze(1), target)
            loss.backward()
            with torch.no_grad():
                for parameter in top.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
                for parameter in whole.parameters():
                    parameter -= 0.01 * size * parameter.grad
                    parameter.grad = None
            assert abs(loss.item() - losses[True][number]) < 1e-5 * max(1, abs(loss.item())), number
    print(
        f"DLRM: losses {losses[True][0]:.4f} to {losses[True][-1]:.4f}, the same bits fused and unfused"
    )


def linear(rank, size):
    width, inner, rows = 12, 8 * size, 3 * size
    for sequence in (False, True):
        for shape in ((rows, width), (rows, 2, width)):
            trained = {}
            for how in ("fused", "unfused", "plain"):
                torch.manual_seed(5)
                if how == "plain":
                    first, second = nn.Linear(width, inner), nn.Linear(inner, width)
                else:
                    options = dict(sequence_parallel=sequence, fused=how == "fused", tile_rows=3)
                    first = ColumnParallelLinear(width, inner, **options)
                    second = RowParallelLinear(inner, width, **options)
                draw = torch.Generator().manual_seed(6)
                losses, gradients = [], []
                for _ in range(STEPS):
                    x, y = torch.randn(shape, generator=draw), torch.randn(shape, generator=draw)
                    part = slice(None)
                    if sequence and how != "plain":
                        part = slice(rank * rows // size, (rank + 1) * rows // size)
                    x = x[part].clone().requires_grad_()
                    found = second(F.gelu(first(x)))
                    loss = ((found - y[part]) ** 2).sum() / y.numel()
                    loss.backward()
                    total = loss.detach().clone()
                    if sequence and how != "plain":
                        dist.all_reduce(total)
                    losses.append(float(total))
                    gradients.append(x.grad)
                    with torch.no_grad():
                        for parameter in [*first.parameters(), *second.parameters()]:
                            parameter -= 0.5 * parameter.grad
                            parameter.grad = None
                trained[how] = (
                    losses,
                    gradients,
                    first.weight.detach(),
                    second.weight.detach(),
                    second.bias.detach(),
                )
            for other in ("unfused", "plain"):
                right = trained[other]
                for one, two in zip(trained["fused"][0], right[0], strict=True):
                    assert abs(one - two) < 1e-5, (sequence, other, one, two)
                for one, two in zip(trained["fused"][1], right[1], strict=True):
                    if sequence and other == "plain":
                        two = two.chunk(size)[rank]
                    close("gradient of x", one, two)
                weights = right[2:]
                if other == "plain":
                    weights = right[2].chunk(size)[rank], right[3].chunk(size, 1)[rank], right[4]
                for one, two in zip(trained["fused"][2:], weights, strict=True):
                    close(f"weights {other}", one, two)
    print(
        f"linear: losses {trained['fused'][0][0]:.4f} to {trained['fused'][0][-1]:.4f}, as in one process"
    )


def moe(rank, size):
    width, hidden, experts = 16, 24, 2 * size
    trained = {}
    for how in ("fused", "unfused", "alone", "multicast", "multicast, unfused"):
        torch.manual_seed(7)
        layer = MixtureOfExperts(
            width,
            hidden,
            experts,
            top_k=2,
            fused=how in ("fused", "multicast"),
            dispatch="multicast" if "multicast" in how else "unicast",
            tile_rows=3,
            group=alone[rank] if how == "alone" else None,
        )
        counts = [5 + 4 * other for other in range(size)]  # uneven numbers of tokens
        draw = torch.Generator().manual_seed(8)
        losses = []
        for _ in range(STEPS):
            x = torch.randn(sum(counts), width, generator=draw)
            y = torch.randn(sum(counts), width, generator=draw)
            mine = slice(None)
            if how != "alone":
                mine = slice(sum(counts[:rank]), sum(counts[: rank + 1]))
            loss = ((layer(x[mine]) - y[mine]) ** 2).sum() / y.numel()
            loss.backward()
            total = loss.detach().clone()
            if how != "alone":
                dist.all_reduce(total)
                dist.all_reduce(layer.router.weight.grad)
            losses.append(float(total))
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter -= 0.5 * parameter.grad
                    parameter.grad = None
        trained[how] = losses, layer.router.weight.detach(), layer.up.detach(), layer.down.detach()
    for other in ("unfused", "alone", "multicast", "multicast, unfused"):
        right = trained[other]
        for one, two in zip(trained["fused"][0], right[0], strict=True):
            assert abs(one - two) < 1e-5, (other, trained["fused"][0], right[0])
        weights = right[1:]
        if other == "alone":
            weights = right[1], right[2].chunk(size)[rank], right[3].chunk(size)[rank]
        for one, two in zip(trained["fused"][1:], weights, strict=True):
            close(f"weights {other}", one, two)
    print(
        f"mixture of experts: losses {trained['fused'][0][0]:.4f} to {trained['fused'][0][-1]:.4f}, as in one process"
    )


def compiled(rank, size):
    """By torch.compile as whole graphs; results and gradients are those without it."""
    name = dist.group.WORLD.group_name
    ops = torch.ops

    def gemv(weight, x):
        return ops.weft.gemv_allreduce(weight, x.sin(), name).cos().sum()

    def embedding(weight, indices):
        return (
            ops.weft.embedding_all_to_all([weight, weight * 2], indices, [2] * size, name)
            .tanh()
            .sum()
        )

    def gemm(tokens, weights, splits):
        return ops.weft.gemm_all_to_all(tokens.exp(), weights, splits, splits, name).sin().sum()

    def gathered(a, b):
        whole, (product,) = ops.symm_mem.fused_all_gather_matmul(a, [b], 0, name)
        return whole.sum() + product.sin().sum()

    def scattered(a, b):
        return ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, name).sin().sum()

    draw = torch.Generator().manual_seed(4)
    indices = torch.randint(20, (2, 4 * size, 3), generator=draw)
    splits = torch.full((size, 2), 3)

    def randn(*shape):
        return torch.randn(shape, generator=draw)

    for function, arguments, trains in (
        (gemv, (randn(50, 6), randn(3, 6)), True),
        (embedding, (randn(20, 5), indices), True),
        (gemm, (randn(6 * size, 4), randn(2, 4, 7), splits), True),
        (gathered, (randn(6, 4), randn(4, 3)), False),
        (scattered, (randn(6 * size, 4), randn(4, 3)), False),
    ):
        found = []
        for backend in (None, "eager", "aot_eager"):
            called = (
                function
                if backend is None
                else torch.compile(function, backend=backend, fullgraph=True)
            )
            inputs = [
                each.clone().requires_grad_(trains) if each.is_floating_point() else each
                for each in arguments
            ]
            result = called(*inputs)
            if trains:
                result.backward()
            found.append([result, *(each.grad for each in inputs if each.requires_grad)])
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                close(function.__name__, two, one)
    column, row = ColumnParallelLinear(8, 4 * size), RowParallelLinear(4 * size, 8)
    bags = EmbeddingBagAllToAll([20] * 2 * size, 5)
    experts = MixtureOfExperts(8, 8, 2 * size)
    for what, layer, given, whole in (
        ("linear", lambda x: row(F.gelu(column(x))), randn(5, 8), True),
        ("embedding bag", bags, indices, True),
        ("mixture of experts", experts, randn(7, 8), False),  # its sizes depend on the data
    ):
        called = torch.compile(layer, backend="aot_eager", fullgraph=whole)
        with torch.no_grad():
            close(what, called(given), layer(given))
    print("compiled: five operators, whole graphs")


def checked(rank, size):
    """By torch.library.opcheck: schema, fake kernel, autograd and AOTAutograd, with sizes that
    change."""
    name = dist.group.WORLD.group_name
    ops = torch.ops
    draw = torch.Generator().manual_seed(9)
    counts = torch.randint(4, (size, size, 2), generator=draw)

    def randn(*shape):
        return torch.randn(shape, generator=draw).requires_grad_()

    indices = torch.randint(20, (2, 4 * size, 3), generator=draw)
    come, sent = counts[:, rank].contiguous(), counts[rank].contiguous()
    for operator, arguments in (
        (ops.weft.gemv_allreduce, (randn(50, 6), randn(3, 6), name)),
        (ops.weft.gemv_allreduce, (randn(50, 6), randn(6), name)),
        (ops.weft.embedding_all_to_all, ([randn(20, 5), randn(25, 5)], indices, [2] * size, name)),
        (ops.weft.gemm_all_to_all, (randn(int(come.sum()), 4), randn(2, 4, 7), come, sent, name)),
    ):
        torch.library.opcheck(operator, arguments)
    for operator, arguments in (
        (ops.symm_mem.fused_all_gather_matmul, (randn(6, 4), [randn(4, 3)], 0, name)),
        (
            ops.symm_mem.fused_matmul_reduce_scatter,
            (randn(6 * size, 4), randn(4, 3), "sum", 0, name),
        ),
    ):
        with torch.no_grad():  # torch has no gradient of them
            torch.library.opcheck(
                operator.default,
                [
                    each.detach()
                    if torch.is_tensor(each)
                    else [one.detach() for one in each]
                    if isinstance(each, list)
                    else each
                    for each in arguments
                ],
            )
    print("opcheck: five operators")


def main():
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    alone.extend(dist.new_group([each]) for each in range(size))
    for name in sys.argv[1:] or ["dlrm", "linear", "moe", "compiled", "checked"]:
        globals()[name](rank, size)
    dist.barrier()
    dist.destroy_process_group()


alone = []

if __name__ == "__main__":
    main()
