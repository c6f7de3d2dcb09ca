"""What is asked of a program of PyTorch beside its network, and what could not be run."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from weft.base import files
from weft.base.errors import InputError, MachineError, refuse
from weft.pytorch.choices import choices_of

BACKENDS = ("weft", "gloo")
NAMES_FOR_WEFT = ("gloo", "nccl")
"""The backends whose names can be given another meaning: Weft."""
MOST_LIMIT_S = 24 * 3600.0
LIMIT_S = 3600.0
TORCH_MISSING = (
    "torch is not installed for {python}: run './weft setup --torch' in a checkout, or install "
    "torch's CPU build (docs/pytorch.md, 'From a pip installation')"
)


class TorchOptions(msgspec.Struct, frozen=True):
    """What is asked of a run beside its network."""

    algorithms: dict[str, str] = {}
    """By collective (allgather, broadcast, reduce-scatter, allreduce), like ``ring`` or
    ``ring<64KiB,switch``."""
    backend: str = "weft"
    """What ``init_process_group`` without a backend gets: weft or gloo."""
    as_weft: tuple[str, ...] = ()
    """The backends by whose names the program gets Weft's: gloo, nccl."""
    ranks: int | None = None
    """How many hosts run the program, from the first one on; None: all."""
    limit_s: float = LIMIT_S
    """After so long the program is ended."""
    environment: dict[str, str] = {}
    """Variables of the program's environment beside those of this process."""
    python: str = sys.executable


def check_program(script: str, arguments: Sequence[str], options: TorchOptions) -> None:
    """Raise InputError or MachineError for a program that could not be run on any network."""
    if options.backend not in BACKENDS:
        raise InputError(f"--backend {options.backend!r}: choose {' or '.join(BACKENDS)}")
    for name in options.as_weft:
        if name not in NAMES_FOR_WEFT:
            raise InputError(
                f"--as {name!r}: choose {' or '.join(NAMES_FOR_WEFT)}, a name of a backend that "
                "the program gives to init_process_group and that is to mean weft"
            )
    choices_of(options.algorithms)
    refuse(
        not 0 < options.limit_s <= MOST_LIMIT_S,
        f"--timeout {options.limit_s:g} s: choose more than 0 and at most {MOST_LIMIT_S:g} s",
    )
    if script == "-m":
        refuse(not arguments, "torch run -m: name the module to run behind it")
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
        refuse(
            not Path(script).is_file(),
            f"script {script!r}: there is no such file; name a Python file, or -m and a module",
        )
        with files.told_as_input(f"script {script!r} cannot be read"):
            files.check_shown(Path(script), (".py",))  # Python shows lines of what it cannot parse
    if importlib.util.find_spec("torch") is None:
        raise MachineError(TORCH_MISSING.format(python=sys.executable))
