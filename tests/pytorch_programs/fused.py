"""Calls the fused operators with many shapes, types and options, and compares with what the
collectives of torch and plain computation make of the same tensors."""

import random
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory
import torch.nn.functional as F

ORDERS = ("remote-first", "local-first", "interleaved")


class Checks:
    def __init__(self, group):
        self.group = group
        self.name = group.group_name
        self.rank, self.size = group.rank(), group.size()
        self.draw = torch.Generator().manual_seed(100 + self.rank)
        self.skew = random.Random(self.rank)
        self.done = 0

    def randn(self, *shape, dtype=torch.float32):
        return torch.randn(*shape, generator=self.draw).to(dtype)

    def whole_numbers(self, *shape, dtype=torch.float32):
        return torch.randint(-3, 4, shape, generator=self.draw).to(dtype)

    def equal(self, what, found, right):
        assert found.shape == right.shape and found.dtype == right.dtype, (
            what,
            found.shape,
            right.shape,
        )
        assert torch.equal(found, right), (what, (found - right).abs().max())
        self.done += 1

    def close(self, what, found, right):
        assert found.shape == right.shape and found.dtype == right.dtype, (
            what,
            found.shape,
            right.shape,
        )
        tolerance = {torch.bfloat16: 2e-2, torch.float16: 2e-3}.get(right.dtype, 1e-5)
        scale = max(float(right.abs().max()), 1) if right.numel() else 1
        assert not right.numel() or float((found - right).abs().max()) <= tolerance * scale, (
            what,
            found,
            right,
        )
        self.done += 1

    def wait_a_while(self):
        time.sleep(self.skew.choice([0, 0, 0.002, 0.02]))

    def gather(self, tensor):
        """The tensors of all ranks, of the same shape."""
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous(), group=self.group)
        return parts

    def gemv(self):
        gemv_allreduce = torch.ops.weft.gemv_allreduce
        for number, (rows, inner, batch) in enumerate(
            (
                (64, 32, None),
                (1000, 64, 1),
                (257, 16, 5),
                (3, 8, 2),
                (40_000, 4, None),
                (0, 4, 2),
                (5, 0, 2),
            )
        ):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                weight = self.whole_numbers(rows, inner, dtype=dtype)
                x = self.whole_numbers(*(() if batch is None else (batch,)), inner, dtype=dtype)
                right = x @ weight.T
                if dtype == torch.bfloat16:  # rounded where torch rounds, and once more in the end
                    right = right.float()
                dist.all_reduce(right, group=self.group)
                self.wait_a_while()
                found = gemv_allreduce(
                    weight,
                    x,
                    self.name,
                    tile_rows=(0, 7, 100)[number % 3],
                    order=ORDERS[number % 3],
                )
                self.equal(f"gemv_allreduce {rows} {dtype}", found, right.to(dtype))
                self.equal(
                    "the same bits on all ranks",
                    self.gather(found)[(self.rank + 1) % self.size],
                    found,
                )
        weight, x = self.randn(300, 40), self.randn(3, 40)
        right = x @ weight.T
        dist.all_reduce(right, group=self.group)
        found = [gemv_allreduce(weight, x, self.name, tile_rows=tiles) for tiles in (9, 9)]
        self.close("gemv_allreduce", found[0], right)
        self.equal("the same bits each time", *found)
        weight.requires_grad_(), x.requires_grad_()
        gemv_allreduce(weight, x, self.name).sum().backward()
        self.close("gradient of x", x.grad, torch.ones(3, 300) @ weight.detach())
        self.close("gradient of weight", weight.grad, torch.ones(300, 3) @ x.detach())

    def switch(self):
        weight, x = self.randn(3000, 40), self.randn(2, 40)
        right = x @ weight.T
        dist.all_reduce(right, group=self.group)
        found = torch.ops.weft.gemv_allreduce(
            weight, x, self.name, tile_rows=100, algorithm="switch"
        )
        self.close("gemv_allreduce, switch", found, right)

    def own_tables(self, tables):
        return range(sum(tables[: self.rank]), sum(tables[: self.rank + 1]))

    def embedding(self):
        size, rank = self.size, self.rank
        for number, (tables, rows, dim, each_batch, pooling) in enumerate(
            (
                ([2] * size, 50, 16, 8, 3),
                ([rank_ % 3 for rank_ in range(size)], 20, 5, 7, 1),
                ([3] + [1] * (size - 1), 100, 64, 32, 10),
                ([1] * size, 10, 3, 0, 2),
            )
        ):
            for dtype in (torch.float32, torch.bfloat16):
                batch = each_batch * size
                # Everybody knows all tables and looks everything up, to compare.
                draw = torch.Generator().manual_seed(number)
                everything = [
                    torch.randn(rows + t, dim, generator=draw).to(dtype) for t in range(sum(tables))
                ]
                looked_up = [
                    torch.randint(rows, (batch, pooling), generator=draw) for _ in everything
                ]
                if not everything:
                    continue
                plain = [each.clone().requires_grad_() for each in everything]
                pooled = torch.stack(
                    [
                        F.embedding_bag(i, w, mode="sum")
                        for i, w in zip(looked_up, plain, strict=True)
                    ],
                    1,
                )
                right = pooled[rank * each_batch : (rank + 1) * each_batch]
                own = self.own_tables(tables)
                weights = [everything[t].clone().requires_grad_() for t in own]
                if not weights:
                    weights = [torch.empty(0, dim, dtype=dtype, requires_grad=True)]
                indices = (
                    torch.stack([looked_up[t] for t in own])
                    if own
                    else torch.empty(0, batch, 1, dtype=torch.int64)
                )
                self.wait_a_while()
                found = torch.ops.weft.embedding_all_to_all(
                    weights,
                    indices,
                    tables,
                    self.name,
                    tile_rows=(0, 3, 10, 0)[number],
                    slice_tiles=number + 1,
                    order=ORDERS[number % 3],
                )
                self.equal(f"embedding {number} {dtype}", found, right)
                factor = torch.randint(-2, 3, pooled.shape, generator=draw).to(dtype)
                (pooled * factor).sum().backward()
                self.wait_a_while()
                (found * factor[rank * each_batch : (rank + 1) * each_batch]).sum().backward()
                for t, weight in zip(own, weights, strict=False):
                    self.equal(f"gradient of table {t}", weight.grad, plain[t].grad)

    def gemm(self):
        size, rank = self.size, self.rank
        for number, (experts, inner, width, most) in enumerate(
            ((2, 8, 16, 20), (1, 64, 128, 200), (3, 4, 4, 1))
        ):
            for dtype in (torch.float32, torch.float64):
                draw = torch.Generator().manual_seed(number)
                counts = torch.randint(
                    most + 1, (size, size, experts), generator=draw
                )  # source, rank, expert
                counts[:, number % size] = 0  # a rank whose experts nobody wants
                weights = torch.randint(-2, 3, (size, experts, inner, width), generator=draw).to(
                    dtype
                )
                tokens = {
                    (s, r): torch.randint(
                        -2, 3, (int(counts[s, r].sum()), inner), generator=draw
                    ).to(dtype)
                    for s in range(size)
                    for r in range(size)
                }
                gradients = {
                    place: torch.randint(-2, 3, (len(each), width), generator=draw).to(dtype)
                    for place, each in tokens.items()
                }
                mine = torch.cat([tokens[s, rank] for s in range(size)]).requires_grad_()
                own = weights[rank].clone().requires_grad_()

                def products(s, r, w, tokens=tokens, counts=counts):
                    parts = tokens[s, r].split(counts[s, r].tolist())
                    return torch.cat([part @ w[e] for e, part in enumerate(parts)])

                right = torch.cat([products(rank, r, weights[r]) for r in range(size)])
                self.wait_a_while()
                found = torch.ops.weft.gemm_all_to_all(
                    mine,
                    own,
                    counts[:, rank].contiguous(),
                    counts[rank].contiguous(),
                    self.name,
                    tile_rows=(0, 7, 1)[number],
                    slice_tiles=number + 2,
                    order=ORDERS[number],
                )
                self.equal(f"gemm_all_to_all {number}", found, right)
                self.wait_a_while()
                (found * torch.cat([gradients[rank, r] for r in range(size)])).sum().backward()
                plain = weights[rank].clone().requires_grad_()
                sum(
                    (products(s, rank, plain) * gradients[s, rank]).sum() for s in range(size)
                ).backward()
                self.equal("gradient of weights", own.grad, plain.grad)
                back = [
                    g @ weights[rank][e].T
                    for s in range(size)
                    for e, g in enumerate(gradients[s, rank].split(counts[s, rank].tolist()))
                ]
                self.equal("gradient of tokens", mine.grad, torch.cat(back))

    def symmetric(self):
        fallbacks = torch.distributed._symmetric_memory
        for number, shape in enumerate(((6, 8), (2, 12, 8), (3, 4, 5, 8), (700, 64))):
            for dtype in (torch.float32, torch.bfloat16):
                for dim in range(len(shape)):
                    a = self.whole_numbers(*shape, dtype=dtype)
                    if number == 2:
                        a = a.transpose(0, 1)  # of any strides
                    inner = shape[-1] * (self.size if dim == len(shape) - 1 else 1)
                    bs = [self.whole_numbers(inner, n, dtype=dtype) for n in (5, 16)]
                    right = fallbacks._fused_all_gather_matmul_fallback(a, bs, dim, self.name)
                    self.wait_a_while()
                    found = torch.ops.symm_mem.fused_all_gather_matmul(a, bs, dim, self.name)
                    self.equal("gathered", found[0], right[0])
                    for one, other in zip(found[1], right[1], strict=True):
                        self.equal(f"all_gather_matmul {shape} {dim}", one, other)
                    only = torch.ops.symm_mem.fused_all_gather_matmul(
                        a, bs, dim, self.name, return_A=False
                    )
                    assert only[0] is None and torch.equal(only[1][0], right[1][0])
                    wide = list(shape)
                    wide[dim] *= self.size
                    a = self.whole_numbers(*wide, dtype=dtype)
                    b = self.whole_numbers(wide[-1], 4 * self.size, dtype=dtype)
                    for op in ("sum", "avg") if dtype == torch.float32 else ("sum",):
                        right = fallbacks._fused_matmul_reduce_scatter_fallback(
                            a, b, op, dim, self.name
                        )
                        self.wait_a_while()
                        found = torch.ops.symm_mem.fused_matmul_reduce_scatter(
                            a, b, op, dim, self.name
                        )
                        self.close(f"matmul_reduce_scatter {shape} {dim} {op}", found, right)


def main():
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [] if "--groups" in sys.argv else [dist.group.WORLD]
    asked = [each for each in sys.argv[1:] if not each.startswith("--")]
    if size > 2 and "--quick" not in sys.argv:
        for ranks in ([0, size - 1], list(range(size))[::-1][:3]):
            group = dist.new_group(ranks)
            if rank in ranks:
                groups.append(group)
    for group in groups:
        checks = Checks(group)
        for name in asked or ["gemv", "switch", "embedding", "gemm", "symmetric"]:
            getattr(checks, name)()
        print(f"rank {checks.rank} of {checks.size}: {checks.done} checks", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
