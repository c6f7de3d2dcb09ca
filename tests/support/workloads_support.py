"""Files of flows: what their tests share with others."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

from weft.experiments.families.flows.formats.chakra_schema import MESSAGES


def node(number: int, kind: int, after: list[int] | None = None, **attributes: Any) -> Any:
    """A node as Chakra's own tools write them: numbers as int64 or int32."""
    micros = attributes.pop("micros", 0)
    found = MESSAGES["Node"](id=number, name=f"n{number}", type=kind, duration_micros=micros)
    found.data_deps.extend(after or [])
    found.ctrl_deps.extend(attributes.pop("control", []))
    for name, value in attributes.items():
        attribute = found.attr.add(name=name)
        if isinstance(value, str):
            attribute.string_val = value
        elif name in ("comm_src", "comm_dst", "comm_tag"):
            attribute.int32_val = value
        else:
            attribute.int64_val = value
    return found


def trace(*nodes: Any) -> bytes:
    return encode(MESSAGES["GlobalMetadata"](version="0.0.4"), *nodes)


MATRIX = """\
# an incast of two, then a flow that waits for both
Nodes 4
Connections 4
Triggers 2
0->1 id 1 start 0 size 1000 recv_done_trigger 7
2->1 id 2 start 2500000.0 size 3000 recv_done_trigger 7 send_done_trigger 9

1->3 id 3 trigger 7 size 500
3->0 id 4 trigger 9 size 1  # the smallest
trigger id 7 barrier count 2
trigger id 9 oneshot
"""


def encode(*messages: Any) -> bytes:
    """A trace of messages, as `read_nodes` reads it."""
    parts = []
    for message in messages:
        data = message.SerializeToString()
        length = len(data)
        while length >= 0x80:
            parts.append(bytes([length & 0x7F | 0x80]))
            length >>= 7
        parts.append(bytes([length]) + data)
    return b"".join(parts)


GOAL = """\
num_ranks 3  // two messages, and one that waits for both
rank 0 {
  l1: calc 500
  l2: send 1000b to 1 tag 7
  l2 requires l1
  l3: calc 200 cpu 1
  l4: recv 10b from 2 tag 1
  l3 irequires l4
}
rank 1 { /* it hears
  of both */
  a: recv 1000b from 0 tag 7
  b: recv 70000b from 2
  c: send 500b to 2 tag 9
  c requires a
  c requires b
}
rank 2 {
  send 70000b to 1 nic 0
  x: recv 500b from 1 tag 9
  y: send 0b to 0 tag 1
  y requires x
}
"""

_GOAL_OPERATION = struct.Struct("<IBIQIBBIIII")


PackedOperation = tuple[int, int, int, int, list[int], list[int]]


def packed_goal(ranks: list[list[PackedOperation]]) -> bytes:
    """A packed GOAL schedule: of each rank's operations the kind, peer, amount and tag, and which
    others wait until it is done, and until it has begun."""
    parts = []
    for operations in ranks:
        waits = Counter(each for one in operations for each in (*one[4], *one[5]))
        roots = [number for number in range(len(operations)) if not waits[number]]
        behind: list[int] = []
        rows = b""
        for number, (kind, peer, amount, tag, done, begun) in enumerate(operations):
            rows += _GOAL_OPERATION.pack(
                waits[number], kind, peer, amount, tag, 0, 0, len(done), len(behind), len(begun),
                len(behind) + len(done),
            )  # fmt: skip
            behind += [*done, *begun]
        numbers = [len(operations), len(roots), *roots]
        parts.append(
            struct.pack(f"<{len(numbers)}I", *numbers) + rows
            + struct.pack(f"<{len(behind)}I", *behind)
        )  # fmt: skip
    start = 6 + 16 * len(ranks)
    table = b""
    for part in parts:
        table += struct.pack("<QQ", start, start + len(part))
        start += len(part)
    return struct.pack("<QIBB", 4223, len(ranks), 0, 0) + table + b"".join(parts)


PACKED_GOAL = packed_goal(
    [
        [(3, 0, 500, 0, [1], []), (1, 1, 1000, 7, [], []), (2, 1, 300, 1, [], [])],
        [(2, 0, 1000, 7, [1], []), (1, 0, 300, 1, [], [])],
        [],
    ]
)


def msccl_ring(ranks: int, coll: str = "allgather", chunks: int = 1) -> str:
    """A ring Allgather, not in place, as MSCCL's compiler writes one."""
    gpus = []
    for rank in range(ranks):
        ahead, back = (rank + 1) % ranks, (rank - 1) % ranks
        steps = [("cpy", "i", 0, "o", rank)]
        steps += [("s", "i", 0, "o", rank)]
        for step in range(1, ranks):
            kind = "r" if step == ranks - 1 else "rcs"
            chunk = (rank - step) % ranks
            steps.append((kind, "o", chunk, "o", chunk))
        body = "".join(
            f'<step s="{number}" type="{kind}" srcbuf="{source}" srcoff="{at * chunks}" '
            f'dstbuf="{end}" dstoff="{to * chunks}" cnt="{chunks}" depid="-1" deps="-1" '
            'hasdep="0"/>\n'
            for number, (kind, source, at, end, to) in enumerate(steps)
        )
        gpus.append(
            f'<gpu id="{rank}" i_chunks="{chunks}" o_chunks="{ranks * chunks}" s_chunks="0">\n'
            f'<tb id="0" send="{ahead}" recv="{back}" chan="0">\n{body}</tb>\n</gpu>\n'
        )
    return (
        f'<algo name="ring" proto="Simple" nchannels="1" nchunksperloop="{ranks * chunks}" '
        f'ngpus="{ranks}" coll="{coll}" inplace="0" outofplace="1" minBytes="0" maxBytes="0">\n'
        f"{''.join(gpus)}</algo>\n"
    )


SIMAI = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 8 \
checkpoints: 1 0 checkpoint_initiates: 1 1
2
attention -1 100 ALLREDUCE 1000 200 NONE 0 300 ALLGATHER_DP_EP 4000 7
mlp -1 10 ALLTOALL_EP 1000 20 REDUCESCATTER 80 30 ALLREDUCE 4000 7
"""

FILES: dict[str, str | bytes] = {
    ".cm": MATRIX,
    ".tm": MATRIX,
    ".goal": GOAL,
    ".bin": PACKED_GOAL,
    ".xml": msccl_ring(4),
    ".txt": SIMAI,
}
"""A file of each form that is one file, by its ending."""
