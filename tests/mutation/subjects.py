"""What is mutated: named groups of modules, and in which form their code runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from switch.errors import InputError

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
        without=("agents/transport/compiled_*.py", "agents/transport/*layout.py"),
    ),
    Group("kernels", ("agents/transport/compiled_*.py", "agents/servers/compiled_sums.py"),
          plain=True),
    Group("wire", ("agents/wire/crc.py", "agents/wire/headers.py", "agents/wire/packets.py"),
          plain=True),
    Group("collectives", ("agents/collectives/*.py", "agents/servers/*.py"),
          without=("agents/servers/compiled_sums.py",)),
    Group(
        "planners",
        (
            "controller/plan.py", "controller/routes.py", "controller/multicast.py",
            "controller/faults.py", "controller/flows.py", "controller/clos_paths.py",
            "controller/ethereal.py", "controller/selector_hash.py", "controller/link_loads.py",
            "controller/uniform_loads.py", "controller/pinned_paths.py", "controller/spraying.py",
            "controller/congestion.py", "controller/aggregation.py",
        ),
    ),
    Group(
        "theory",
        (
            "experiments/bounds.py", "experiments/fabric_bound.py", "experiments/longest_path.py",
            "experiments/traffic_model.py", "experiments/transfers.py",
            "experiments/optcast_model.py", "experiments/flow_steps.py", "experiments/marking.py",
            "experiments/chance.py",
        ),
    ),
    Group(
        "results",
        (
            "experiments/results.py", "experiments/measured.py", "experiments/summary.py",
            "experiments/fidelity.py", "experiments/spread.py", "experiments/comparison.py",
            "experiments/path_figures.py", "experiments/outages.py",
            "experiments/lanes.py", "experiments/telemetry.py",
        ),
    ),
)  # fmt: skip
"""The groups. Of the transport its layouts are left out, numbers of words of which each is as good
as another; of everything what only the emulated world runs, which builds networks as root."""


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
