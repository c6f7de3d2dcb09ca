"""Pipeline schedules as data: the order in which each stage works on the micro-batches.

A model is cut into *virtual stages*, which a micro-batch goes through forward (F), and then back
(B). Virtual stage ``v = chunk * stages + stage`` is the model chunk ``chunk`` of a stage; only an
interleaved schedule has more chunks than one. B computes gradients of activations, which the
virtual stage before waits for, and gradients of weights, unless these are *delayed*: then they are
an action of their own (W), for which nobody waits.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, get_args

from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import listed, shown

Kind = Literal["F", "B", "W"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Forward, backward, and delayed gradients of weights."""
MAX_ACTIONS = 1 << 20
"""The most actions of a schedule."""


class Action(NamedTuple):
    """Name what a stage does at a time: ``F0`` is the forward pass of micro-batch 0, ``F0.1`` that
    of its chunk 1."""

    kind: Kind
    microbatch: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.microbatch}{f'.{self.chunk}' if self.chunk else ''}"


class Placed(NamedTuple):
    """Name an action and the stage that carries it out."""

    stage: int
    action: Action

    def __str__(self) -> str:
        return f"{self.action} of stage {self.stage}"


@dataclass(frozen=True)
class Schedule:
    """The actions of every stage. `check` says whether they make sense together.

    Raises:
        InputError: numbers out of range, or not as many lists of actions as stages.
    """

    name: str
    stages: int
    microbatches: int
    chunks: int
    """How many model chunks each stage has."""
    actions: tuple[tuple[Action, ...], ...]
    """By stage, its actions in the order in which it carries them out."""

    def __post_init__(self) -> None:
        _check_numbers(self.what, self.stages, self.microbatches, self.chunks)
        refuse(
            len(self.actions) != self.stages,
            f"{self.what}: actions of {len(self.actions)} stages, and there are {self.stages}: "
            "give one list for each stage",
        )

    @property
    def what(self) -> str:
        """Return what messages call the schedule."""
        return f"schedule {shown(self.name)}"

    @property
    def virtual_stages(self) -> int:
        """Return how many parts the model is cut into."""
        return self.stages * self.chunks

    @property
    def delayed(self) -> bool:
        """Return whether gradients of weights are actions of their own."""
        return any(action.kind == "W" for actions in self.actions for action in actions)

    def placed(self, kind: Kind, microbatch: int, virtual: int) -> Placed:
        """Return an action of a virtual stage, with its stage."""
        chunk, stage = divmod(virtual, self.stages)
        return Placed(stage, Action(kind, microbatch, chunk))

    def virtual(self, stage: int, action: Action) -> int:
        """Return the virtual stage that an action of a stage is of."""
        return action.chunk * self.stages + stage

    def inputs(self, stage: int, action: Action) -> tuple[Placed, ...]:
        """Return the actions whose results an action needs: of a forward pass, that of the virtual
        stage before; of a backward pass, its forward pass and the backward pass of the virtual
        stage after; of gradients of weights, their backward pass."""
        kind, microbatch, _ = action
        virtual = self.virtual(stage, action)
        if kind == "W":
            return (self.placed("B", microbatch, virtual),)
        if kind == "F":
            return (self.placed("F", microbatch, virtual - 1),) if virtual else ()
        own = self.placed("F", microbatch, virtual)
        if virtual == self.virtual_stages - 1:
            return (own,)
        return own, self.placed("B", microbatch, virtual + 1)

    def __iter__(self) -> Iterator[Placed]:
        """Return all actions, stage by stage."""
        for stage, actions in enumerate(self.actions):
            for action in actions:
                yield Placed(stage, action)


def _check_numbers(what: str, stages: int, microbatches: int, chunks: int) -> None:
    numbers = {"stages": stages, "microbatches": microbatches, "chunks": chunks}
    for name, number in numbers.items():
        refuse(number < 1, f"{what}: {name} {number}: give 1 or more")
    refuse(
        len(KINDS) * stages * microbatches * chunks > MAX_ACTIONS,
        f"{what}: {stages} stages x {microbatches} microbatches x {chunks} chunks are more than "
        f"{MAX_ACTIONS} actions: give fewer microbatches",
    )


def peak_activations(schedule: Schedule) -> tuple[int, ...]:
    """Return by stage the most micro-batches, counted once for each chunk, whose activations it
    holds at a time.

    They are held from the forward pass to the end of the last action that needs them: of the
    backward pass, or of the gradients of weights where those are delayed, as these need the inputs
    of the layers.
    """
    last: Kind = "W" if schedule.delayed else "B"
    peaks = []
    for actions in schedule.actions:
        held = peak = 0
        for action in actions:
            held += (action.kind == "F") - (action.kind == last)
            peak = max(peak, held)
        peaks.append(peak)
    return tuple(peaks)


