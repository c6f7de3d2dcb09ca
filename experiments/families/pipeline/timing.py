"""Times of a pipeline schedule on a network without contention: a list simulation.

An action begins when the one before it on its stage has ended and its inputs are there; a transfer
takes as long as is said, however many others there are. What a run adds to that is contention.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from weft.base.errors import refuse
from weft.experiments.families.pipeline.schedules import Action, Kind, Schedule, check

Links = Mapping[tuple[int, int], int]
"""How many nanoseconds what goes forward from one virtual stage to a later one takes; gradients
take as long back."""


class ActionSpan(NamedTuple):
    """When a stage carried out an action, in ns from the start of the step."""

    stage: int
    kind: Kind
    microbatch: int
    chunk: int
    begin_ns: int
    end_ns: int


class Transfer(NamedTuple):
    """When a tensor went from stage to stage, in ns from the start of the step."""

    source: int
    destination: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Times:
    """How long each virtual stage takes for a micro-batch.

    Raises:
        InputError: not as many of each, or a time below 0.
    """

    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    """Gradients of activations alone..."""
    weight_ns: tuple[int, ...]
    """... and those of weights, which are part of a backward pass unless they are delayed."""

    def __post_init__(self) -> None:
        columns = (self.forward_ns, self.backward_ns, self.weight_ns)
        refuse(
            len(set(map(len, columns))) != 1 or min(map(min, columns), default=0) < 0,
            f"times {columns}: give one of 0 ns or more for each virtual stage and kind",
        )

    @classmethod
    def equal(
        cls, virtual_stages: int, forward_ns: int, backward_ns: int, weight_ns: int
    ) -> "Times":
        """Return the same times for all virtual stages."""
        return cls(*((each,) * virtual_stages for each in (forward_ns, backward_ns, weight_ns)))

    def of(self, action: Action, virtual: int, delayed: bool) -> int:
        """Return how many ns an action takes, in a schedule with delayed gradients of weights or
        without."""
        if action.kind == "F":
            return self.forward_ns[virtual]
        if action.kind == "W":
            return self.weight_ns[virtual]
        return self.backward_ns[virtual] + (0 if delayed else self.weight_ns[virtual])


@dataclass(frozen=True)
class Timing:
    """When everything in a step happens."""

    stages: int
    spans: tuple[ActionSpan, ...]
    """By stage, and in the stage's order."""
    transfers: tuple[Transfer, ...]
    """In the order of their beginnings."""

    @cached_property
    def step_ns(self) -> int:
        """Return when the last action ends."""
        return max((span.end_ns for span in self.spans), default=0)

    @cached_property
    def busy_ns(self) -> tuple[int, ...]:
        """Return by stage how long it computes."""
        busy_ns = [0] * self.stages
        for span in self.spans:
            busy_ns[span.stage] += span.end_ns - span.begin_ns
        return tuple(busy_ns)

    @property
    def ideal_ns(self) -> int:
        """Return what the step would take if the busiest stage never waited."""
        return max(self.busy_ns)

    @property
    def bubble(self) -> float:
        """Return the time beyond the ideal one as a part of the ideal one, as Megatron-LM's paper
        counts it (arXiv 2104.04473, section 2.2.1)."""
        return self.step_ns / (self.ideal_ns or 1) - 1


def spans(
    schedule: Schedule, times: Times, transfer_ns: int | Links = 0, *, overlap: bool = True
) -> tuple[ActionSpan, ...]:
    """Return when each action begins and ends. The arguments and errors are those of `timed`."""
    return timed(schedule, times, transfer_ns, overlap=overlap).spans


def timed(
    schedule: Schedule, times: Times, transfer_ns: int | Links = 0, *, overlap: bool = True
) -> Timing:
    """Return when everything in a step happens.

    Args:
        times: how long the virtual stages compute.
        transfer_ns: how long a tensor takes from a virtual stage to the next one, and its gradient
            back; or this by pair of virtual stages, where other pairs than neighbours are tensors
            that skip stages. Neighbours that are not named take no time, as do the virtual stages
            of one stage.
        overlap: whether a stage computes while it sends. If not, it sends the results of an action,
            one after the other, before its next action begins; its receivers are not held up.

    Raises:
        InputError: the schedule makes no sense, or times or transfers do not fit it.
    """
    check(schedule)
    refuse(
        len(times.forward_ns) != schedule.virtual_stages,
        f"{schedule.what}: times of {len(times.forward_ns)} virtual stages, and it has "
        f"{schedule.virtual_stages}: give one for each",
    )
    run = _Run(schedule, times, _links(schedule, transfer_ns), overlap)
    run.carry_out()
    return Timing(
        schedule.stages,
        tuple(span for stage in run.spans for span in stage),
        tuple(sorted(run.transfers, key=lambda each: (each.begin_ns, each))),
    )


