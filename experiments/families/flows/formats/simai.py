"""SimAI's workloads (``.txt``), as AICB writes them: a training step, layer by layer, as all ranks
do it.

A first line names the parallelism and its sizes, a second how many layers there are, and each layer
has a line of its own::

    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 8 ga: 1
        all_gpus: 32 checkpoints: 0 checkpoint_initiates: 0
    1
    mlp -1 556000 ALLREDUCE 16777216 1 NONE 0 1 ALLGATHER_DP_EP 2048 100

that is: name, a dependency (not heeded: layers are one after the other), and for the forward pass,
the gradients of inputs and those of weights: nanoseconds of computation, a collective, its bytes;
last nanoseconds of the update. All forward passes are done in order; then, from the last layer to
the first, the two gradients. Collectives of weights' gradients are not waited for; all others are.
Sizes are whole: of an Allgather, what each rank has in the end. With ``checkpoints`` the forward
passes of layers are done again before their gradients.

Which ranks share a collective: ``tp`` next to each other share those of the forward pass and of
inputs' gradients; those with the same place in theirs, ``tp * pp`` apart, share those of weights'
gradients. With ``_EP`` it is the same place in ``ep`` neighbouring groups, with ``_DP_EP`` the same
place in every ``ep``-th.

Source: aliyun/SimAI, ``workload/Workload.cc`` and ``system/MockNcclGroup.cc``; SimAI, NSDI 2025.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.agents.collectives.flow_graph import MAX_TASKS
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.families.flows.file_format import FileFlows, FileFormat, FileReading
from weft.experiments.families.flows.traces import Computation, Node, Part, Traces

MAX_NUMBER = 1 << 50
PARALLELISMS = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO")
"""Those that are read. ``MICRO`` is the collectives of weights' gradients alone, all at once."""
COLLECTIVES = {
    "ALLREDUCE": "allreduce", "ALLGATHER": "allgather", "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "alltoall",
}  # fmt: skip
GROUPS = {"": "", "_EP": "ep", "_DP_EP": "dp_ep"}
"""The endings of collectives' names, and whose they are; without one, those of tensor or data
parallelism."""
_SIZES = ("model_parallel_NPU_group", "ep", "pp", "vpp", "ga", "all_gpus", "pp_comm")
_LISTS = ("checkpoints", "checkpoint_initiates")
_WHOLE = re.compile(r"-?\d{1,16}", re.ASCII)
COLUMNS = 12


class SimAi(FileFormat):
    """SimAI's workloads."""

    name = ".txt"
    position = 6
    most_bytes = 64 << 20
    about = "a workload of SimAI"

    def has_collectives(self, path: Path) -> bool:
        return True

    def read(self, path: Path, reading: FileReading) -> FileFlows:
        return parse(self.text(path), str(path), reading.algorithm)


FORMAT = SimAi()


@dataclass(frozen=True)
class Pass:
    """A third of a layer: what is computed, and then which collective is done."""

    compute_ns: int
    collective: str
    """Empty: none."""
    group: str
    """``tp``, ``dp``, ``ep`` or ``dp_ep``."""
    size_bytes: int


@dataclass(frozen=True)
class Layer:
    """A line of the file."""

    where: str
    forward: Pass
    inputs: Pass
    weights: Pass
    update_ns: int


@dataclass(frozen=True)
class _Header:
    """The first line."""

    parallelism: str
    sizes: Mapping[str, int]
    checkpoints: Sequence[int]
    initiates: Sequence[int]

    def members(self, rank: int, group: str) -> list[int]:
        """Return the ranks that share a collective with one."""
        tensor, expert = self.sizes["model_parallel_NPU_group"], self.sizes["ep"]
        every, apart = self.sizes["all_gpus"], tensor * self.sizes["pp"]
        block, place = divmod(rank, tensor)
        if group == "tp":
            blocks, places = [block], range(tensor)
            return [each * tensor + one for each in blocks for one in places]
        if group == "dp":
            return list(range(rank % apart, every, apart))
        if group == "ep":
            first = block // expert * expert
            return [each * tensor + place for each in range(first, first + expert)]
        count = every // apart // expert
        wide = count * expert
        first = block // wide * wide + block % expert
        return [each * tensor + place for each in range(first, first + wide, expert)]


