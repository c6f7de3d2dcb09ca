"""Calls every collective of c10d's interface on groups of one backend and then on groups of Gloo of
the same ranks, and compares what came of both, element by element. What Gloo does not have is
compared with what each rank computes for itself. It knows nothing of Weft."""

import functools
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int8, torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip
SHAPES = [(), (1,), (5,), (3, 4), (0,), (2, 0)]
OPS = dist.ReduceOp


def options(kind, **values):
    """The options of a call of the interface."""
    found = kind()
    for name, value in values.items():
        setattr(found, name, value)
    return found


class Member:
    """A rank of a group, and what it gives."""

    def __init__(self, group):
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.ranks = dist.get_process_group_ranks(group)

    def given(self, shape=(5,), dtype=torch.float32, salt=0, rank=None):
        """A tensor that tells rank and element: small whole numbers, which add without error."""
        rank = self.rank if rank is None else rank
        count = torch.Size(shape).numel()
        numbers = (torch.arange(count) * 3 + 7 * rank + salt) % 11
        if dtype == torch.complex64:
            return torch.complex(numbers.float(), numbers.flip(0).float()).reshape(shape)
        return (numbers % 2 if dtype == torch.bool else numbers).to(dtype).reshape(shape)

    def of_all(self, *arguments, **more):
        return [self.given(*arguments, rank=rank, **more) for rank in range(self.size)]

    def only(self, root, values):
        return values if self.rank == root else None


def empty(*shape, dtype=torch.float32):
    """Memory that no result leaves as it is."""
    return torch.full(shape, 77).to(dtype)


def like(tensors):
    return [torch.full_like(each, 77) for each in tensors]


def finish(work, waits):
    """What ends with work that was begun; the value of its future, if that is waited for."""
    if waits == "future":
        # Some calls return the future itself.
        return getattr(work, "get_future", lambda: work)().wait()
    elif work is not None:
        work.wait()


CASES = {}
"""By name: (a function of a member, which returns what came of it; what is right; whether Gloo is
asked)."""


def case(name, run, right=None, gloo=True):
    assert name not in CASES, name
    CASES[name] = run, right, gloo


def in_three_ways(name, run, right=None, gloo=True):
    """A collective that may be waited for at once, later, or by its future."""
    for waits in ("", "work", "future"):
        # Gloo's Reduce-Scatter has no future.
        has_it = gloo and not (waits == "future" and name.startswith("reduce_scatter"))
        case(f"{name} {waits}".strip(), lambda m, w=waits: run(m, w), right, has_it)


def sum_of(tensors):
    """The sum as torch.distributed has it: of truth values it is OR."""
    total = sum(tensors[1:], tensors[0].clone())
    return total.to(tensors[0].dtype)


# -- torch.distributed: every type and shape


