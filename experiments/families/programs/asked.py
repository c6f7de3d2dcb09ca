"""What is asked of a program of PyTorch beside its network, and what could not be run."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.base import files
from weft.base.errors import InputError, MachineError, refuse
from weft.base.option import FAULTS, NAMES, OPERATION, TEXT, WHOLE, OptionKind, option
from weft.base.units import listed, parse_duration, parse_number
from weft.pytorch.defaults import DEFAULTS

BACKENDS = ("weft", "gloo")
NAMES_FOR_WEFT = ("gloo", "nccl")
"""The backends whose names can be given another meaning: Weft."""
MOST_LIMIT_S = 24 * 3600.0
MOST_RESTARTS = 1000
TORCH_MISSING = (
    "torch is not installed for {python}: run './weft setup --torch' in a checkout, or install "
    "torch's CPU build (docs/pytorch.md, 'From a pip installation')"
)


def limit_s(name: str, text: str) -> float:
    """Return the seconds of ``25``, ``2.5``, ``25s`` or ``1500ms``. Raises InputError."""
    seconds = parse_number(text)
    return parse_duration(text, name) / 1e9 if seconds is None else seconds


def _algorithm(collective: str, some: str) -> Any:
    """Return the default and the row of a collective's algorithm."""
    return option(
        "",
        TEXT,
        f"{some}; by size: 'ring<64KiB,...'.",
        group=OPERATION,
        metavar="ALGORITHM",
        default_text=DEFAULTS[collective],
    )


def _fault(metavar: str, about: str) -> Any:
    """Return the default and the row of a fault."""
    return option((), NAMES, about, group=FAULTS, metavar=metavar)


@dataclass(frozen=True)
class ProgramAsked:
    """What is asked of a run beside its network, and beside the program itself."""

    ranks: int | None = option(
        None,
        WHOLE,
        "Ranks, on the first hosts.",
        group=OPERATION,
        default_text="one on every host",
    )
    """How many hosts run the program, from the first one on; None: all."""
    backend: str = option(
        "weft",
        TEXT,
        "What init_process_group() without a backend gets: {choices}.",
        group=OPERATION,
        metavar="NAME",
        choices=BACKENDS,
    )
    as_weft: tuple[str, ...] = option(
        (),
        NAMES,
        "A backend that the program names and that is to mean weft: {choices}; repeatable.",
        group=OPERATION,
        name="as",
        metavar="NAME",
        choices=NAMES_FOR_WEFT,
    )
    """The backends by whose names the program gets Weft's."""
    allgather: str = _algorithm("allgather", "multicast, ring, ...")
    """By what the collective goes, like ``ring`` or ``ring<64KiB,switch``; empty: the default."""
    broadcast: str = _algorithm("broadcast", "multicast, k-nomial, ...")
    reduce_scatter: str = _algorithm("reduce-scatter", "ring, switch, optcast, ...")
    allreduce: str = _algorithm("allreduce", "ring, switch, optcast, ...")
    max_restarts: int = option(
        0,
        WHOLE,
        "How often all ranks are started anew after one has failed.",
        group=OPERATION,
    )
    fail_link: tuple[str, ...] = _fault(
        "LINK@WHEN[..WHEN]", "A link fails, like leaf0:spine0@step10 or @2s..4s; repeatable."
    )
    """Links that fail, and may come back, at the ends of rank 0's steps or after a time."""
    change_link: tuple[str, ...] = _fault(
        "LINK:FIGURES@WHEN",
        "A link goes on with other figures, like leaf0:spine0:delay=5ms,loss=1%@step10; "
        "repeatable.",
    )
    kill_rank: tuple[str, ...] = _fault(
        "RANK@WHEN", "A rank is killed (SIGKILL), like 2@step5; repeatable."
    )
    """Ranks that are killed, at the end of a step of theirs or after a time."""
    delay_rank: tuple[str, ...] = _fault(
        "RANK:TIME[@STEP]",
        "A rank does nothing for a while after each step, like 1:50ms, or after one, like "
        "1:2s@step5; repeatable.",
    )
    slow_rank: tuple[str, ...] = _fault(
        "RANK:FACTOR", "A rank takes so many times as long to compute, like 1:2.0; repeatable."
    )
    limit_s: float = option(
        3600.0,
        OptionKind("seconds, or a time like 1500ms", limit_s, write="{:g}".format),
        "After so long the program is ended.",
        group=OPERATION,
        name="timeout",
        metavar="SECONDS",
    )
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the program's environment beside those of this process."""

    @property
    def algorithms(self) -> dict[str, str]:
        """Return what is asked of algorithms, by collective."""
        asked = {each: getattr(self, each.replace("-", "_")) for each in DEFAULTS}
        return {collective: text for collective, text in asked.items() if text}


def check_program(script: str, arguments: Sequence[str], options: ProgramAsked) -> None:
    """Raise InputError or MachineError for a program that could not be run on any network."""
    from weft.pytorch.choices import choices_of  # it takes numpy, which help goes without

    if options.backend not in BACKENDS:
        raise InputError(f"--backend {options.backend!r}: choose {listed(BACKENDS, 'or')}")
    for name in options.as_weft:
        if name not in NAMES_FOR_WEFT:
            raise InputError(
                f"--as {name!r}: choose {listed(NAMES_FOR_WEFT, 'or')}, a name of a backend that "
                "the program gives to init_process_group and that is to mean weft"
            )
    if not 0 <= options.max_restarts <= MOST_RESTARTS:
        raise InputError(f"--max-restarts {options.max_restarts}: choose 0 to {MOST_RESTARTS}")
    choices_of(options.algorithms)
    if not 0 < options.limit_s <= MOST_LIMIT_S:
        raise InputError(
            f"--timeout {options.limit_s:g} s: choose more than 0 and at most {MOST_LIMIT_S:g} s"
        )
    if script == "-m":
        if not arguments:
            raise InputError("torch run -m: name the module to run behind it")
        module = str(arguments[0])
        refuse(
            "/" in module or module.endswith(".py"),
            f"module {module!r}: this is a file; name a module behind -m, like package.train, or "
            "the file without -m",
        )
        package, here = module.partition(".")[0], Path.cwd()
        if (
            importlib.util.find_spec(package) is None
            and not (here / package).is_dir()
            and not (here / f"{package}.py").is_file()
        ):
            raise InputError(
                f"module {module!r}: there is no {package!r}, neither here nor installed"
            )
    else:
        if not Path(script).is_file():
            raise InputError(
                f"script {script!r}: there is no such file; name a Python file, or -m and a module"
            )
        with files.told_as_input(f"script {script!r} cannot be read"):
            files.check_shown(Path(script), (".py",))  # Python shows lines of what it cannot parse
    if importlib.util.find_spec("torch") is None:
        raise MachineError(TORCH_MISSING.format(python=sys.executable))