def _links(schedule: Schedule, transfer_ns: int | Links) -> dict[tuple[int, int], int]:
    last = schedule.virtual_stages - 1
    links = {(virtual, virtual + 1): 0 for virtual in range(last)}
    given = dict.fromkeys(links, transfer_ns) if isinstance(transfer_ns, int) else transfer_ns
    for (source, destination), each_ns in given.items():
        refuse(
            not 0 <= source < destination <= last or each_ns < 0,
            f"{schedule.what}: a transfer of {each_ns} ns from virtual stage {source} to "
            f"{destination}: give 0 ns or more, from one to a later one of 0 to {last}",
        )
    links.update(given)
    apart = schedule.stages
    return {pair: ns if (pair[1] - pair[0]) % apart else 0 for pair, ns in links.items()}


class _Run:
    """A schedule that is carried out."""

    def __init__(
        self, schedule: Schedule, times: Times, links: dict[tuple[int, int], int], overlap: bool
    ) -> None:
        self.spans: list[list[ActionSpan]] = [[] for _ in range(schedule.stages)]
        self.transfers: list[Transfer] = []
        self._schedule, self._times, self._overlap = schedule, times, overlap
        self._delayed = schedule.delayed
        self._after: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By virtual stage, those that it sends to forward, with the time that takes..."""
        self._before: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """... and those that it sends gradients to."""
        for (source, destination), each_ns in sorted(links.items()):
            self._after[source].append((destination, each_ns))
            self._before[destination].insert(0, (source, each_ns))
        self._free_ns = [0] * schedule.stages
        self._arrived: dict[tuple[Kind, int, int], list[int]] = defaultdict(list)
        """When the inputs of an action (kind, micro-batch, virtual stage) from others came."""

    def carry_out(self) -> None:
        heads = [0] * self._schedule.stages
        ready = {*range(self._schedule.stages)}
        while ready:
            stage = ready.pop()
            actions = self._schedule.actions[stage]
            while heads[stage] < len(actions) and self._can_begin(stage, actions[heads[stage]]):
                ready |= self._carry_out(stage, actions[heads[stage]])
                heads[stage] += 1

    def _can_begin(self, stage: int, action: Action) -> bool:
        virtual = self._schedule.virtual(stage, action)
        arrived = self._arrived[action.kind, action.microbatch, virtual]
        others = {"F": self._before[virtual], "B": self._after[virtual], "W": []}
        return len(arrived) == len(others[action.kind])

    def _carry_out(self, stage: int, action: Action) -> set[int]:
        """Carry out an action and return the stages that got something by it."""
        kind, microbatch, chunk = action
        virtual = self._schedule.virtual(stage, action)
        begin_ns = max([self._free_ns[stage], *self._arrived[kind, microbatch, virtual]])
        end_ns = begin_ns + self._times.of(action, virtual, self._delayed)
        self.spans[stage].append(ActionSpan(stage, kind, microbatch, chunk, begin_ns, end_ns))
        self._free_ns[stage] = end_ns
        receivers = {"F": self._after[virtual], "B": self._before[virtual], "W": []}[kind]
        reached = set()
        for other, each_ns in receivers:
            sent_ns = end_ns if self._overlap else self._free_ns[stage]
            arrived_ns = sent_ns + each_ns
            self._arrived[kind, microbatch, other].append(arrived_ns)
            there = other % self._schedule.stages
            reached.add(there)
            if each_ns:
                self.transfers.append(Transfer(stage, there, sent_ns, arrived_ns))
            if not self._overlap:
                self._free_ns[stage] = arrived_ns
        return reached - {stage}
