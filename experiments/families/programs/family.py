"""Programs of PyTorch, as a kind of work."""

from collections.abc import Mapping, Sequence

from weft.experiments.families.programs.asked import ProgramAsked
from weft.experiments.scenario.family import Family, Metric, ResultsKind


class Programs(Family):
    """Programs of PyTorch, a rank on each host. No collective of a scenario names them: they have a
    command of their own, and what they do goes by any of these."""

    name = "programs"
    position = 6
    options = ProgramAsked

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def metrics(self) -> Sequence[Metric]:
        from weft.experiments.families.programs.metrics import METRICS

        return METRICS

    def documents(self) -> Sequence[ResultsKind]:
        from weft.experiments.families.programs.document import OfPrograms

        return (OfPrograms(),)


FAMILY = Programs()