def parse(text: str, name: str, algorithm: str) -> FileFlows:
    """Return the flows of a step.

    Args:
        algorithm: the algorithm of Allreduces; other collectives take one like it.

    Raises:
        InputError: a line makes no sense; the message names it and shows the text.
    """
    lines = [
        (f"{name}:{number}", line.split())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if len(lines) < 2:
        raise InputError(f"{name}: a workload of SimAI has a first line, a number of layers, and "
                         "these")  # fmt: skip
    header = _header(*lines[0])
    count = _whole(lines[1][1][0], lines[1][0], "layers")
    if count != len(lines) - 2 or not count:
        raise InputError(f"{lines[1][0]}: it says {count} layers, and {len(lines) - 2} follow")
    layers = [_layer(where, words) for where, words in lines[2:]]
    for number in (*header.checkpoints, *header.initiates):
        refuse(number >= count, f"{lines[0][0]}: checkpoint {number}: layers are 0 to {count - 1}")
    every = header.sizes["all_gpus"]
    passes = [*_order(header, layers, lines[0][0])]
    if every * len(passes) * 2 > MAX_TASKS:
        raise InputError(
            f"{name}: {every} ranks do {len(passes)} passes each: at most {MAX_TASKS // 2} in all"
        )
    ranks = [_nodes(rank, header, passes) for rank in range(every)]
    builder = Traces(ranks, algorithm).build()
    if not builder.flows:
        raise InputError(f"{name}: nothing is sent")
    stages = header.sizes["pp"]
    notes = (
        (f"{lines[0][0]}: pp {stages}: what stages send each other has no line, and is left out",)
        if stages > 1
        else ()
    )
    return FileFlows(builder.build(), notes)


def _whole(word: str, where: str, what: str, least: int = 0) -> int:
    if not _WHOLE.fullmatch(word) or not least <= int(word) <= MAX_NUMBER:
        raise InputError(f"{where}: {what} is {shown(word)}: a whole number from {least} is needed")
    return int(word)


def _header(where: str, words: Sequence[str]) -> _Header:
    if words[0] not in PARALLELISMS:
        raise InputError(f"{where}: {shown(words[0])} is none of {', '.join(PARALLELISMS)}")
    sizes = {"ep": 1, "pp": 1, "vpp": 1, "ga": 1, "pp_comm": 0}
    lists: dict[str, list[int]] = {}
    rest = iter(words[1:])
    for word in rest:
        key = word.rstrip(":")
        if key in _SIZES:
            sizes[key] = _whole(next(rest, ""), where, key, key != "pp_comm")
        elif key in _LISTS:
            many = _whole(next(rest, ""), where, key)
            lists[key] = [_whole(next(rest, ""), where, key) for _ in range(min(many, len(words)))]
        else:
            known = ", ".join((*_SIZES, *_LISTS))
            raise InputError(f"{where}: {shown(word)} is none of {known}")
    for key in ("model_parallel_NPU_group", "all_gpus"):
        refuse(key not in sizes, f"{where}: {key} is missing")
    parts = sizes["model_parallel_NPU_group"] * sizes["pp"] * sizes["ep"]
    refuse(
        sizes["all_gpus"] % parts,
        f"{where}: all_gpus {sizes['all_gpus']} is no multiple of {parts}: of "
        "model_parallel_NPU_group times pp times ep",
    )
    return _Header(words[0], sizes, *(lists.get(key, []) for key in _LISTS))


def _layer(where: str, words: Sequence[str]) -> Layer:
    if len(words) != COLUMNS:
        raise InputError(
            f"{where}: {len(words)} words: a layer has a name, a dependency, three times time, "
            "collective and bytes, and the time of the update"
        )
    forward, inputs, weights = (
        _pass(where, words[2 + 3 * third : 5 + 3 * third], "dp" if third == 2 else "tp")
        for third in range(3)
    )
    update_ns = _whole(words[-1], where, "the time of the update")
    return Layer(where, forward, inputs, weights, update_ns)


def _pass(where: str, words: Sequence[str], usual: str) -> Pass:
    compute_ns = _whole(words[0], where, "a time")
    size_bytes = _whole(words[2], where, "bytes")
    kind, ending = words[1], ""
    for ending in ("_DP_EP", "_EP", ""):
        if kind.endswith(ending):
            kind = kind.removesuffix(ending)
            break
    if kind == "NONE" and not ending:
        return Pass(compute_ns, "", usual, 0)
    if kind not in COLLECTIVES:
        raise InputError(
            f"{where}: {shown(words[1])} is none of NONE, {', '.join(COLLECTIVES)}, these with "
            "_EP or _DP_EP"
        )
    # 0 bytes are no collective: AICB writes some where nothing is sent.
    return Pass(compute_ns, COLLECTIVES[kind] if size_bytes else "", GROUPS[ending] or usual,
                size_bytes)  # fmt: skip


def _order(
    header: _Header, layers: Sequence[Layer], where: str
) -> Iterator[tuple[Layer, Pass, bool]]:
    """Yield what each rank does, in order: of which layer, and whether it is waited for."""
    if header.parallelism == "MICRO":
        yield from ((layer, layer.weights, False) for layer in layers)
        return
    again = {*header.initiates} if header.parallelism.endswith("BCKWD") else set()
    yield from ((layer, layer.forward, True) for layer in layers)
    for number in reversed(range(len(layers))):
        layer = layers[number]
        if number in again:
            first = max((each for each in header.checkpoints if each <= number), default=None)
            if first is None:
                raise InputError(f"{where}: layer {number} has no checkpoint before it")
            yield from ((each, each.forward, True) for each in layers[first:number])
        yield layer, layer.inputs, True
        yield layer, layer.weights, False


def _nodes(
    rank: int, header: _Header, passes: Sequence[tuple[Layer, Pass, bool]]
) -> Mapping[int, Node]:
    """Return what a rank does: of each pass the computation, and then the collective."""
    found: dict[int, Node] = {}
    before: tuple[int, ...] = ()
    groups = {group: header.members(rank, group) for group in ("tp", "dp", "ep", "dp_ep")}
    for number, (layer, each, waited) in enumerate(passes):
        work = Computation(each.compute_ns)
        found[2 * number] = Node(rank, 2 * number, layer.where, work, before)
        before = (2 * number,)
        members = groups[each.group]
        if each.collective and len(members) > 1:
            size_bytes = each.size_bytes
            if each.collective == "allgather":
                size_bytes = max(1, size_bytes // len(members))
            part = Part(f"{each.group} of rank {members[0]}", each.collective, size_bytes)
            found[2 * number + 1] = Node(rank, 2 * number + 1, layer.where, part, before)
            if waited:
                before = (2 * number + 1,)
    return found
