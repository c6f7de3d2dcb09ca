"""Random scenarios in the simulated world, with any faults, by any algorithm: never wrong data."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from tests.support.collective_names import COLLECTIVES

from weft.agents.collectives.names import OPS
from weft.base.errors import InputError
from weft.experiments.families.fsdp.models import ALGORITHMS as FSDP_ALGORITHMS
from weft.experiments.families.fsdp.models import FSDP
from weft.experiments.results.results import Run
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.choices import DTYPES
from weft.experiments.scenario.scenario import Scenario
from weft.tools.attack.kind import Broken, Trial
from weft.topo.faults import OPCODE_KINDS, Fault
from weft.topo.faults.packets import PACKET_ACTIONS
from weft.topo.network import LINK_TIERS, Topology

SHARE = 2.0
DEADLINE_S = 300.0
NEEDS_ROOT = False

TRIES = 200
"""To draw a scenario that makes sense."""
SURVIVABLE_LOSS = 0.005
"""On each of up to six links of a path. With more, it is luck whether an operation ends in time."""
AGAIN = 0.25
"""How often a scenario is run twice: both must be the same, bit for bit."""
PATHS = (
    "ecmp", "ecmp", "ecmp-2", "destination", "spray", "spray-round-robin", "reps", "plb",
    "ethereal", "ethereal-ports",
)  # fmt: skip
NAMED = re.compile(r"\b(rank|ranks|link|server|servers|switch|host)\b|killed|leaf\d|spine\d")
WRONG = re.compile(r"\bis wrong\b|\bare wrong\b")
"""What `Workload.check` says of data that are not what they must be."""


def attack(trial: Trial) -> str:
    """Simulate a scenario."""
    scenario, survivable = _draw(trial.random)
    again = trial.chance(AGAIN)
    trial.note(f"{scenario}")
    algorithm = scenario.algorithms[0]
    program = program_of(scenario)
    run = simulate(scenario, program, algorithm, 0, lambda _: None)
    outcome = _judge(run, survivable)
    if again:
        other = simulate(scenario, program, algorithm, 0, lambda _: None)
        for what in ("digest", "completion_ns", "error", "links", "ranks"):
            if getattr(run, what) != getattr(other, what):
                raise Broken(
                    f"the same scenario twice, and {what} differs: {getattr(run, what)!r:.500} "
                    f"and {getattr(other, what)!r:.500}"
                )
    return outcome


def _judge(run: Run, survivable: bool) -> str:
    ranks = [rank.verified for rank in run.ranks]
    if run.verified != (all(ranks) and run.completion_ns is not None and run.error is None):
        raise Broken(
            f"verified is {run.verified}, with ranks {ranks}, completion {run.completion_ns} and "
            f"error {run.error!r}"
        )
    if run.verified:
        assert run.completion_ns is not None
        if run.completion_ns < run.bound_ns:
            raise Broken(f"done in {run.completion_ns} ns, which theory allows from {run.bound_ns}")
        return "verified"
    told = [run.error or "", *(rank.error or "" for rank in run.ranks if not rank.verified)]
    if any(WRONG.search(text) for text in told):
        raise Broken(f"wrong data were taken for right by a transport: {told}")
    if not NAMED.search(told[0]):
        raise Broken(f"the error names neither a rank nor a link: {told[0]!r}")
    if survivable:
        raise Broken(f"faults that can be lived through were not: {told}")
    return "error"


def _draw(random: Random) -> tuple[Scenario, bool]:
    """A scenario that makes sense, and whether its faults can be lived through."""
    last: InputError | None = None
    for _ in range(TRIES):
        options = _options(random)
        try:
            plain = Scenario(**options)
            faults, survivable = _faults(random, plain.network())
            if plain.ranks > 1:
                scenario = Scenario(**options, faults=tuple(map(Fault.parse, faults)))
                return scenario, survivable and options["loss"] <= SURVIVABLE_LOSS
        except InputError as error:
            last = error
    raise AssertionError(f"{TRIES} scenarios made no sense, the last since {last}")


def _options(random: Random) -> dict[str, Any]:
    collective = random.choice([*COLLECTIVES, FSDP])
    algorithms = {**COLLECTIVES, FSDP: FSDP_ALGORITHMS}[collective]
    algorithm = random.choice(algorithms)
    options: dict[str, Any] = {
        "world": "simulated",
        "collective": collective,
        "algorithms": (algorithm,),
        "seed": random.randrange(1000),
        "loss": random.choice([0.0, 0.0, 0.0, 0.005, 0.02, 0.3]),
        "rate_bps": random.choice([0, 20_000_000, 1_000_000_000]),
        "delay_ns": random.choice([0, 0, 1000, 100_000]),
        "paths": random.choice(PATHS),
        "notice": random.choice(["never", "never", "at-once", "late"]),
    }
    shape = random.choice(["leaf-spine", "leaf-spine", "single", "fat-tree", "pods"])
    options["topology"] = shape
    if shape == "leaf-spine":
        options |= {"leaves": random.randint(1, 4), "spines": random.randint(1, 3)}
    if shape == "pods":
        sizes = ("pods", "leaves", "spines", "uplinks")
        options |= {name: random.randint(1, 3) for name in sizes}
        options["hosts_per_leaf"] = random.randint(1, 2)
    elif shape in ("leaf-spine", "single"):
        options["hosts_per_leaf"] = random.randint(1, 4)
    else:
        options |= {"k": random.choice([2, 4]), "tiers": random.choice([2, 3])}
    adds = algorithm in ("switch", "in-network")
    options["mtu"] = random.choice([2048, 4096] if adds else [256, 1024, 4096])
    if collective == FSDP:
        options |= {"model": "", "layers": random.randint(1, 3)}
        options["size_bytes"] = random.choice([4096, 30_000, 65536])
    else:
        options["size_bytes"] = 8 * random.choice([0, 1, 7, 512, 2500, 5000])
    if collective in ("reduce-scatter", "allreduce"):
        options["dtype"] = random.choice(["float32", "int32"] if adds else DTYPES)
        options["op"] = random.choice(["sum", "average"] if adds else OPS)
    if collective in ("broadcast", "many-to-one"):
        options["root"] = random.randrange(2)
    if algorithm == "multicast":
        options |= {
            "workers": random.choice([1, 1, 2]), "batch": random.choice([1, 1, 4]),
            "cutoff": random.choice(["adaptive", "adaptive", "paper", "fetch-only"]),
        }  # fmt: skip
        if collective == "allgather" and random.random() < 0.4:
            options["chains"] = random.randint(1, 4)
    if algorithm == "optcast":
        options["server_placement"] = random.choice(["dedicated", "ranks"])
        if random.random() < 0.5:
            options["servers"] = random.randint(1, 3)
    if collective != FSDP and random.random() < 0.3:
        options["operations"] = random.randint(1, 4)
        options["at_once"] = random.randint(1, options["operations"])
    return options


def _faults(random: Random, network: Topology) -> tuple[list[str], bool]:
    """Faults that fit a network, and whether all of them can be lived through."""
    directions = [each.name for each in network.directions]
    links = [link.name for link in network.links]
    wheres = [*directions, *links, *LINK_TIERS, "*"]
    fabric = [each.name for each in network.directions if each.tier.startswith("fabric")]
    switches = [switch.name for switch in network.switches]
    hosts = [host.name for host in network.hosts]
    lines, survivable = [], True
    for _ in range(random.choice([0, 1, 1, 2, 3, 6])):
        match random.choice(["packet"] * 6 + ["short", "short", "slow", "loss", "long", "kill"]):
            case "packet":
                first = random.randint(1, 60)
                line = f"{random.choice(wheres)}:{random.choice(PACKET_ACTIONS)}={first}"
                if random.random() < 0.2:
                    line += f"-{first + random.randint(0, 3)}"
                if random.random() < 0.6:
                    line += f",opcode={random.choice(sorted(OPCODE_KINDS))}"
            case "short":
                where = random.choice([*directions, *links, *switches])
                line = f"{where}:fail,at={random.randint(0, 9000)}us"
                line += f",for={random.randint(1, 100_000)}us"
            case "slow" if fabric:
                line = f"{random.choice(fabric)}:slow,rate={random.choice(['0.1', '50%'])}"
            case "kill":
                line = f"{random.choice(hosts)}:kill,at={random.randint(0, 50)}ms"
                survivable = False
            case "loss":
                line = f"{random.choice(links)}:loss={random.choice(['0.2', '1'])}"
                survivable = False
            case _:
                where = random.choice([*directions, *links, *switches])
                line = f"{where}:fail,at={random.randint(0, 50)}ms"
                survivable = False
        lines.append(line)
    return lines, survivable
