"""What an algorithm of MSCCL does to chunks, and whether that is its collective.

Each chunk of a rank's input has a name; a buffer holds for each of its chunks how often which
named chunk has been added to it. Steps are carried out one by one, each when what it waits for is
done, and in the end each output must hold what the collective says.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from weft.base.errors import InputError, refuse
from weft.base.units import shown

Contents = Mapping[tuple[int, int], int]
"""By rank and chunk of its input, how often a chunk of a buffer has it in it."""


@dataclass(frozen=True)
class Step:
    """A step of a thread block of a rank."""

    rank: int
    block: int
    index: int
    where: str
    kind: str
    source: tuple[str, int]
    """The buffer, and its first chunk."""
    destination: tuple[str, int]
    count: int
    """How many chunks."""
    after: tuple[int, int] | None
    """The thread block of the rank, and the step of it, that must be done before."""
    to: int
    """The rank that the thread block sends to; -1: none."""
    of: int
    """The rank that it receives from; -1: none."""
    channel: int

    @property
    def receives(self) -> bool:
        """Whether it receives."""
        return self.kind[0] == "r" and self.kind != "re"

    @property
    def sends(self) -> bool:
        """Whether it sends."""
        return self.kind[-1] == "s"

    def error(self, what: str) -> InputError:
        return InputError(f"{self.where}: {what}")


class Chunks:
    """The chunks of all ranks.

    Args:
        root: the algorithm's element.
        name: its file, for messages.
    """

    def __init__(self, root: ElementTree.Element, name: str, ranks: int) -> None:
        self._name, self._ranks = name, ranks
        self._called = root.get("coll", "")
        self._kind = _plain(self._called)
        self._in_place = root.get("inplace") == "1"
        gpus = {int(gpu.get("id", "0")): gpu for gpu in root}
        self._inputs = [_chunks(gpus[rank], "i_chunks") for rank in range(ranks)]
        self._outputs = [_chunks(gpus[rank], "o_chunks") for rank in range(ranks)]
        if self._in_place:
            most = [max(pair) for pair in zip(self._inputs, self._outputs, strict=True)]
            part = [each // ranks for each in most]
            self._inputs = part if self._kind == "allgather" else most
            self._outputs = part if self._kind == "reducescatter" else most
        self._held: dict[tuple[int, str, int], Contents] = {
            self._place(rank, "i", chunk): {(rank, chunk): 1}
            for rank, count in enumerate(self._inputs)
            for chunk in range(count)
        }
        self._sent: dict[tuple[int, int, int], deque[list[Contents]]] = defaultdict(deque)
        """What is under way, by sender, receiver and channel."""
        self._done: set[tuple[int, int, int]] = set()

    @property
    def most(self) -> int:
        """Return how many chunks the largest input or output has."""
        return max(*self._inputs, *self._outputs)

    def run(self, blocks: Sequence[Sequence[Step]]) -> tuple[str, ...]:
        """Carry out the steps of all thread blocks, and return what a user should know.

        Raises:
            InputError: a step never begins, or reads what nobody wrote; or the collective is not
                done.
        """
        steps = {(each.rank, each.block, each.index) for block in blocks for each in block}
        for step in (each for block in blocks for each in block if each.after):
            block, index = step.after or (0, 0)
            refuse(
                (step.rank, block, index) not in steps,
                f"it waits for step {index} of tb {block}, which is not there",
                step.error,
            )
        left = [deque(block) for block in blocks if block]
        while left:
            before = len(self._done)
            for queue in left:
                while queue and self._able(queue[0]):
                    step = queue.popleft()
                    self._do(step)
                    self._done.add((step.rank, step.block, step.index))
            left = [queue for queue in left if queue]
            if left and len(self._done) == before:
                raise left[0][0].error(
                    "it never begins: it waits for what waits for it, or for what nobody sends"
                )
        for (source, destination, channel), messages in self._sent.items():
            if messages:
                raise InputError(
                    f"{self._name}: gpu {source} sends {len(messages)} messages to gpu "
                    f"{destination} on channel {channel} that it does not receive"
                )
        return self._check()

    def _place(self, rank: int, buffer: str, chunk: int) -> tuple[int, str, int]:
        """Return which chunk is meant, as in place the input is the output, or a part of it."""
        if self._in_place:
            if self._kind == "allgather" and buffer == "i":
                return rank, "o", rank * self._inputs[rank] + chunk
            if self._kind == "reducescatter" and buffer == "o":
                return rank, "i", rank * self._outputs[rank] + chunk
            if self._kind != "allgather" and buffer == "o":
                return rank, "i", chunk
        return rank, buffer, chunk

    def _able(self, step: Step) -> bool:
        ready = step.after is None or (step.rank, *step.after) in self._done
        return ready and (not step.receives or bool(self._sent[step.of, step.rank, step.channel]))

    def _do(self, step: Step) -> None:
        """Carry out a step."""
        kind = step.kind
        if kind == "nop":
            return
        if step.receives:
            values = self._sent[step.of, step.rank, step.channel].popleft()
            refuse(
                len(values) != step.count,
                f"{len(values)} chunks come, and it receives {step.count}",
                step.error,
            )
        else:
            values = self._read(step, step.source)
        if kind.startswith("rr"):
            values = _sums(values, self._read(step, step.source))
        if kind == "re":
            values = _sums(values, self._read(step, step.destination))
        if kind not in ("s", "rrs"):
            buffer, first = step.destination
            for offset, value in enumerate(values):
                self._held[self._place(step.rank, buffer, first + offset)] = value
        if step.sends:
            self._sent[step.rank, step.to, step.channel].append(values)

    def _read(self, step: Step, end: tuple[str, int]) -> list[Contents]:
        buffer, first = end
        found = []
        for chunk in range(first, first + step.count):
            value = self._held.get(self._place(step.rank, buffer, chunk))
            if value is None:
                raise step.error(
                    f"it reads chunk {chunk} of {BUFFERS[buffer]}, which nobody has written"
                )
            found.append(value)
        return found

    def _check(self) -> tuple[str, ...]:
        """Raise InputError if the outputs do not hold what the collective says."""
        if self._kind not in COLLECTIVES:
            return (
                f"{self._name}: coll {shown(self._called)} is none of {', '.join(COLLECTIVES)}: "
                "what its steps do to the data was not checked",
            )
        no = f"{self._name}: it does no {self._called}"
        for rank, (inputs, outputs) in enumerate(zip(self._inputs, self._outputs, strict=True)):
            shares = {"allgather": inputs * self._ranks == outputs,
                      "reducescatter": inputs == outputs * self._ranks,
                      "alltoall": inputs == outputs and not inputs % self._ranks}  # fmt: skip
            if not inputs or not shares.get(self._kind, inputs == outputs):
                raise InputError(
                    f"{no}: gpu {rank} has an input of {inputs} chunks and an output of {outputs}"
                )
            for chunk in range(outputs):
                wanted = self._wanted(rank, chunk)
                found = self._held.get(self._place(rank, "o", chunk), {})
                if found != wanted:
                    raise InputError(
                        f"{no}: in the end chunk {chunk} of the output of gpu {rank} "
                        f"{_difference(found, wanted)}"
                    )
        return ()

    def _wanted(self, rank: int, chunk: int) -> Contents:
        """Return what a chunk of an output must hold."""
        part = self._outputs[rank] // self._ranks
        match self._kind:
            case "allgather":
                return {(chunk // part, chunk % part): 1}
            case "alltoall":
                return {(chunk // part, rank * part + chunk % part): 1}
            case "reducescatter":
                chunk += rank * self._outputs[rank]
        return {(each, chunk): 1 for each in range(self._ranks)}


BUFFERS = {"i": "the input", "o": "the output", "s": "the scratch buffer"}
COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")
"""Those whose outcome is checked."""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _chunks(gpu: ElementTree.Element, key: str) -> int:
    text = gpu.get(key, "")
    if not text.isascii() or not text.isdigit() or len(text) > 7:
        raise InputError(f"<gpu> {gpu.get('id')}: {key} is {shown(text)}: a number is needed")
    return int(text)


def _sums(values: Sequence[Contents], others: Sequence[Contents]) -> list[Contents]:
    return [
        dict(Counter(value) + Counter(other)) for value, other in zip(values, others, strict=True)
    ]


def _difference(found: Contents, wanted: Contents) -> str:
    """Say what is wrong with a chunk."""
    for (rank, chunk), times in found.items():
        if times != wanted.get((rank, chunk), 0):
            return f"has chunk {chunk} of the input of gpu {rank} in it {times} times"
    rank, chunk = next(each for each in wanted if each not in found)
    return f"lacks chunk {chunk} of the input of gpu {rank}"