def one_tensor(what, dtype, shape):
    def broadcast(m, waits, root):
        tensor = m.given(shape, dtype) if m.rank == root else empty(*shape, dtype=dtype)
        how = {"group_src": root} if waits else {"src": m.ranks[root]}
        finish(dist.broadcast(tensor, group=m.group, async_op=bool(waits), **how), waits)
        return [tensor]

    def all_reduce(m, waits):
        tensor = m.given(shape, dtype)
        finish(dist.all_reduce(tensor, group=m.group, async_op=bool(waits)), waits)
        return [tensor]

    def reduce(m, waits, root):
        tensor = m.given(shape, dtype)
        how = {"group_dst": root} if waits else {"dst": m.ranks[root]}
        finish(dist.reduce(tensor, group=m.group, async_op=bool(waits), **how), waits)
        return [tensor] if m.rank == root else []

    def all_gather(m, waits):
        outs = [empty(*shape, dtype=dtype) for _ in range(m.size)]
        finish(
            dist.all_gather(outs, m.given(shape, dtype), group=m.group, async_op=bool(waits)), waits
        )
        return outs

    def all_gather_single(m, waits, stacked):
        rows = (m.size, *shape) if stacked else (m.size * shape[0], *shape[1:])
        out = empty(*rows, dtype=dtype)
        finish(
            dist.all_gather_into_tensor(
                out, m.given(shape, dtype), group=m.group, async_op=bool(waits)
            ), waits,
        )  # fmt: skip
        return [out]

    def gather(m, waits, root):
        outs = m.only(root, [empty(*shape, dtype=dtype) for _ in range(m.size)])
        how = {"group_dst": root} if waits else {"dst": m.ranks[root]}
        work = dist.gather(m.given(shape, dtype), outs, group=m.group, async_op=bool(waits), **how)
        finish(work, waits)
        return outs or []

    def scatter(m, waits, root):
        out = empty(*shape, dtype=dtype)
        given = m.only(root, m.of_all(shape, dtype))
        how = {"group_src": root} if waits else {"src": m.ranks[root]}
        finish(dist.scatter(out, given, group=m.group, async_op=bool(waits), **how), waits)
        return [out]

    def reduce_scatter(m, waits):
        given = [m.given(shape, dtype, salt=other) for other in range(m.size)]
        out = empty(*shape, dtype=dtype)
        finish(dist.reduce_scatter(out, given, group=m.group, async_op=bool(waits)), waits)
        return [out]

    def reduce_scatter_single(m, waits, stacked):
        rows = (m.size, *shape) if stacked else (m.size * shape[0], *shape[1:])
        out = empty(*shape, dtype=dtype)
        finish(
            dist.reduce_scatter_tensor(
                out, m.given(rows, dtype), group=m.group, async_op=bool(waits)
            ), waits,
        )  # fmt: skip
        return [out]

    def right_broadcast(m, root):
        return [m.given(shape, dtype, rank=root)]

    def right_reduce(m, root):
        return m.only(root, [sum_of(m.of_all(shape, dtype))]) or []

    def right_gather(m, root):
        return m.only(root, m.of_all(shape, dtype)) or []

    def right_scatter(m, root):
        return [m.given(shape, dtype)]

    def right_reduce_scatter(m):
        return [sum_of(m.of_all(shape, dtype, salt=m.rank))]

    def right_all_gather_single(m, stacked):
        parts = m.of_all(shape, dtype)
        return [torch.stack(parts) if stacked else torch.cat(parts)]

    def right_reduce_scatter_single(m, stacked):
        rows = (m.size, *shape) if stacked else (m.size * shape[0], *shape[1:])
        whole = sum_of(m.of_all(rows, dtype))
        return [whole[m.rank] if stacked else whole.chunk(m.size)[m.rank] if whole.numel() else
                torch.empty(shape, dtype=dtype)]  # fmt: skip

    def all_to_all_single(m, waits):
        given = m.given((2 * m.size, *shape), dtype)
        out = torch.full_like(given, 77)
        finish(dist.all_to_all_single(out, given, group=m.group, async_op=bool(waits)), waits)
        return [out]

    def all_to_all(m, waits):
        given = [m.given(shape, dtype, salt=other) for other in range(m.size)]
        outs = like(given)
        finish(dist.all_to_all(outs, given, group=m.group, async_op=bool(waits)), waits)
        return outs

    def right_all_to_all(m):
        return [m.given(shape, dtype, salt=m.rank, rank=other) for other in range(m.size)]

    def send_and_receive(m):
        if m.size == 1:
            return []
        after, before = (m.rank + 1) % m.size, (m.rank - 1) % m.size
        out = empty(*shape, dtype=dtype)
        sent = dist.isend(m.given(shape, dtype), group=m.group, group_dst=after, tag=3)
        dist.recv(out, group=m.group, group_src=before, tag=3)
        sent.wait()
        return [out]

    return locals()[what]


def of_type_and_shape(dtype, shape):
    call, said = functools.partial(one_tensor, dtype=dtype, shape=shape), f"{dtype} {shape}"
    for name in ("all_reduce", "all_gather", "all_to_all_single"):
        in_three_ways(f"{name} {said}", call(name))
    for name in ("all_to_all", "reduce_scatter"):
        in_three_ways(f"{name} {said}", call(name), call(f"right_{name}"))
    for name in ("broadcast", "reduce", "gather", "scatter"):
        run, right = call(name), call(f"right_{name}")
        for root in (0, -1):
            in_three_ways(
                f"{name} {said} root {root}",
                lambda m, w, run=run, root=root: run(m, w, root % m.size),
                lambda m, right=right, root=root: right(m, root % m.size),
            )
    for name in ("all_gather_single", "reduce_scatter_single"):
        run, right = call(name), call(f"right_{name}")
        for stacked in (True, False) if shape else (True,):
            in_three_ways(
                f"{name} {said} {'stacked' if stacked else 'joined'}",
                lambda m, w, run=run, stacked=stacked: run(m, w, stacked),
                lambda m, right=right, stacked=stacked: right(m, stacked),
                gloo=bool(shape),  # of no dimension it is an error there, or the end of the process
            )
    case(f"send and recv {said}", call("send_and_receive"))


