"""Making of a training step from what a scenario asks: model, schedule, flows and waits.

Every host of a stage waits for as long as an action computes, from when its action before has ended
and its inputs are there. What an action makes is resharded to the stages that need it; several such
transfers may be under way, and none waits for another but by the links that they share.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from weft.agents.collectives.flow_graph import DONE
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.families.pipeline.files import read_schedule
from weft.experiments.families.pipeline.models import (
    Boundary,
    Model,
    Scale,
    device_flops,
    model_of,
    times_of,
)
from weft.experiments.families.pipeline.names import FILE_ENDING, parts_of_algorithm
from weft.experiments.families.pipeline.options import PipelineOptions
from weft.experiments.families.pipeline.schedules import (
    INTERLEAVED,
    Action,
    Placed,
    Schedule,
    check,
    make,
)
from weft.experiments.families.pipeline.timing import Times
from weft.experiments.families.resharding.carrier import Carried, Carrier, usual_block_bytes
from weft.experiments.families.resharding.choice import strategy_named
from weft.experiments.families.resharding.meshes import Mesh
from weft.experiments.families.resharding.plan import ReshardingPlan, Tensor, plan
from weft.experiments.families.resharding.strategy import Event, Flows, Strategy
from weft.experiments.families.resharding.timing import Links

BLOCKS = 16
"""The largest tensor is passed on in so many blocks, as far as these are small."""


@dataclass(frozen=True)
class Training:
    """A training step: its parts, and the flows that carry it out."""

    model: Model
    schedule: Schedule
    times: Times
    """How long the virtual stages compute."""
    hosts: int
    """How many hosts a stage has."""
    carried: Carried
    computing: tuple[tuple[int, Placed], ...]
    """The tasks of the graph that are computation, each on one host of a stage, with its action."""


@lru_cache(maxsize=16)
def training(options: PipelineOptions) -> Training:
    """Return a training step.

    Raises:
        InputError: what is asked makes no sense, or needs more hosts.
    """
    model = model_of(options.model)
    if options.micro_batches:
        model = model.in_microbatches(options.micro_batches)
    hosts, devices = _mesh_of(options, model)
    model = replace(model, hosts=hosts, devices=devices)
    schedule = _schedule_of(options, model)
    check(schedule)
    refuse(
        schedule.stages * hosts > len(options.places),
        f"{schedule.stages} stages of {hosts} hosts are {schedule.stages * hosts}: the network has "
        f"{len(options.places)} ranks; choose a larger network (--leaves, --hosts-per-leaf), or "
        "fewer stages",
    )
    scale = Scale(options.rate_bps, options.slowdown)
    flops = device_flops(model, options.efficiency)
    times = scale.times(times_of(model, schedule.virtual_stages, flops))
    step = _Step(options, model, schedule, times, scale)
    step.build()
    return Training(model, schedule, times, hosts, step.carrier.carried(), (*step.computing,))


def _mesh_of(options: PipelineOptions, model: Model) -> tuple[int, int]:
    if not options.stage_mesh:
        return model.hosts, model.devices
    found = re.fullmatch(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})", options.stage_mesh)
    if found is None:
        raise InputError(
            f"stage-mesh {shown(options.stage_mesh)} is no mesh: write hosts x devices of a stage, "
            "like 1x4"
        )
    return int(found[1]), int(found[2])


def _schedule_of(options: PipelineOptions, model: Model) -> Schedule:
    name, _, _ = parts_of_algorithm(options.algorithm)
    stages, chunks = options.stages or model.stages, options.model_chunks
    if name.endswith(FILE_ENDING):
        schedule = read_schedule(Path(name))
        for what, asked, has in (
            ("stages", options.stages, schedule.stages),
            ("micro-batches", options.micro_batches or model.microbatches, schedule.microbatches),
        ):
            refuse(
                asked not in (0, has),
                f"{schedule.what} is for {has} {what}, and there are {asked}: say --{what} {has}, "
                "or change the file",
            )
        return schedule
    if name == INTERLEAVED:
        return make(name, stages, model.microbatches, max(chunks, 2), options.delayed)
    return make(name, stages, model.microbatches, 1, options.delayed)


class _Step:
    """A training step that is put together."""

    def __init__(
        self, options: PipelineOptions, model: Model, schedule: Schedule, times: Times, scale: Scale
    ) -> None:
        self._options, self._schedule, self._times = options, schedule, times
        _, self._strategy_name, self._way = parts_of_algorithm(options.algorithm)
        self._boundaries = [
            self._scaled(each, scale, model)
            for each in model.boundaries(schedule.virtual_stages)
            if each.source % schedule.stages != each.destination % schedule.stages
        ]
        self._meshes = [
            Mesh(tuple(range(stage * model.hosts, (stage + 1) * model.hosts)), model.devices)
            for stage in range(schedule.stages)
        ]
        largest = max((each.size_bytes for each in self._boundaries), default=1)
        block_bytes = usual_block_bytes(options.block_bytes, largest, BLOCKS, options.mtu)
        flows = Flows(len(options.places), options.rate_bps, options.local_factor, block_bytes)
        self.carrier = Carrier(flows, lambda host: options.places[host])
        self._links = Links(
            options.rate_bps, options.mtu, block_bytes, options.delay_ns, options.places
        )
        self.computing: list[tuple[int, Placed]] = []
        self._plans: dict[tuple[Boundary, bool], ReshardingPlan] = {}
        self._strategies: dict[tuple[Boundary, bool], Strategy] = {}

    def _scaled(self, boundary: Boundary, scale: Scale, model: Model) -> Boundary:
        if self._way == "signal":
            return replace(boundary, shape=(1,) * len(boundary.shape))
        return replace(boundary, shape=scale.shape(boundary.shape, model.hosts))

    def build(self) -> None:
        """Add all actions, each after those whose results it needs."""
        ended: dict[int, tuple[Event, ...]] = {}
        """By host, the end of its last action, and of what it has to send before the next."""
        inputs: dict[Placed, dict[int, list[Event]]] = {}
        for placed in _in_order(self._schedule):
            done: dict[int, tuple[Event, ...]] = {}
            for host in self._meshes[placed.stage].hosts:
                come = inputs.get(placed, {}).get(host, ())
                after = dict.fromkeys((*ended.get(host, ()), *come))
                wait = self.carrier.flows.builder.wait(host, self._compute_ns(placed), after)
                self.computing.append((wait, placed))
                ended[host] = done[host] = ((wait, DONE),)
            for boundary, backward, target in self._results(placed):
                found = self._plan(boundary, backward)
                key = boundary, backward
                if key not in self._strategies:
                    self._strategies[key] = strategy_named(
                        self._strategy_name, found, self.carrier, self._links
                    )
                there, sent = self.carrier.add(found, self._strategies[key], done)
                for host, events in there.items():
                    inputs.setdefault(target, {}).setdefault(host, []).extend(events)
                if self._way == "blocking":
                    for host, free in sent.items():
                        ended[host] = (*ended[host], *free)

    def _compute_ns(self, placed: Placed) -> int:
        virtual = self._schedule.virtual(*placed)
        return self._times.of(placed.action, virtual, self._schedule.delayed)

    def _results(self, placed: Placed) -> Iterator[tuple[Boundary, bool, Placed]]:
        """Yield the tensors that an action makes for others: with whether they go back, and which
        action needs them."""
        action, schedule = placed.action, self._schedule
        virtual = schedule.virtual(*placed)
        for boundary in self._boundaries:
            if action.kind == "F" and boundary.source == virtual:
                yield boundary, False, schedule.placed("F", action.microbatch, boundary.destination)
            elif action.kind == "B" and boundary.destination == virtual:
                yield boundary, True, schedule.placed("B", action.microbatch, boundary.source)

    def _plan(self, boundary: Boundary, backward: bool) -> ReshardingPlan:
        if (boundary, backward) not in self._plans:
            ends = [
                self._meshes[virtual % self._schedule.stages]
                for virtual in (boundary.source, boundary.destination)
            ]
            hosts = "S0" if ends[0].shape[0] > 1 else "R"  # all stages have meshes of one shape
            spec = self._options.sharding or hosts + "R" * (len(boundary.shape) - 1)
            if self._way == "signal":
                spec = "R" * len(boundary.shape)
            tensor = Tensor(boundary.shape, boundary.dtype, spec, spec)
            source, destination = reversed(ends) if backward else ends
            self._plans[boundary, backward] = plan(
                source, destination, [tensor], self._options.balance, self._options.seed
            )
        return self._plans[boundary, backward]


def _in_order(schedule: Schedule) -> Iterator[Placed]:
    """Yield all actions of a schedule that was checked, each after those it needs and after those
    before it on its stage."""
    heads = [0] * schedule.stages
    done: set[Placed] = set()
    total = sum(map(len, schedule.actions))
    while len(done) < total:
        for stage, actions in enumerate(schedule.actions):
            while heads[stage] < len(actions) and _is_ready(
                schedule, stage, actions[heads[stage]], done
            ):
                placed = Placed(stage, actions[heads[stage]])
                heads[stage] += 1
                done.add(placed)
                yield placed


def _is_ready(
    schedule: Schedule, stage: int, action: Action, done: Sequence[Placed] | set[Placed]
) -> bool:
    return all(each in done for each in schedule.inputs(stage, action))