# -- Known schedules -------------------------------------------------------------------------------


def gpipe(stage: int, stages: int, microbatches: int, chunks: int) -> list[Action]:
    """Return all forward passes, then all backward passes, the last micro-batch first (Huang et
    al., "GPipe", arXiv 1811.06965, figure 2c)."""
    forward = [Action("F", each) for each in range(microbatches)]
    return forward + [Action("B", each) for each in reversed(range(microbatches))]


def one_f_one_b(stage: int, stages: int, microbatches: int, chunks: int) -> list[Action]:
    """Return ``min(m, n - i)`` forward passes, then a backward and a forward pass in turn
    (Narayanan et al., "PipeDream", arXiv 1806.03377, section 3.2, with a flush at the end)."""
    return _alternating(microbatches, stages - stage)


def eager_one_f_one_b(stage: int, stages: int, microbatches: int, chunks: int) -> list[Action]:
    """Return ``min(m, 2 (n - i) - 1)`` forward passes, then a backward and a forward pass in turn,
    so that a tensor is on its way while its receiver computes (Zhuang et al., "On Optimizing the
    Communication of Model Parallelism", arXiv 2211.05322, section 4)."""
    return _alternating(microbatches, 2 * (stages - stage) - 1)


def interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> list[Action]:
    """Return 1F1B over several chunks, ``stages`` micro-batches of a chunk at a time (Narayanan et
    al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", arXiv
    2104.04473, section 2.2)."""
    forward, backward = [], []
    for group, chunk, place in product(
        range(0, microbatches, stages), range(chunks), range(stages)
    ):
        forward.append(Action("F", group + place, chunk))
        backward.append(Action("B", group + place, chunks - 1 - chunk))
    first = 2 * (stages - stage - 1) + (chunks - 1) * stages + 1
    return _in_turn(forward, backward, first)


def zb_h1(stage: int, stages: int, microbatches: int, chunks: int) -> list[Action]:
    """Return 1F1B in which stage ``i`` leaves its gradients of weights ``i`` micro-batches behind,
    so that they fill the pipeline's end and no stage holds more activations than the first one of
    1F1B does (Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.1:
    ZB-H1)."""
    actions: list[Action] = []
    for action in one_f_one_b(stage, stages, microbatches, chunks):
        actions.append(action)
        if action.kind == "B" and action.microbatch >= stage:
            actions.append(Action("W", action.microbatch - stage))
    left = range(max(microbatches - stage, 0), microbatches)
    return actions + [Action("W", each) for each in left]


def _alternating(microbatches: int, first: int) -> list[Action]:
    forward = [Action("F", each) for each in range(microbatches)]
    return _in_turn(forward, [Action("B", each) for each in range(microbatches)], first)


def _in_turn(forward: list[Action], backward: list[Action], first: int) -> list[Action]:
    """Return the first forward passes, then a backward and a forward pass in turn."""
    first = min(first, len(forward))
    actions = forward[:first]
    for place, each in enumerate(backward):
        actions.append(each)
        actions += forward[first + place : first + place + 1]
    return actions


Generator = Callable[[int, int, int, int], list[Action]]
"""Returns the actions of a stage, from its number and those of stages, micro-batches and chunks."""

SCHEDULES: Mapping[str, Generator] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "eager-1f1b": eager_one_f_one_b,
    "interleaved-1f1b": interleaved,
    "zb-h1": zb_h1,
}
"""The known schedules by name."""
INTERLEAVED = "interleaved-1f1b"