for dtype in DTYPES:
    for shape in SHAPES:
        of_type_and_shape(dtype, shape)


# -- operations


def reduction(dtype, op, how):
    def run(m):
        if how == "all_reduce":
            tensor = m.given((7,), dtype)
            dist.all_reduce(tensor, op, group=m.group)
            return [tensor]
        if how == "reduce":
            tensor = m.given((7,), dtype)
            dist.reduce(tensor, group=m.group, op=op, group_dst=m.size - 1)
            return [tensor] if m.rank == m.size - 1 else []
        if how == "reduce_scatter":
            out = empty(7, dtype=dtype)
            given = [m.given((7,), dtype, salt=other) for other in range(m.size)]
            dist.reduce_scatter(out, given, op, group=m.group)
            return [out]
        if how == "coalesced":
            tensors = [m.given((n,), dtype) for n in (3, 0, 5)]
            dist.all_reduce_coalesced(tensors, op, group=m.group)
            return tensors
        out = empty(7, dtype=dtype)
        dist.reduce_scatter_tensor(out, m.given((7 * m.size,), dtype), op, group=m.group)
        return [out]

    return run


def averages(m):
    return [sum(m.of_all((7,))) / m.size]


for dtype in DTYPES:
    for op in (OPS.SUM, OPS.PRODUCT, OPS.MIN, OPS.MAX, OPS.BAND, OPS.BOR, OPS.BXOR, OPS.AVG):
        bits = op in (OPS.BAND, OPS.BOR, OPS.BXOR)
        if dtype == torch.complex64 and op not in (OPS.SUM, OPS.AVG):
            continue
        if bits and (dtype.is_floating_point or dtype.is_complex):
            continue
        if op == OPS.AVG and not dtype.is_floating_point:
            continue
        for how in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "coalesced"):
            case(f"{how} by {op} of {dtype}", reduction(dtype, op, how))


# -- lists, unequal sizes, strides


def all_gather_coalesced(shapes, dtype):
    def run(m, waits):
        given = [m.given(shape(m), dtype, salt=n) for n, shape in enumerate(shapes(m))]
        outs = [like(given) for _ in range(m.size)]
        work = dist.all_gather_coalesced(outs, given, group=m.group, async_op=bool(waits))
        told = finish(work, waits)
        if told is not None:  # of one rank, Gloo's future has its list alone
            outs = told if m.size > 1 else [told]
        return [each for one in outs for each in one]

    return run


for dtype in (torch.float32, torch.int64, torch.complex64):
    for name, shapes in (
        ("as torch's documentation has it", lambda m: [lambda m: (2, 2), lambda m: (1,), lambda m: (2,)]),
        ("as many as ranks", lambda m: [lambda m: (3,)] * m.size),
        ("one", lambda m: [lambda m: (4,)]),
        ("some empty", lambda m: [lambda m: (4,), lambda m: (0,), lambda m: (1,)]),
    ):  # fmt: skip
        in_three_ways(f"all_gather_coalesced {dtype} {name}", all_gather_coalesced(shapes, dtype))


def unequal_all_gather(m, waits):
    """Tensors of different sizes, which torch's documentation allows."""
    outs = [empty(2 * rank + 1) for rank in range(m.size)]
    work = dist.all_gather(outs, m.given((2 * m.rank + 1,)), group=m.group, async_op=bool(waits))
    finish(work, waits)
    return outs


in_three_ways(
    "all_gather of unequal tensors", unequal_all_gather,
    lambda m: [m.given((2 * rank + 1,), rank=rank) for rank in range(m.size)],
)  # fmt: skip


def unequal_reduce_scatter(m, waits):
    out = empty(m.rank + 1)
    given = [m.given((other + 1,), salt=other) for other in range(m.size)]
    finish(dist.reduce_scatter(out, given, group=m.group, async_op=bool(waits)), waits)
    return [out]


in_three_ways(
    "reduce_scatter of unequal tensors", unequal_reduce_scatter,
    lambda m: [sum(m.given((m.rank + 1,), salt=m.rank, rank=each) for each in range(m.size))],
)  # fmt: skip


