"""One training step of a GPT as flows: the Allreduces of tensor and data parallelism.

Ranks next to each other are a tensor group; the ranks of the same place in all groups are a data
group. Every micro-batch goes forward through all layers and back, and in each layer and direction
the tensor group sums up its activations once (arXiv 2407.00550's workloads: 33,554,432 bytes a
layer of the 7B model, 41,943,040 of the 13B). In the backward pass of the last micro-batch, the
gradients of a layer are summed up over the data group as soon as the layer is done, beside what
follows (Shoeybi et al., "Megatron-LM", arXiv 1909.08053). Computation takes no time.
"""

from dataclasses import dataclass

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.base.errors import refuse
from weft.experiments.families.flows.collectives import Events, add_collective

ELEMENT_BYTES = 2
"""The bytes of an activation or a gradient, in half precision."""


@dataclass(frozen=True)
class Model:
    """A GPT, and which part of it a rank holds at a time."""

    width: int
    layers: int
    sequence: int
    micro_batch: int

    @property
    def activation_bytes(self) -> int:
        """Return the bytes of a layer's output for a micro-batch, which a tensor group sums up."""
        return self.width * self.sequence * self.micro_batch * ELEMENT_BYTES

    @property
    def gradient_bytes(self) -> int:
        """Return the bytes of the gradients of a layer's 12 d^2 + 13 d parameters."""
        return (12 * self.width + 13) * self.width * ELEMENT_BYTES


MODELS = {
    "gpt-13b": Model(5120, 40, 2048, 2),
    "gpt-7b": Model(4096, 36, 2048, 2),
    "gpt-xl": Model(1600, 48, 1024, 2),
    "gpt-medium": Model(1024, 24, 1024, 2),
    "gpt-small": Model(768, 12, 1024, 2),
}
"""The models by name: 7B and 13B as arXiv 2407.00550 has them; the others by table 2 of Radford et
al., "Language Models are Unsupervised Multitask Learners" (2019)."""


def training_step(
    name: str,
    ranks: int,
    tensor: int,
    algorithm: str,
    *,
    share: float = 1.0,
    layers: int | None = None,
    micro_batches: int = 1,
) -> FlowGraph:
    """Return the flows of one step.

    Args:
        tensor: the number of ranks of a tensor group.
        algorithm: the algorithm of all Allreduces.
        share: which part of every size is sent: sizes are scaled to slow links.
        layers: the number of layers, in place of the model's.

    Raises:
        InputError: the groups do not fit the ranks, or nothing would be sent.
    """
    refuse(
        ranks < 2 or ranks % tensor,
        f"tensor {tensor} does not divide {ranks} ranks into equal groups: choose a divisor, "
        "and two ranks or more",
    )
    model = MODELS[name]
    step = _Step(ranks, tensor, algorithm)
    activation_bytes = max(1, round(model.activation_bytes * share))
    gradient_bytes = max(1, round(model.gradient_bytes * share / tensor))
    count = layers or model.layers
    for batch in range(micro_batches):
        for _ in range(2 * count if batch < micro_batches - 1 else count):
            step.activations(activation_bytes)
    for _ in range(count):
        step.activations(activation_bytes)
        step.gradients(gradient_bytes)
    return step.builder.build()


class _Step:
    """A training step that is put together."""

    def __init__(self, ranks: int, tensor: int, algorithm: str) -> None:
        self.builder = GraphBuilder()
        self._algorithm = algorithm
        self._tensor = [range(first, first + tensor) for first in range(0, ranks, tensor)]
        self._data = [range(place, ranks, tensor) for place in range(tensor)]
        self._computed: dict[int, Events] = {}
        """The events that the next layer waits for, by rank."""
        self._reduced: dict[int, Events] = {}
        """By rank, the events that the next gradients also wait for: those of the gradients before
        them, which use the same link."""

    def activations(self, size_bytes: int) -> None:
        """Add the Allreduces of all tensor groups in one layer of one pass."""
        for group in self._tensor:
            self._computed.update(self._allreduce(group, size_bytes, self._computed))

    def gradients(self, size_bytes: int) -> None:
        """Add the Allreduces of all data groups for the layer that was last."""
        for group in self._data:
            after = {
                rank: (*self._computed.get(rank, ()), *self._reduced.get(rank, ()))
                for rank in group
            }
            self._reduced.update(self._allreduce(group, size_bytes, after))

    def _allreduce(
        self, group: range, size_bytes: int, after: dict[int, Events]
    ) -> dict[int, Events]:
        return add_collective(self.builder, "allreduce", self._algorithm, group, size_bytes, after)
