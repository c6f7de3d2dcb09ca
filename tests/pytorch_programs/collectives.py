"""Calls every collective of torch.distributed, with many types, operations and shapes, and compares
with what each rank computes for itself. It knows nothing of Weft."""

import sys
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
SIZES = [1, 2, 3, 1000, 20_011]


def values(rank, count, dtype, modulus=5):
    numbers = (torch.arange(count) * (rank + 3) + rank) % modulus
    return numbers.bool() if dtype == torch.bool else numbers.to(dtype)


def reduced(op, parts):
    total = parts[0].clone()
    if total.dtype == torch.bool:
        total = total.to(torch.uint8)
        parts = [part.to(torch.uint8) for part in parts]
    for part in parts[1:]:
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            total = total + part
        elif op == dist.ReduceOp.PRODUCT:
            total = total * part
        elif op == dist.ReduceOp.MIN:
            total = torch.minimum(total, part)
        elif op == dist.ReduceOp.MAX:
            total = torch.maximum(total, part)
        elif op == dist.ReduceOp.BAND:
            total = total & part
        elif op == dist.ReduceOp.BOR:
            total = total | part
        elif op == dist.ReduceOp.BXOR:
            total = total ^ part
    if op == dist.ReduceOp.AVG:
        total = (total / len(parts)).to(parts[0].dtype)
    return total