def unequal_all_to_all_single(shape, dtype):
    def run(m, waits):
        goes = [(m.rank + other) % 3 for other in range(m.size)]
        given = m.given((sum(goes), *shape), dtype)
        out = empty(sum(goes), *shape, dtype=dtype)  # the table of sizes is symmetric
        work = dist.all_to_all_single(
            out, given, list(goes), list(goes), group=m.group, async_op=bool(waits)
        )
        finish(work, waits)
        return [out]

    return run


for dtype in (torch.float32, torch.int8, torch.complex64):
    for shape in ((), (3,), (2, 2)):
        in_three_ways(
            f"all_to_all_single of unequal parts {dtype} {shape}",
            unequal_all_to_all_single(shape, dtype),
        )


def one_sided_all_to_all_single(m):
    """Everything goes to the last rank."""
    rows = 3
    goes = [rows if other == m.size - 1 else 0 for other in range(m.size)]
    comes = [rows if m.rank == m.size - 1 else 0] * m.size
    out = empty(sum(comes), 2)
    dist.all_to_all_single(out, m.given((rows, 2)), comes, goes, group=m.group)
    return [out]


case("all_to_all_single to one rank", one_sided_all_to_all_single)


def unequal_all_to_all(m):
    given = [m.given((m.rank + other,), salt=other) for other in range(m.size)]
    outs = like(given)
    dist.all_to_all(outs, given, group=m.group)
    return outs


case(
    "all_to_all of unequal tensors", unequal_all_to_all,
    lambda m: [
        m.given((m.rank + other,), salt=m.rank, rank=other) for other in range(m.size)
    ],
)  # fmt: skip


def strided(shape=(4, 3)):
    return empty(*shape[::-1]).t()


def not_contiguous_broadcast(m):
    tensor = strided()
    tensor.copy_(m.given((4, 3)))
    dist.broadcast(tensor, m.ranks[0], group=m.group)
    return [tensor]


def not_contiguous_all_reduce(m):
    tensor = strided()
    tensor.copy_(m.given((4, 3)))
    dist.all_reduce(tensor, group=m.group)
    return [tensor]


def not_contiguous_lists(what):
    def run(m):
        given = strided()
        given.copy_(m.given((4, 3)))
        outs = [strided() for _ in range(m.size)]
        if what == "all_gather":
            dist.all_gather(outs, given, group=m.group)
        elif what == "gather":
            dist.gather(given, m.only(0, outs), m.ranks[0], group=m.group)
            return outs if m.rank == 0 else []
        elif what == "scatter":
            for rank, each in enumerate(outs):
                each.copy_(m.given((4, 3), rank=rank))
            dist.scatter(given, m.only(0, outs), m.ranks[0], group=m.group)
            return [given]
        elif what == "reduce_scatter":
            for rank, each in enumerate(outs):
                each.copy_(m.given((4, 3), salt=rank))
            dist.reduce_scatter(given, outs, group=m.group)
            return [given]
        else:
            lists = [[strided(), strided()] for _ in range(m.size)]
            dist.all_gather_coalesced(lists, [given, 2 * given], group=m.group)
            return [each for one in lists for each in one]
        return outs

    return run


def right_lists(what):
    def run(m):
        parts = m.of_all((4, 3))
        return {
            "all_gather": parts,
            "gather": m.only(0, parts) or [],
            "scatter": [parts[m.rank]],
            "reduce_scatter": [sum(m.of_all((4, 3), salt=m.rank))],
            "all_gather_coalesced": [each for part in parts for each in (part, 2 * part)],
        }[what]

    return run


case("broadcast, not contiguous", not_contiguous_broadcast, lambda m: [m.given((4, 3), rank=0)])
case("all_reduce, not contiguous", not_contiguous_all_reduce, lambda m: [sum(m.of_all((4, 3)))])
for name in ("all_gather", "gather", "scatter", "reduce_scatter", "all_gather_coalesced"):
    case(f"{name}, not contiguous", not_contiguous_lists(name), right_lists(name))


# -- messages and objects


def batch(m):
    if m.size == 1:
        return []
    outs = [empty(5), empty(2, 3)]
    after, before = (m.rank + 1) % m.size, (m.rank - 1) % m.size
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.irecv, outs[0], group=m.group, group_peer=before, tag=1),
            dist.P2POp(dist.isend, m.given((5,)), group=m.group, group_peer=after, tag=1),
            dist.P2POp(dist.isend, m.given((2, 3)), group=m.group, group_peer=after, tag=2),
            dist.P2POp(dist.irecv, outs[1], group=m.group, group_peer=before, tag=2),
        ]
    )
    for work in works:
        work.wait()
    return outs


