"""MSCCL's algorithms (``.xml``), as its compiler writes them and NCCL's executor runs them.

``<algo>`` has a ``<gpu>`` for each rank, this a ``<tb>`` (thread block) for each peer, and this a
``<step>`` for each thing to do, one after the other::

    <tb id="0" send="1" recv="2" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1"
            deps="-1" hasdep="0"/>

Types: ``s`` sends, ``r`` receives, ``cpy`` copies, ``re`` reduces, ``nop`` waits; ``rcs``, ``rrc``,
``rrs``, ``rrcs`` receive, reduce or copy, and send on. ``depid`` and ``deps`` name a thread block
of the rank and the step of it that must be done before. What one thread block sends on a channel
comes to the thread block of the peer that receives from it on that channel, in order. A chunk is
the ``nchunksperloop``-th part of the larger of a rank's input and output (``--buffer``). Copies and
reductions take no time, and a message is sent on when all of it has come.

Before anything is run, the steps are carried out on names of chunks in place of bytes: what does
not do the collective that ``coll`` names is refused.

Source: microsoft/msccl-tools, ``msccl/language/ir.py``; Cowan et al., "MSCCLang", ASPLOS 2023,
section 4.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from weft.agents.collectives.flow_graph import MAX_TASKS
from weft.base.errors import InputError, refuse
from weft.base.units import format_size, shown
from weft.experiments.families.flows.file_format import FileFlows, FileFormat, FileReading
from weft.experiments.families.flows.formats.chunks import BUFFERS, Chunks, Step
from weft.experiments.families.flows.traces import Computation, Node, Receive, Send, Traces

MAX_NUMBER = 1 << 20
TYPES = {
    "s": "send", "r": "receive", "cpy": "copy", "re": "reduce", "nop": "nothing",
    "rcs": "receive, copy, send", "rrc": "receive, reduce, copy",
    "rrs": "receive, reduce, send", "rrcs": "receive, reduce, copy, send",
}  # fmt: skip
"""The types of steps, and what each does."""


class Msccl(FileFormat):
    """MSCCL's algorithms."""

    name = ".xml"
    position = 5
    most_bytes = 64 << 20
    about = "an algorithm of MSCCL"
    sized = True

    def read(self, path: Path, reading: FileReading) -> FileFlows:
        return parse(self.text(path), str(path), reading.size_bytes)


FORMAT = Msccl()


@dataclass(frozen=True)
class _Block:
    """A thread block."""

    rank: int
    number: int
    send: int
    receive: int
    channel: int
    steps: tuple[Step, ...]


