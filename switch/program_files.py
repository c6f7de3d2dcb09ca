"""Where the P4 sources of the fabric are: in the checkout, or where pip put them."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from base.cache import CHECKOUT
from base.errors import InputError, MachineError

AGGREGATION_VALUES = 256
"""Numbers of 32 bits that an aggregation packet of the built-in switch carries."""
BMV2_AGGREGATION_VALUES = 64
"""The same where BMv2 runs the program: it takes statements one by one."""
_VALUES = (16, 32, 64, 128, 256)


def fabric_program() -> Path:
    """The fabric's P4 program, ``fabric.p4``, with its includes in ``include/`` beside it.

    Raises `MachineError` if it is nowhere to be found.
    """
    looked_at = []
    for folder in _folders():
        program = folder / "fabric.p4"
        if program.is_file():
            return program
        looked_at.append(str(folder))
    raise MachineError(
        f"fabric.p4 is in none of {', '.join(looked_at)}: run Weft from its checkout, or install "
        "it again with 'pip install --force-reinstall'"
    )


def fabric_macros(values: int = AGGREGATION_VALUES) -> dict[str, str]:
    """The macros to compile the fabric's program with, for packets of so many values.

    Raises `InputError` for a number that it does not take.
    """
    if values not in _VALUES:
        raise InputError(
            f"{values} values in an aggregation packet: the switch program takes "
            f"{', '.join(map(str, _VALUES[:-1]))} or {_VALUES[-1]}"
        )
    return {"AGGREGATION_VALUES": str(values)}


def _folders() -> Iterator[Path]:
    """The checkout's, then the data folders of the ways in which pip can have installed Weft."""
    if (CHECKOUT / "pyproject.toml").is_file():
        yield CHECKOUT / "p4"
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    for scheme in schemes:
        yield Path(sysconfig.get_path("data", scheme)) / "share" / "weft" / "p4"
    # pip install --target DIR: data files go beside the packages.
    yield CHECKOUT / "share" / "weft" / "p4"