def from_any_source(m):
    """Every rank sends to the first; who sent is known."""
    dist.barrier(group=m.group)
    if m.rank:
        dist.send(m.given((6,)), group=m.group, group_dst=0, tag=9)
        return []
    found = {}
    for turn in range(m.size - 1):
        out = empty(6)
        if turn % 2:
            source = dist.recv(out, group=m.group, tag=9)
        else:
            work = dist.irecv(out, group=m.group, tag=9)
            work.wait()
            source = m.ranks[work._source_rank()]
        found[source] = out
    return [found[source] for source in sorted(found)] + sorted(found)


def objects(m):
    mine, last = {"rank": m.rank, "text": "x" * 50 * m.rank}, m.size - 1
    every = [None] * m.size
    dist.all_gather_object(every, mine, group=m.group)
    there = m.only(last, [None] * m.size)
    dist.gather_object(mine, there, group=m.group, group_dst=last)
    told = [mine, ("a", m.rank)]
    dist.broadcast_object_list(told, group=m.group, group_src=last)
    got = [None]
    given = m.only(last, [("for", each) for each in range(m.size)])
    dist.scatter_object_list(got, given, group=m.group, group_src=last)
    heard = [None, None]
    if m.size > 1 and m.rank == 0:
        dist.send_object_list(["hello", 3], group=m.group, group_dst=last)
    elif m.size > 1 and m.rank == last:
        dist.recv_object_list(heard, group=m.group, group_src=0)
    return [every, there, told, got, heard]


def barriers(m):
    dist.barrier(group=m.group)
    dist.barrier(group=m.group, async_op=True).wait()
    m.group.barrier().wait()
    m.group.barrier(options(dist.BarrierOptions, timeout=timedelta(seconds=30))).wait()
    m.group.barrier(timeout=timedelta(seconds=30)).wait()
    m.group.barrier(timedelta(seconds=30)).wait()
    m.group.monitored_barrier(timedelta(seconds=30))
    m.group.monitored_barrier(timedelta(seconds=30), True)
    return []


case("batch_isend_irecv", batch)
case("from any source", from_any_source)
case("objects", objects)
case("barriers", barriers)


# -- coalescing


def coalescing(what, how):
    def run(m):
        device = torch.device("cpu") if how.get("device") else None
        outs = [empty(3), empty(4)]
        with dist._coalescing_manager(
            m.group, device=device, async_ops=how.get("async_ops", False)
        ) as manager:
            if what == "all_reduce":
                for out in outs:
                    out.copy_(m.given(out.shape))
                    dist.all_reduce(out, group=m.group)
            elif what == "all_gather_single":
                outs = [empty(3 * m.size), empty(4 * m.size)]
                for count, out in zip((3, 4), outs, strict=True):
                    dist.all_gather_into_tensor(out, m.given((count,)), group=m.group)
            elif what == "reduce_scatter_single":
                for out in outs:
                    dist.reduce_scatter_tensor(out, m.given((out.numel() * m.size,)), group=m.group)
        if how.get("async_ops"):
            manager.wait()
        return outs

    return run


def right_coalescing(what):
    def run(m):
        if what == "all_reduce":
            return [sum(m.of_all((count,))) for count in (3, 4)]
        if what == "all_gather_single":
            return [torch.cat(m.of_all((count,))) for count in (3, 4)]
        return [sum(m.of_all((count * m.size,)))[count * m.rank :][:count] for count in (3, 4)]

    return run


for name in ("all_reduce", "all_gather_single", "reduce_scatter_single"):
    for how in ({}, {"async_ops": True}, {"device": True}, {"device": True, "async_ops": True}):
        case(
            f"coalesced {name} {' '.join(how)}".strip(), coalescing(name, how),
            right_coalescing(name), "device" not in how,  # torch leaves its group in disorder
        )  # fmt: skip


# -- the interface itself