def parse(text: str, name: str, size_bytes: int) -> FileFlows:
    """Return the flows of an algorithm.

    Args:
        size_bytes: the larger of a rank's input and output.

    Raises:
        InputError: it makes no sense, or does not do what it says; the message names the place.
    """
    refuse("<!" in text.replace("<!--", ""), f"{name}: a document type is not read")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"{name}: no XML: {error}") from None
    if root.tag != "algo":
        raise InputError(f"{name}: it is <{root.tag[:60]}>: an algorithm of MSCCL is <algo>")
    ranks = _number(root, "ngpus", f"{name}: <algo>", least=1)
    blocks = [*_blocks(root, name, ranks)]
    _check_channels(blocks, name)
    symbolic = Chunks(root, name, ranks)
    chunks = _number(root, "nchunksperloop", f"{name}: <algo>", least=1, default=symbolic.most)
    if size_bytes % chunks:
        raise InputError(
            f"{name}: {format_size(size_bytes)} are no whole number of bytes in each of "
            f"{chunks} chunks: choose a multiple of {chunks} (--buffer)"
        )
    notes = symbolic.run([block.steps for block in blocks])
    graph = Traces(_nodes(blocks, ranks, size_bytes // chunks), "").build()
    if not graph.flows:
        raise InputError(f"{name}: nothing is sent")
    try:
        return FileFlows(graph.build(), notes)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _number(
    element: ElementTree.Element,
    key: str,
    where: str,
    *,
    least: int = 0,
    default: int | None = None,
) -> int:
    """Return an attribute that must be a whole number from ``least`` on. Raises InputError."""
    text = element.get(key)
    if text is None and default is not None:
        return default
    try:
        value = int(text or "")
    except ValueError:
        raise InputError(f"{where}: {key} is {shown(text)}: a whole number is needed") from None
    if not least <= value <= MAX_NUMBER:
        raise InputError(f"{where}: {key} is {value}: {least} to {MAX_NUMBER} are valid")
    return value


def _blocks(root: ElementTree.Element, name: str, ranks: int) -> Iterator[_Block]:
    """Yield the thread blocks of all ranks, in order."""
    found: set[int] = set()
    for gpu in root:
        where = f"{name}: <gpu>"
        rank = _number(gpu, "id", where)
        if gpu.tag != "gpu" or rank >= ranks or rank in found:
            raise InputError(f"{where} {rank}: <gpu> is there once for each of 0 to {ranks - 1}")
        found.add(rank)
        numbers: set[int] = set()
        for element in gpu:
            number = _number(element, "id", f"{name}: gpu {rank}: <tb>")
            where = f"{name}: gpu {rank}: tb {number}"
            refuse(number in numbers, f"{where}: it is there already")
            numbers.add(number)
            peers = [_number(element, key, where, least=-1) for key in ("send", "recv")]
            for peer in peers:
                refuse(
                    peer >= ranks or peer == rank,
                    f"{where}: peer {peer} is none of the other ranks, 0 to {ranks - 1}",
                )
            channel = _number(element, "chan", where, least=-1)
            steps = tuple(
                _step(step, index, (rank, number, channel), peers, where)
                for index, step in enumerate(element)
            )
            yield _Block(rank, number, peers[0], peers[1], channel, steps)
    if len(found) != ranks:
        raise InputError(f"{name}: it has {len(found)} <gpu>, and ngpus is {ranks}")


def _step(
    element: ElementTree.Element, index: int, at: tuple[int, int, int], peers: Sequence[int],
    place: str,
) -> Step:  # fmt: skip
    rank, block, channel = at
    where = f"{place}: step {index}"
    key = "s" if element.tag == "step" else "step"
    if element.tag not in ("step", "op") or _number(element, key, where) != index:
        raise InputError(f"{where}: <{element.tag[:60]}> {shown(element.get(key))}: steps are "
                         "numbered from 0, in order")  # fmt: skip
    kind = element.get("type", "")
    if kind not in TYPES:
        known = ", ".join(f"{each} ({what})" for each, what in TYPES.items())
        raise InputError(f"{where}: type {shown(kind)} is none of {known}")
    for peer, what, does in ((peers[0], "send", "s"), (peers[1], "recv", "r")):
        needs = does in (kind[0], kind[-1]) and kind != "re"
        refuse(needs and peer < 0, f"{where}: it is {kind!r}, and its tb has no {what}")
    ends: dict[str, tuple[str, int]] = {}
    for end in ("src", "dst"):
        # Newer files have the one end that is this rank's.
        buffer = element.get(f"{end}buf", element.get("buf", "i"))
        offset = _number(element, f"{end}off" if f"{end}off" in element.attrib else "off",
                         where, least=-1, default=-1)  # fmt: skip
        if buffer not in BUFFERS:
            raise InputError(f"{where}: {end}buf {shown(buffer)} is none of {', '.join(BUFFERS)}")
        ends[end] = buffer, offset
    count = _number(element, "cnt", where, default=1)
    waits = _number(element, "depid", where, least=-1, default=-1)
    after = (waits, _number(element, "deps", where, default=0)) if waits >= 0 else None
    return Step(
        rank, block, index, where, kind, ends["src"], ends["dst"], count, after,
        peers[0], peers[1], channel,
    )  # fmt: skip


def _check_channels(blocks: Sequence[_Block], name: str) -> None:
    """Raise InputError if two thread blocks of a rank send to, or receive from, the same peer on
    the same channel: which of them gets what would be open."""
    for key in ("send", "receive"):
        there: dict[tuple[int, int, int], _Block] = {}
        for block in blocks:
            peer = getattr(block, key)
            other = there.setdefault((block.rank, peer, block.channel), block)
            refuse(
                peer >= 0 and other is not block,
                f"{name}: gpu {block.rank}: tb {other.number} and tb {block.number} both {key} "
                f"with peer {peer} on channel {block.channel}",
            )


def _nodes(blocks: Sequence[_Block], ranks: int, chunk_bytes: int) -> Sequence[Mapping[int, Node]]:
    """Return the nodes of all ranks: of each step what it receives, and then what it sends."""
    firsts: dict[tuple[int, int], int] = {}
    counts = [0] * ranks
    for block in blocks:
        firsts[block.rank, block.number] = counts[block.rank]
        counts[block.rank] += 2 * len(block.steps)
    if sum(counts) // 2 > MAX_TASKS:
        raise InputError(f"the algorithm has {sum(counts) // 2} steps: at most {MAX_TASKS} are run")
    found: list[dict[int, Node]] = [{} for _ in range(ranks)]
    for block in blocks:
        for index, step in enumerate(block.steps):
            number = firsts[block.rank, block.number] + 2 * index
            before = [number - 1] if index else []
            if step.after is not None:
                other, place = step.after
                before.append(firsts[block.rank, other] + 2 * place + 1)
            tag, size_bytes = block.channel, step.count * chunk_bytes
            come = Receive(block.receive, tag) if step.receives else Computation()
            gone = Send(block.send, size_bytes, tag) if step.sends else Computation()
            for node in (
                Node(block.rank, number, step.where, come, tuple(dict.fromkeys(before))),
                Node(block.rank, number + 1, step.where, gone, (number,)),
            ):
                found[block.rank][node.number] = node
    return found
