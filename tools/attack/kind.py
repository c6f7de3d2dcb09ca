"""What a kind of attack is, and what one trial of it gets."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Protocol, cast

MARK = "WEFT_ATTACK"
"""The environment variable by which the processes of a trial are known."""
KINDS = "weft.tools.attack.kinds"


class Broken(Exception):
    """Something that has to hold under attack did not."""


@dataclass
class Trial:
    """One trial: what it draws from, and a folder of its own, which goes with it."""

    kind: str
    seed: int
    number: int
    folder: Path
    mark: str = ""
    """Of this trial's processes: the value of `MARK` in their environment."""
    notes: list[str] = field(default_factory=list)
    """What was drawn and done, to be shown if the trial fails."""
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        # Of a text, Random makes the same numbers in every process and version of Python.
        self.random = Random(f"{self.seed}/{self.kind}/{self.number}")

    def note(self, text: str) -> None:
        """Remember something that whoever looks into a failure wants to know."""
        self.notes.append(text)

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.random.random() < probability


class Kind(Protocol):
    """A kind of attack: a module whose docstring's first line says what it is."""

    SHARE: float
    """Of the time, in relation to those of the other kinds."""
    DEADLINE_S: float
    """A trial that takes longer hangs: it is ended, and has failed. Generous, for machines that
    have much else to do."""
    NEEDS_ROOT: bool

    def attack(self, trial: Trial) -> str:
        """Make a trial; returns in a word or two what came of it.

        Raises:
            Broken: something did not hold. Any other exception is a failure, too.
        """
        ...


@dataclass(frozen=True)
class Named:
    """A kind by its name, and what is known of it without a trial."""

    name: str
    module: str
    """Where it is imported from."""
    what: str
    kind: Kind


def load_kind(module: str) -> Named:
    """Import a kind."""
    loaded = importlib.import_module(module)
    what = (loaded.__doc__ or "").strip().splitlines() or [""]
    return Named(module.rpartition(".")[2], module, what[0], cast(Kind, loaded))


def find_kinds(package: str = KINDS) -> list[Named]:
    """All kinds there are: the modules of a package, by name."""
    where = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(where))
    return [load_kind(f"{package}.{name}") for name in names]


def lacking(kind: Kind) -> str:
    """What this machine or user lacks for a kind; empty if nothing.

    A kind that needs a module which need not be installed names it: ``NEEDS_MODULE``.
    """
    if kind.NEEDS_ROOT and os.geteuid() != 0:
        return "it needs root"
    module = getattr(kind, "NEEDS_MODULE", "")
    return f"{module} is not installed" if module and find_spec(module) is None else ""


def draw(random: Random, choices: Sequence[str], share: float = 0.5) -> list[str]:
    """Some of the choices, in their order, each with a probability."""
    return [choice for choice in choices if random.random() < share]