def interface(what):
    """A method of the group, by its own parameters."""

    def run(m):
        g, n = m.group, m.size
        t = m.given((4,))
        if what == "broadcast":
            g.broadcast([t], options(dist.BroadcastOptions, rootRank=n - 1, rootTensor=0)).wait()
            return [t]
        if what == "broadcast by its root":
            g.broadcast(t, n - 1).wait()
            return [t]
        if what == "allreduce":
            g.allreduce([t], options(dist.AllreduceOptions, reduceOp=OPS.MAX)).wait()
            return [t]
        if what == "allreduce by its operation":
            g.allreduce(t, OPS.MIN).wait()
            return [t]
        if what == "allreduce of a list by its operation":
            g.allreduce([t], op=OPS.MIN, timeout=timedelta(seconds=30)).wait()
            return [t]
        if what == "allreduce without options":
            g.allreduce([t]).wait()
            return [t]
        if what == "allreduce_coalesced":
            kind = dist.AllreduceCoalescedOptions
            both = [t, m.given((2, 2), salt=1)]
            g.allreduce_coalesced(both, options(kind, reduceOp=OPS.SUM)).wait()
            return both
        if what == "reduce":
            g.reduce([t], options(dist.ReduceOptions, reduceOp=OPS.SUM, rootRank=n - 1)).wait()
            return m.only(n - 1, [t]) or []
        if what == "reduce by its root":
            g.reduce(t, n - 1, OPS.SUM).wait()
            return m.only(n - 1, [t]) or []
        if what == "allgather":
            outs = [empty(4) for _ in range(n)]
            g.allgather([outs], [t]).wait()
            return outs
        if what == "allgather of a tensor":
            outs = [empty(4) for _ in range(n)]
            g.allgather(outs, t).wait()
            return outs
        if what == "allgather_coalesced":
            outs = [[empty(4), empty(2)] for _ in range(n)]
            g.allgather_coalesced(outs, [t, m.given((2,), salt=1)]).wait()
            return [each for one in outs for each in one]
        if what in ("_allgather_base", "all_gather_single"):
            out = empty(4 * n)
            getattr(g, what)(out, t).wait()
            return [out]
        if what in ("allgather_into_tensor_coalesced", "all_gather_single_coalesced"):
            outs = [empty(4 * n), empty(3 * n), empty(0)]
            getattr(g, what)(outs, [t, m.given((3,)), empty(0)]).wait()
            return outs
        if what == "gather":
            outs = [empty(4) for _ in range(n)]
            g.gather(
                [outs] if m.rank == n - 1 else [], [t], options(dist.GatherOptions, rootRank=n - 1)
            ).wait()
            return m.only(n - 1, outs) or []
        if what == "gather by its root":
            outs = [empty(4) for _ in range(n)]
            g.gather(outs if m.rank == n - 1 else [], t, n - 1).wait()
            return m.only(n - 1, outs) or []
        if what == "scatter":
            given = m.of_all((4,))
            g.scatter(
                [t], [given] if m.rank == n - 1 else [],
                options(dist.ScatterOptions, rootRank=n - 1),
            ).wait()  # fmt: skip
            return [t]
        if what == "scatter by its root":
            g.scatter(t, m.of_all((4,)) if m.rank == n - 1 else [], n - 1).wait()
            return [t]
        parts = [m.given((4,), salt=other) for other in range(n)]
        if what == "reduce_scatter":
            g.reduce_scatter([t], [parts]).wait()
            return [t]
        if what == "reduce_scatter of a list":
            g.reduce_scatter(t, parts).wait()
            return [t]
        if what in ("_reduce_scatter_base", "reduce_scatter_single"):
            getattr(g, what)(t, torch.cat(parts)).wait()
            return [t]
        if what in ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"):
            outs = [t, empty(2)]
            getattr(g, what)(outs, [torch.cat(parts), m.given((2 * n,))]).wait()
            return outs
        if what in ("alltoall_base", "all_to_all_single"):
            outs = [empty(4 * n), empty(4 * n)]
            getattr(g, what)(outs[0], torch.cat(parts), [], []).wait()
            parts = torch.cat(parts)
            getattr(g, what)(outs[1], parts, [4] * n, [], timedelta(seconds=30)).wait()
            return outs
        if what == "alltoall":
            outs = [empty(4) for _ in range(n)]
            g.alltoall(outs, parts).wait()
            return outs
        if what == "send, recv and recv_anysource":
            if n == 1:
                return []
            outs = [empty(4), empty(4)]
            works = [g.send([t], (m.rank + 1) % n, tag) for tag in (21, 22)]
            g.recv([outs[0]], (m.rank - 1) % n, 21).wait()
            g.recv_anysource([outs[1]], 22).wait()
            for work in works:
                work.wait()
            return outs
        raise AssertionError(what)

    return run


