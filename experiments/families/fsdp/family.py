"""FSDP interleaving, as a kind of work."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weft.base.units import format_size
from weft.experiments.families.collectives.family import Collectives
from weft.experiments.families.fsdp.asked import InterleavingAsked
from weft.experiments.families.fsdp.models import ALGORITHMS, FSDP, PARTS, parts_of
from weft.experiments.scenario.family import Family

if TYPE_CHECKING:
    from weft.agents.collectives.places import TierBytes
    from weft.agents.ranks import OperationConfig
    from weft.controller.flows import Flows
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario
    from weft.topo.network import Topology


class Interleaving(Family):
    """Allgathers and Reduce-Scatters of the layers of a model, beside each other."""

    name = FSDP
    position = 1
    on_cores = True
    options = InterleavingAsked
    repeats = False
    fills_links = True
    sums_apart = True

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return {FSDP: ALGORITHMS}

    def title(self, collective: str) -> str:
        return "FSDP interleaving"

    def described(self, scenario: Mapping[str, Any]) -> str:
        layer = f"{format_size(int(scenario['size_bytes']))} a layer"
        model = f" of {scenario['model']}" if scenario.get("model") else ""
        return f"{self.title(FSDP)} of {scenario['layers']} layers{model}, {layer}"

    def parts(self, collective: str, algorithm: str) -> tuple[tuple[str, str], ...]:
        return parts_of(algorithm)

    def operation_name(self, collective: str, place: int) -> tuple[str, int]:
        """Return the layer as the number."""
        step, which = divmod(place, 2)
        return ("reduce-scatter", step) if which else ("allgather", step + 1)

    def colours(self) -> Mapping[str, tuple[str, str]]:
        return {name: self.kinds(FSDP, name)[0].colours for name in PARTS}

    def reduces(self, collective: str) -> bool:
        return True

    def read(self, values: dict[str, Any]) -> dict[str, Any]:
        # Of whatever size: that of Scenario by default among them.
        return {**values, "model": ""} if "size_bytes" in values else values

    def resolve(self, asked: "Asked", ranks: int) -> "Asked":
        from weft.experiments.families.fsdp.resolve import with_layers

        return with_layers(asked)

    def shard_sizes(self, asked: "Asked", ranks: int) -> tuple[int, ...]:
        """It is the rank's part of a layer, rounded up to whole elements."""
        from weft.experiments.scenario.shards import item_bytes_of

        item_bytes = item_bytes_of(asked.dtype)
        return (-(-asked.size_bytes // (ranks * item_bytes)) * item_bytes,) * ranks

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.experiments.families.fsdp.operation import interleaved

        return interleaved(scenario, algorithm, seed)

    def check_memory(self, scenario: "Scenario", available_bytes: int | None) -> int:
        from weft.experiments.families.fsdp.interleaving import layers_of
        from weft.experiments.runs.capacity import check_buffers

        data = sum(scenario.shard_sizes)
        return check_buffers(scenario, data, layers_of(scenario), available_bytes)

    def bound_ns(self, scenario: "Scenario", algorithm: str, *, frames: bool) -> int:
        from weft.experiments.families.fsdp.bounds import step_bound_bytes
        from weft.experiments.families.fsdp.interleaving import layers_of
        from weft.experiments.theory.bounds import host_rates_bps

        fullest = step_bound_bytes(scenario, algorithm, frames=frames)
        return layers_of(scenario) * fullest * 8 * 10**9 // int(host_rates_bps(scenario).max())

    def steps(self, scenario: "Scenario", algorithm: str) -> "list[Flows]":
        return []

    def tier_bytes(
        self, network: "Topology", scenario: "Scenario", algorithm: str, *, frames: bool
    ) -> "Iterator[TierBytes]":
        from weft.experiments.families.fsdp.interleaving import parts

        for part in parts(scenario, algorithm):
            yield from COLLECTIVES.tier_bytes(network, part, part.algorithms[0], frames=frames)


COLLECTIVES = Collectives()
FAMILY = Interleaving()
