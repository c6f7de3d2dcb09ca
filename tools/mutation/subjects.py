"""What is mutated: named groups of modules, and in which form their code runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.base.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Group:
    """Modules that belong together."""

    name: str
    paths: tuple[str, ...]
    """Of files from the checkout's root, with wildcards."""
    without: tuple[str, ...] = ()
    """Of the files so named, those that are not mutated."""
    plain: bool = False
    """Whether this is code that numba compiles; it is mutated, and run, in its plain form."""

    def files(self) -> list[str]:
        """The modules' paths from the root, sorted. Raises `InputError` for a name without any."""
        found: set[str] = set()
        for path in (*self.paths, *self.without):
            named = {str(each.relative_to(ROOT)) for each in ROOT.glob(path)}
            if not named:
                raise InputError(f"group {self.name!r}: there is no {path!r} in {ROOT}")
            found = found - named if path in self.without else found | named
        return sorted(found)


GROUPS = (
    Group(
        "transport",
        ("agents/transport/*.py",),
        without=("agents/transport/*layout.py",),
    ),
    Group("kernels", ("agents/transport/kernels/*.py", "agents/collectives/compiled_sums.py"),
          plain=True),
    Group("wire", ("agents/wire/crc.py", "agents/wire/headers.py", "agents/wire/packets.py"),
          plain=True),
    Group("collectives", ("agents/collectives/*.py", "agents/collectives/algorithms/*.py",
                          "agents/servers/*.py"),
          without=("agents/collectives/compiled_sums.py",)),
    Group(
        "planners",
        (
            "controller/plan.py", "controller/features/routes.py",
            "controller/features/multicast.py", "controller/features/faults.py",
            "controller/features/pinned_paths.py", "controller/features/aggregation.py",
            "controller/flows.py", "controller/clos_paths.py", "controller/ethereal.py",
            "controller/selector_hash.py", "experiments/loads/link_loads.py",
            "experiments/loads/uniform_loads.py",
        ),
    ),
    Group(
        "theory",
        (
            "experiments/theory/bounds.py", "experiments/theory/fabric_bound.py",
            "experiments/scenario/longest_path.py", "experiments/theory/traffic_model.py",
            "experiments/theory/flow_steps.py",
            "experiments/scenario/longest_path.py", "experiments/theory/chance.py",
            "experiments/paths/*.py", "experiments/paths/schemes/*.py",
        ),
    ),
    Group(
        "results",
        (
            "experiments/results/results.py", "experiments/runs/measured.py",
            "experiments/results/summary.py", "experiments/runs/fidelity.py",
            "experiments/results/spread.py", "experiments/results/comparison.py",
            "experiments/results/metric.py", "topo/worlds/emulated/outages.py",
            "experiments/theory/lanes.py", "experiments/results/telemetry.py",
            "experiments/results/metrics/*.py",
        ),
    ),
    Group("compiler", ("switch/compiler/**/*.py",)),
    Group(
        "engine",
        ("switch/engine/**/*.py",),
        without=(
            "switch/engine/native/*.py",
            "switch/engine/codegen/traced.py",
            *(
                f"switch/engine/dataplane/{name}.py"
                for name in (
                    "captures", "events", "hashes", "*layout", "pipeline", "queues", "runtime",
                    "telemetry",
                )
            ),
        ),
    ),
)  # fmt: skip
"""The groups. Of the transport its layouts are left out, names and numbers of which each is as good
as another; of the engine what is compiled with the loop; of everything what only the emulated world
runs, which builds networks as root."""


def groups_of(names: list[str]) -> list[Group]:
    """The groups that are named, or of them the modules that are; all without names. What is named
    twice is there once.

    Raises `InputError` for what is neither a group nor a module of one.
    """
    if not names:
        return list(GROUPS)
    for name in names:
        if not any(name in (group.name, *group.files()) for group in GROUPS):
            known = ", ".join(group.name for group in GROUPS)
            raise InputError(f"mutate --module {name!r}: name a group, {known}, or a module of one")
    found = []
    for group in GROUPS:
        paths = tuple(path for path in group.files() if path in names)
        if group.name in names:
            found.append(group)
        elif paths:
            found.append(Group(group.name, paths, plain=group.plain))
    return found