def right_interface(what):
    def run(m):
        n = m.size
        given = m.of_all((4,))
        parts = [[m.given((4,), salt=o, rank=r) for o in range(n)] for r in range(n)]
        return {
            "broadcast by its root": lambda: [given[-1]],
            "all_gather_single_coalesced": lambda: [
                torch.cat(given), torch.cat(m.of_all((3,))), empty(0)
            ],
            "reduce_scatter_single_coalesced": lambda: [
                sum(parts[r][m.rank] for r in range(n)),
                sum(m.of_all((2 * n,)))[2 * m.rank :][:2],
            ],
            "alltoall": lambda: [parts[r][m.rank] for r in range(n)],
            "all_to_all_single": lambda: [
                torch.cat([parts[r][m.rank] for r in range(n)]) for _ in range(2)
            ],
        }[what]()  # fmt: skip

    return run


for name in (
    "broadcast", "broadcast by its root", "allreduce", "allreduce by its operation",
    "allreduce of a list by its operation", "allreduce without options", "allreduce_coalesced", "reduce", "reduce by its root", "allgather",
    "allgather of a tensor", "allgather_coalesced", "_allgather_base", "all_gather_single",
    "gather", "gather by its root", "scatter", "scatter by its root", "reduce_scatter",
    "reduce_scatter of a list", "_reduce_scatter_base", "reduce_scatter_single",
    "send, recv and recv_anysource",
):  # fmt: skip
    case(f"method {name}", interface(name))
for name, alias in (
    ("allgather_into_tensor_coalesced", "all_gather_single_coalesced"),
    ("all_gather_single_coalesced", "all_gather_single_coalesced"),
    ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
    ("reduce_scatter_single_coalesced", "reduce_scatter_single_coalesced"),
    ("alltoall", "alltoall"), ("alltoall_base", "all_to_all_single"),
    ("all_to_all_single", "all_to_all_single"),
):  # fmt: skip
    case(f"method {name}", interface(name), right_interface(alias))


# -- functional and differentiable collectives


def by_functions(name, call, right=None):
    case(f"functional {name}", lambda m: [functional.wait_tensor(each) for each in call(m)], right)


by_functions("all_reduce", lambda m: [functional.all_reduce(m.given(), "sum", m.group)])
by_functions("all_reduce max", lambda m: [functional.all_reduce(m.given(), "max", m.group)])
by_functions("broadcast", lambda m: [functional.broadcast(m.given(), m.size - 1, m.group)])
by_functions(
    "all_reduce_coalesced",
    lambda m: functional.all_reduce_coalesced([m.given(), m.given((2,))], "sum", m.group),
)
for axis in (0, 1):
    by_functions(
        f"all_gather_tensor {axis}",
        lambda m, a=axis: [functional.all_gather_tensor(m.given((2, 3)), a, m.group)],
        lambda m, a=axis: [torch.cat(m.of_all((2, 3)), a)],
    )
    by_functions(
        f"reduce_scatter_tensor {axis}",
        lambda m, a=axis: [
            functional.reduce_scatter_tensor(m.given((2 * m.size,) * 2), "sum", a, m.group)
        ],
        lambda m, a=axis: [sum(m.of_all((2 * m.size,) * 2)).chunk(m.size, a)[m.rank]],
    )
by_functions(
    "all_gather_into_tensor_coalesced",
    lambda m: functional.all_gather_into_tensor_coalesced([m.given(), m.given((2, 2))], m.group),
    lambda m: [torch.cat(m.of_all()), torch.cat(m.of_all((2, 2)))],
)
by_functions(
    "reduce_scatter_tensor_coalesced",
    lambda m: functional.reduce_scatter_tensor_coalesced(
        [m.given((2 * m.size,)), m.given((m.size, 3))], "sum", [0, 0], m.group
    ),
    lambda m: [
        sum(m.of_all((2 * m.size,))).chunk(m.size)[m.rank],
        sum(m.of_all((m.size, 3))).chunk(m.size)[m.rank],
    ],
)
by_functions(
    "all_to_all_single",
    lambda m: [functional.all_to_all_single(m.given((2 * m.size,)), None, None, m.group)],
)
by_functions(
    "all_to_all_single of unequal parts",
    lambda m: [
        functional.all_to_all_single(
            m.given((sum((m.rank + o) % 3 for o in range(m.size)), 2)),
            [(m.rank + o) % 3 for o in range(m.size)], [(m.rank + o) % 3 for o in range(m.size)],
            m.group,
        )
    ],
)  # fmt: skip


