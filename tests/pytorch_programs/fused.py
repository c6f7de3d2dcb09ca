"""Calls the fused operators with many shapes, types and options, and compares with what the
collectives of torch and plain computation make of the same tensors."""

import random
import sys
import time

import torch
import torch.distributed as dist

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
        assert found.shape == right.shape and found.dtype == right.dtype, (what, found.shape, right.shape)
        assert torch.equal(found, right), (what, (found - right).abs().max())
        self.done += 1

    def close(self, what, found, right):
        assert found.shape == right.shape and found.dtype == right.dtype, (what, found.shape, right.shape)
        tolerance = {torch.bfloat16: 2e-2, torch.float16: 2e-3}.get(right.dtype, 1e-5)
        scale = max(float(right.abs().max()), 1) if right.numel() else 1
        assert not right.numel() or float((found - right).abs().max()) <= tolerance * scale, (what, found, right)
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
            ((64, 32, None), (1000, 64, 1), (257, 16, 5), (3, 8, 2), (40_000, 4, None), (0, 4, 2), (5, 0, 2))
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
                    weight, x, self.name, tile_rows=(0, 7, 100)[number % 3], order=ORDERS[number % 3]
                )
                self.equal(f"gemv_allreduce {rows} {dtype}", found, right.to(dtype))
                self.equal("the same bits on all ranks", self.gather(found)[(self.rank + 1) % self.size], found)
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
        found = torch.ops.weft.gemv_allreduce(weight, x, self.name, tile_rows=100, algorithm="switch")
        self.close("gemv_allreduce, switch", found, right)


def main():
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.group.WORLD]
    if size > 2:
        for ranks in ([0, size - 1], list(range(size))[::-1][:3]):
            group = dist.new_group(ranks)
            if rank in ranks:
                groups.append(group)
    for group in groups:
        checks = Checks(group)
        for name in sys.argv[1:] or ["gemv", "switch"]:
            getattr(checks, name)()
        print(f"rank {checks.rank} of {checks.size}: {checks.done} checks", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