class Checks:
    def __init__(self, group, rank, size, quick):
        self.group, self.rank, self.size, self.quick = group, rank, size, quick
        self.done = 0
        self.ranks = dist.get_process_group_ranks(group)

    def equal(self, what, found, right):
        assert found.dtype == right.dtype, (what, found.dtype, right.dtype)
        if not torch.equal(found, right):
            where = (found != right).nonzero()[:3].tolist()
            raise AssertionError(f"rank {self.rank}: {what}: {found} is not {right}, at {where}")
        self.done += 1

    def reductions(self):
        ops = dist.ReduceOp
        for dtype in [*FLOATS, *INTEGERS, torch.bool]:
            known = [ops.SUM, ops.MIN, ops.MAX, ops.PRODUCT]
            if dtype != torch.bool:
                known.append(ops.AVG)
            if not dtype.is_floating_point:
                known += [ops.BAND, ops.BOR, ops.BXOR]
            for op in known:
                for count in SIZES[2:4] if self.quick else SIZES:
                    modulus = 2 if op == ops.PRODUCT else 5
                    parts = [values(rank, count, dtype, modulus) for rank in range(self.size)]
                    right = reduced(op, parts)
                    if dtype == torch.bool:
                        right = right.bool() if op != ops.SUM else right > 0
                    mine = parts[self.rank].clone()
                    dist.all_reduce(mine, op, group=self.group)
                    self.equal(f"all_reduce {op} {dtype} {count}", mine, right)
                    root = count % self.size
                    mine = parts[self.rank].clone()
                    dist.reduce(mine, self.ranks[root], op, group=self.group)
                    if self.rank == root:
                        self.equal(f"reduce {op} {dtype} {count}", mine, right)
                    given = [
                        values(rank, count * self.size, dtype, modulus) for rank in range(self.size)
                    ]
                    whole = reduced(op, given)
                    if dtype == torch.bool:
                        whole = whole.bool() if op != ops.SUM else whole > 0
                    out = torch.empty(count, dtype=dtype)
                    dist.reduce_scatter_tensor(out, given[self.rank].clone(), op, group=self.group)
                    own = whole[self.rank * count :][:count]
                    self.equal(f"reduce_scatter_tensor {op} {dtype} {count}", out, own)
                    dist.reduce_scatter(
                        out,
                        [*given[self.rank].chunk(self.size)] if count * self.size else [],
                        op,
                        group=self.group,
                    )
                    self.equal(f"reduce_scatter {op} {dtype} {count}", out, own)

    def premultiplied(self):
        factor = dist._make_nccl_premul_sum(0.5)
        for dtype in FLOATS:
            mine = values(self.rank, 100, dtype)
            parts = [values(rank, 100, dtype) * 0.5 for rank in range(self.size)]
            dist.all_reduce(mine, factor, group=self.group)
            self.equal(f"PREMUL_SUM {dtype}", mine, reduced(dist.ReduceOp.SUM, parts))
        given = [values(rank, 12 * self.size, torch.float32) for rank in range(self.size)]
        before = given[self.rank].clone()
        out = torch.empty(12)
        dist.reduce_scatter_tensor(out, given[self.rank], factor, group=self.group)
        right = reduced(dist.ReduceOp.SUM, [0.5 * each for each in given])
        self.equal("PREMUL_SUM scattered", out, right[self.rank * 12 :][:12])
        self.equal("its input", given[self.rank], before)

    def complex_numbers(self):
        parts = [
            torch.complex(values(rank, 9, torch.float32), values(rank + 1, 9, torch.float32))
            for rank in range(self.size)
        ]
        mine = parts[self.rank].clone()
        dist.all_reduce(mine, group=self.group)
        self.equal("complex", mine, sum(parts))

    def gathers(self):
        kinds = [*FLOATS, *INTEGERS, torch.bool, torch.complex64]
        for dtype in kinds[:3] if self.quick else kinds:
            for count in SIZES:
                parts = [values(rank, count, dtype) for rank in range(self.size)]
                out = [torch.empty(count, dtype=dtype) for _ in range(self.size)]
                dist.all_gather(out, parts[self.rank], group=self.group)
                for one, other in zip(out, parts, strict=True):
                    self.equal(f"all_gather {dtype} {count}", one, other)
                whole = torch.empty(count * self.size, dtype=dtype)
                dist.all_gather_into_tensor(whole, parts[self.rank], group=self.group)
                self.equal(f"all_gather_into_tensor {dtype} {count}", whole, torch.cat(parts))
                # The input is a view of the output, as FSDP2 has it.
                whole = torch.zeros(count * self.size, dtype=dtype)
                own = whole[self.rank * count :][:count]
                own.copy_(parts[self.rank])
                dist.all_gather_into_tensor(whole, own, group=self.group)
                self.equal(f"all_gather of a view {dtype} {count}", whole, torch.cat(parts))
                root = count % self.size
                mine = (
                    parts[self.rank].clone()
                    if self.rank == root
                    else torch.empty(count, dtype=dtype)
                )
                dist.broadcast(mine, self.ranks[root], group=self.group)
                self.equal(f"broadcast {dtype} {count}", mine, parts[root])
                there = [torch.empty(count, dtype=dtype) for _ in range(self.size)]
                dist.gather(
                    parts[self.rank],
                    there if self.rank == root else None,
                    self.ranks[root],
                    group=self.group,
                )
                for one, other in zip(there, parts, strict=True) if self.rank == root else ():
                    self.equal(f"gather {dtype} {count}", one, other)
                mine = torch.empty(count, dtype=dtype)
                dist.scatter(
                    mine, parts if self.rank == root else None, self.ranks[root], group=self.group
                )
                self.equal(f"scatter {dtype} {count}", mine, parts[self.rank])

    def exchanges(self):
        for dtype in (torch.float32, torch.int8):
            for count in SIZES:
                mine = torch.cat(
                    [values(10 * self.rank + other, count, dtype) for other in range(self.size)]
                )
                out = torch.empty_like(mine)
                dist.all_to_all_single(out, mine, group=self.group)
                right = torch.cat(
                    [values(10 * other + self.rank, count, dtype) for other in range(self.size)]
                )
                self.equal(f"all_to_all_single {dtype} {count}", out, right)
        # Parts of different sizes, some of them empty.
        goes = [(self.rank + other) % 3 for other in range(self.size)]
        comes = [(other + self.rank) % 3 for other in range(self.size)]
        mine = torch.cat(
            [torch.full((n, 5), 10.0 * self.rank + other) for other, n in enumerate(goes)]
        )
        out = torch.empty(sum(comes), 5)
        dist.all_to_all_single(out, mine, comes, goes, group=self.group)
        right = torch.cat(
            [torch.full((n, 5), 10.0 * other + self.rank) for other, n in enumerate(comes)]
        )
        self.equal("all_to_all_single with sizes", out, right)
        given = [
            torch.full((100 * (self.rank + other),), float(self.rank)) for other in range(self.size)
        ]
        out = [torch.empty(100 * (self.rank + other)) for other in range(self.size)]
        dist.all_to_all(out, given, group=self.group)
        for other, found in enumerate(out):
            self.equal("all_to_all", found, torch.full((100 * (self.rank + other),), float(other)))

    def strange_tensors(self):
        # Not contiguous, of no dimension, empty, with a gradient.
        base = torch.arange(24.0).reshape(4, 6) + self.rank
        mine = base.t()
        dist.all_reduce(mine, group=self.group)
        total = sum(torch.arange(24.0).reshape(4, 6) + rank for rank in range(self.size))
        self.equal("a transposed tensor", mine, total.t())
        column = torch.zeros(6, 4)
        source = column[:, 1]
        source.copy_(torch.arange(6.0) if self.rank == 0 else torch.zeros(6))
        dist.broadcast(source, self.ranks[0], group=self.group)
        right = torch.zeros(6, 4)
        right[:, 1] = torch.arange(6.0)
        self.equal("a column", column, right)
        single = torch.tensor(float(self.rank))
        dist.all_reduce(single, group=self.group)
        self.equal("no dimension", single, torch.tensor(float(sum(range(self.size)))))
        for empty in (torch.empty(0), torch.empty(3, 0)):
            dist.all_reduce(empty, group=self.group)
            dist.broadcast(empty, self.ranks[0], group=self.group)
            dist.all_gather(
                [torch.empty_like(empty) for _ in range(self.size)], empty, group=self.group
            )
            dist.all_gather_into_tensor(torch.empty(0), torch.empty(0), group=self.group)
            dist.reduce_scatter_tensor(torch.empty(0), torch.empty(0), group=self.group)
            dist.all_to_all_single(torch.empty(0), torch.empty(0), group=self.group)
        grown = torch.ones(5, requires_grad=True)
        out = [torch.empty(5) for _ in range(self.size)]
        dist.all_gather(out, grown, group=self.group)
        self.equal("a tensor with a gradient", out[0], torch.ones(5))
        transposed = [torch.empty(6, 4).t() for _ in range(self.size)]
        strided = torch.zeros(2 * 3 * self.size)[::2]
        dist.all_gather_into_tensor(strided, torch.full((3,), float(self.rank)), group=self.group)
        self.equal(
            "an output with strides",
            strided.contiguous(),
            torch.arange(float(self.size)).repeat_interleave(3),
        )
        bad = torch.ones(20_000)
        if self.rank == 0:
            bad[7] = float("nan")
        dist.all_reduce(bad, group=self.group)
        assert bad[7].isnan() and bad[-1] == self.size, bad
        grid = torch.arange(24.0).reshape(4, 6)
        dist.all_gather(transposed, grid + self.rank, group=self.group)
        self.equal("outputs that are transposed", transposed[-1].contiguous(), grid + self.size - 1)

    def several(self):
        tensors = [torch.full((n,), float(self.rank + 1)) for n in (3, 1000, 7)]
        dist.all_reduce_coalesced(tensors, group=self.group)
        total = float(sum(range(1, self.size + 1)))
        for tensor in tensors:
            self.equal("all_reduce_coalesced", tensor, torch.full_like(tensor, total))
        for counts in ([3, 1000, 7], [2] * self.size):  # as many as ranks, too
            given = [[values(10 * rank + n, c, torch.float32) for n, c in enumerate(counts)]
                     for rank in range(self.size)]  # fmt: skip
            lists = [[torch.empty(count) for count in counts] for _ in range(self.size)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dist.all_gather_coalesced(lists, given[self.rank], group=self.group)
            for one, other in zip(lists, given, strict=True):
                for found, right in zip(one, other, strict=True):
                    self.equal("all_gather_coalesced", found, right)
        with dist._coalescing_manager(group=self.group, async_ops=True) as manager:
            outs = [torch.empty(n * self.size) for n in (4, 500)]
            for out in outs:
                dist.all_gather_into_tensor(
                    out, torch.full((len(out) // self.size,), float(self.rank)), group=self.group
                )
        manager.wait()
        for out in outs:
            right = torch.cat(
                [torch.full((len(out) // self.size,), float(r)) for r in range(self.size)]
            )
            self.equal("coalesced all_gather_into_tensor", out, right)
        with dist._coalescing_manager(group=self.group, async_ops=True) as manager:
            outs = [torch.empty(n) for n in (4, 500)]
            for out in outs:
                dist.reduce_scatter_tensor(
                    out, torch.full((len(out) * self.size,), float(self.rank + 1)), group=self.group
                )
        manager.wait()
        for out in outs:
            self.equal("coalesced reduce_scatter_tensor", out, torch.full_like(out, total))
        works, tensors = [], [torch.full((10_000,), float(self.rank + n)) for n in range(100)]
        for tensor in tensors:
            works.append(dist.all_reduce(tensor, group=self.group, async_op=True))
        for n, (tensor, work) in enumerate(zip(tensors, works, strict=True)):
            work.wait()
            right = torch.full((10_000,), float(sum(rank + n for rank in range(self.size))))
            self.equal("one of 100 at once", tensor, right)
        tensor = torch.ones(5)
        work = dist.all_reduce(tensor, group=self.group, async_op=True)
        doubled = work.get_future().then(lambda future: future.value()[0] * 2)
        self.equal("a future", doubled.wait(), torch.full((5,), 2.0 * self.size))
        assert work.is_completed() and work.is_success()

    def messages(self):
        rank, size, ranks = self.rank, self.size, self.ranks
        if size == 1:
            return
        after, before = ranks[(rank + 1) % size], ranks[(rank - 1) % size]
        for count in (0, 1, 1000, 300_000):
            mine, got = values(rank, count, torch.float32), torch.empty(count)
            # Both directions at once: sends must not wait for receives.
            dist.send(mine, after, group=self.group)
            dist.recv(got, before, group=self.group)
            self.equal(f"around {count}", got, values((rank - 1) % size, count, torch.float32))
            got = torch.empty(count)
            ops = [
                dist.P2POp(dist.isend, mine, after, self.group),
                dist.P2POp(dist.irecv, got, before, self.group),
            ]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
            self.equal(f"batched {count}", got, values((rank - 1) % size, count, torch.float32))
        # Tags, in another order than sent, and columns.
        if rank == 0:
            for tag in (5, 6, 7):
                dist.send(torch.full((2000,), float(tag)), ranks[1], tag=tag, group=self.group)
            dist.send(torch.arange(12.0).reshape(3, 4).t(), ranks[1], group=self.group)
        elif rank == 1:
            for tag in (7, 5, 6):
                got = torch.empty(2000)
                dist.recv(got, ranks[0], tag=tag, group=self.group)
                self.equal(f"tag {tag}", got, torch.full((2000,), float(tag)))
            got = torch.zeros(3, 4).t()
            dist.recv(got, ranks[0], group=self.group)
            self.equal(
                "columns", got.contiguous(), torch.arange(12.0).reshape(3, 4).t().contiguous()
            )
        # From any source.
        dist.barrier(group=self.group)
        if rank == 0:
            seen = set()
            for _ in range(size - 1):
                got = torch.empty(3000)
                source = dist.recv(got, group=self.group)
                place = ranks.index(source)
                self.equal("from any", got, values(place, 3000, torch.float32))
                seen.add(place)
            assert seen == set(range(1, size)), seen
        else:
            dist.send(values(rank, 3000, torch.float32), ranks[0], group=self.group)

    def objects(self):
        mine = {"rank": self.rank, "text": "x" * (100 * self.rank)}
        found = [None] * self.size
        dist.all_gather_object(found, mine, group=self.group)
        assert found == [{"rank": r, "text": "x" * (100 * r)} for r in range(self.size)], found
        given = ["a", {"b": 2}] if self.rank == 0 else [None, None]
        dist.broadcast_object_list(given, self.ranks[0], group=self.group)
        assert given == ["a", {"b": 2}]
        got = [None]
        dist.scatter_object_list(
            got,
            list("abcdefgh"[: self.size]) if self.rank == 0 else None,
            self.ranks[0],
            group=self.group,
        )
        assert got == ["abcdefgh"[self.rank]], got
        there = [None] * self.size if self.rank == 0 else None
        dist.gather_object(self.rank, there, self.ranks[0], group=self.group)
        assert self.rank or there == list(range(self.size))
        if self.size > 1 and self.rank == 0:
            dist.send_object_list(["hello", 3], self.ranks[1], group=self.group)
        elif self.rank == 1:
            got = [None, None]
            dist.recv_object_list(got, self.ranks[0], group=self.group)
            assert got == ["hello", 3]
        self.done += 5

    def barriers(self):
        dist.barrier(group=self.group)
        dist.barrier(group=self.group, async_op=True).wait()
        self.done += 2

    def all(self):
        for name in (
            "reductions",
            "premultiplied",
            "complex_numbers",
            "gathers",
            "exchanges",
            "strange_tensors",
            "several",
            "messages",
            "objects",
            "barriers",
        ):
            getattr(self, name)()


def main():
    quick = "--quick" in sys.argv
    dist.init_process_group(timeout=timedelta(seconds=120))
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = Checks(dist.group.WORLD, rank, size, quick)
    whole.all()
    if rank == 0:
        print(f"all ranks: {whole.done} checks")
    # Groups of some ranks, in another order, beside each other; made and destroyed again.
    groups = [[*range(0, size, 2)], [*range(1, size, 2)], [*{size - 1, 0}], [0]]
    groups = [ranks for ranks in groups if ranks]
    for ranks in groups:
        group = dist.new_group(ranks, use_local_synchronization=False)
        if rank in ranks:
            checks = Checks(group, dist.get_rank(group), len(ranks), True)
            checks.all()
            if rank == min(ranks):
                print(f"ranks {sorted(ranks)}: {checks.done} checks")
            dist.destroy_process_group(group)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