def with_gradient(name, call):
    def run(m):
        if m.ranks != [*range(m.size)]:  # there torch takes ranks of a group for those of the run
            return []
        given = m.given((2, 3)).requires_grad_()
        found = call(m, given)
        found = [found] if isinstance(found, torch.Tensor) else list(found)
        sum((each * (1 + m.rank)).sum() for each in found).backward()
        return [*(each.detach() for each in found), given.grad]

    case(f"differentiable {name}", run)


with_gradient("all_reduce", lambda m, t: differentiable.all_reduce(t, group=m.group))
with_gradient("broadcast", lambda m, t: differentiable.broadcast(t, m.ranks[0], m.group))
with_gradient("all_gather", lambda m, t: differentiable.all_gather(t, m.group))


# -- comparison


def outcome(run, member):
    """What came of a call, or the error that it raised."""
    try:
        return run(member), None
    except Exception as error:
        return [], error


def same(found, right):
    if isinstance(right, torch.Tensor):
        return (
            isinstance(found, torch.Tensor) and found.dtype == right.dtype
            and found.shape == right.shape and torch.equal(found, right)
        )  # fmt: skip
    if isinstance(right, (list, tuple)):
        return len(found) == len(right) and all(map(same, found, right))
    return found == right


def compare(group, gloo, only=""):
    """Compare all cases; return how many with Gloo, how many with arithmetic."""
    mine, theirs = Member(group), Member(gloo)
    counts, wrong = [0, 0], []
    for name, (run, right, asks_gloo) in CASES.items():
        if only not in name:
            continue
        found, failure = outcome(run, mine)
        beside, lack = outcome(run, theirs) if asks_gloo else ([], right)
        if failure is not None:
            wrong.append(f"{name}: {failure!r}, by Gloo {lack!r}")
        elif lack is None:
            counts[0] += 1
            if not same(found, beside):
                wrong.append(f"{name}: {found}, by Gloo {beside}")
        if right is not None:
            counts[1] += 1
            if failure is None and not same(found, right(mine)):
                wrong.append(f"{name}: {found}, should be {right(mine)}")
        elif lack is not None and failure is None:
            wrong.append(f"{name}: Gloo says {lack!r}, and nothing tells what is right")
    return counts, wrong


def check_refusals(m):
    """What makes no sense is a ValueError on every rank, which says what is meant."""
    g, n, t = m.group, m.size, m.given((4,))
    for call, said in (
        (lambda: dist.all_gather_coalesced([[t]] * (n + 1), [t], group=g), "lists of outputs for"),
        (lambda: dist.all_gather_coalesced([[t, t]] * n, [t], group=g), "for rank 0 has 2 tensors"),
        (lambda: dist.all_gather_coalesced([[t.int()]] * n, [t], group=g), "have one type"),
        (lambda: dist.all_gather_coalesced([[t[:3]]] * n, [t], group=g), "has 3 elements"),
        (lambda: g.broadcast([t, t]), "a list has 2"),
        (lambda: g.broadcast([]), "a list has 0"),
        (lambda: g.allgather([[t] * n] * 2, [t, t]), "a list has 2"),
        (lambda: g.reduce_scatter([t, t], [[t] * n] * 2), "a list has 2"),
        (lambda: g.broadcast(t, n), f"root {n} of a group"),
        (lambda: g.all_gather_single_coalesced([torch.ones(4 * n)], [t, t]), "1 outputs for 2"),
        (lambda: g.reduce_scatter_single_coalesced([t, t], [torch.ones(4 * n)]), "2 outputs for 1"),
        (lambda: g.allreduce_coalesced([]), "there is no tensor"),
    ):
        try:
            call()
        except ValueError as error:
            assert said in str(error), error
        else:
            raise AssertionError(said)


def main():
    import sys

    warnings.simplefilter("ignore")
    torch.distributed.distributed_c10d.logger.setLevel("CRITICAL")
    dist.init_process_group(timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    check_refusals(Member(dist.group.WORLD))
    some = [size - 1, *range(1, size - 1)] if size > 2 else [0]
    for ranks in (None, some):
        pair = [
            dist.new_group(ranks, backend=name, timeout=timedelta(seconds=60))
            for name in (None, "gloo")
        ]
        if ranks is None or rank in ranks:
            (beside, alone), wrong = compare(*pair, only)
            for line in wrong:
                print("WRONG:", line)
            print(f"{len(wrong)} wrong; {beside} as by Gloo, {alone} as computed")
            assert not wrong, len(wrong)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
