"""What tells a point of an experiment from all others, wherever and whenever it is run.

Two runs of a point have equal keys if nothing that a result hangs on differs: the scenario with all
defaults filled in and its seed, the switches' programs as they were compiled, the files that it
names, and the version of Weft, down to its sources.
"""

import hashlib
import json
from functools import cache
from importlib import metadata
from pathlib import Path

from weft.base import VERSION
from weft.base.cache import PACKAGE
from weft.experiments.runs.inputs import own_programs
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import ProgramFiles

SOURCES = (".py", ".p4", ".lark")
KEY_DIGITS = 20
"""The hexadecimal digits of a key: 80 bits, so that no two of 10,000 points have the same."""


def version() -> str:
    """Return Weft's version with a digest of its sources, and the packages that add to it.

    A worker must have the same one; what another version measured is not resumed.
    """
    return _version()


@cache
def _version() -> str:
    digest = hashlib.sha256()
    folders = (PACKAGE, *(each for each in sorted(PACKAGE.iterdir()) if each.is_dir()))
    for folder in folders:  # each may be a link, into which rglob does not go on its own
        found = folder.glob("*") if folder is PACKAGE else folder.resolve().rglob("*")
        for file in sorted(each for each in found if each.suffix in SOURCES):
            digest.update(f"{folder.name}/{file.name} ".encode() + file.read_bytes())
    return " with ".join([f"{VERSION}+{digest.hexdigest()[:12]}", *packages()])


@cache
def packages() -> list[str]:
    """Return the packages that add to Weft, with their versions; their sources may change under
    the same version."""
    groups = metadata.entry_points()
    others = {
        f"{point.dist.name} {point.dist.version}"
        for group in groups.groups
        if group.startswith("weft.")
        for point in groups.select(group=group)
        if point.dist is not None
    }
    return sorted(others)


def key_of(scenario: Scenario, program: ProgramFiles) -> str:
    """Return the key of a scenario with one seed, whose switches run a compiled program."""
    digest = hashlib.sha256(version().encode())
    digest.update(json.dumps(scenario.to_dict(), sort_keys=True, default=str).encode())
    digest.update(_content(program.json))
    network = scenario.network()
    for name, own in sorted(own_programs(network).items()):
        digest.update(name.encode() + _content(own.json))
    for file in scenario.family.files(scenario):
        digest.update(_content(file))
    return digest.hexdigest()[:KEY_DIGITS]


def _content(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()