def make(
    name: str, stages: int, microbatches: int, chunks: int = 1, delayed: bool = False
) -> Schedule:
    """Return a known schedule.

    Args:
        name: one of `SCHEDULES`.
        chunks: the model chunks of each stage; ``interleaved-1f1b`` alone takes more than one.
        delayed: whether gradients of weights are actions of their own, each right after its
            backward pass, whose result need not wait for them then. ``zb-h1`` always delays them,
            and further.

    Raises:
        InputError: there is no such schedule, or it cannot be had for these numbers.
    """
    if name not in SCHEDULES:
        raise InputError(
            f"schedule {shown(name)} is unknown{did_you_mean(name, SCHEDULES)}: choose "
            f"{listed(SCHEDULES, 'or')}, or name a file"
        )
    what = f"schedule {name!r}"
    _check_numbers(what, stages, microbatches, chunks)
    if name == INTERLEAVED:
        refuse(chunks < 2, f"{what}: chunks {chunks}: give 2 or more, or choose 1f1b")
        refuse(stages < 2, f"{what}: stages {stages}: give 2 or more, or choose 1f1b")
        refuse(
            microbatches % stages,
            f"{what}: microbatches {microbatches} are no multiple of the {stages} stages: give "
            f"{-(-microbatches // stages) * stages}",
        )
    else:
        refuse(chunks > 1, f"{what}: chunks {chunks}: give 1, or choose {INTERLEAVED}")
    actions = [SCHEDULES[name](stage, stages, microbatches, chunks) for stage in range(stages)]
    if delayed and name != "zb-h1":
        actions = [[part for each in of for part in _split(each)] for of in actions]
    return Schedule(name, stages, microbatches, chunks, tuple(map(tuple, actions)))


def _split(action: Action) -> tuple[Action, ...]:
    return (action, action._replace(kind="W")) if action.kind == "B" else (action,)


# -- Checks ----------------------------------------------------------------------------------------


def check(schedule: Schedule) -> None:
    """Check that a schedule trains the model once: every pass of every micro-batch through every
    virtual stage is there once, in an order in which no stage waits for ever.

    Raises:
        InputError: it does not, with the stage and the actions.
    """
    order = _check_complete(schedule)
    for stage, action in schedule:
        for other, needed in schedule.inputs(stage, action):
            refuse(
                other == stage and order[stage][needed] > order[stage][action],
                f"{schedule.what}: stage {stage} has {action} before {needed}, which it needs: "
                f"put {needed} first",
            )
    _check_ends(schedule)


def _check_complete(schedule: Schedule) -> list[dict[Action, int]]:
    """Return by stage the place of each action in the stage's order."""
    kinds = KINDS if schedule.delayed else KINDS[:2]
    whole = [
        Action(kind, microbatch, chunk)
        for kind in kinds
        for chunk in range(schedule.chunks)
        for microbatch in range(schedule.microbatches)
    ]
    valid = frozenset(whole)
    order: list[dict[Action, int]] = []
    for stage, actions in enumerate(schedule.actions):
        places: dict[Action, int] = {}
        for place, action in enumerate(actions):
            if action not in valid:
                raise InputError(
                    f"{schedule.what}: stage {stage} has {action}: microbatches are 0 to "
                    f"{schedule.microbatches - 1}, chunks 0 to {schedule.chunks - 1}, kinds "
                    f"{listed(kinds, 'and')}"
                )
            refuse(
                action in places,
                f"{schedule.what}: stage {stage} has {action} twice: leave one of them out",
            )
            places[action] = place
        missing = [str(action) for action in whole if action not in places]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise InputError(
                f"{schedule.what}: stage {stage} lacks {', '.join(missing[:5])}{more}: "
                f"each stage has one of {listed(kinds, 'and')} for each of {schedule.microbatches} "
                f"microbatches{f' and {schedule.chunks} chunks' if schedule.chunks > 1 else ''}"
            )
        order.append(places)
    return order


def _check_ends(schedule: Schedule) -> None:
    """Refuse a schedule in which stages wait for each other."""
    waiting: dict[Placed, list[int]] = {}
    done: set[Placed] = set()
    heads = [0] * schedule.stages
    ready = [*range(schedule.stages)]
    while ready:
        stage = ready.pop()
        for action in schedule.actions[stage][heads[stage] :]:
            lacking = next((n for n in schedule.inputs(stage, action) if n not in done), None)
            if lacking is not None:
                waiting.setdefault(lacking, []).append(stage)
                break
            heads[stage] += 1
            done.add(Placed(stage, action))
            ready += waiting.pop(Placed(stage, action), ())
    stuck = {
        stage: (schedule.actions[stage][heads[stage]], lacking)
        for lacking, stages in waiting.items()
        for stage in stages
    }
    if stuck:
        stage = min(stuck)
        chain: list[int] = []
        while stage not in chain:
            chain.append(stage)
            stage = stuck[stage][1].stage
        cycle = chain[chain.index(stage) :]
        waits = [f"stage {each} at {stuck[each][0]} for {stuck[each][1]}" for each in cycle]
        raise InputError(
            f"{schedule.what}: it never ends, since its stages wait for each other, "
            f"{', '.join(waits)}: put what is waited for before what waits"
        )
