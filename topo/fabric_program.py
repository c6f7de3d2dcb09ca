"""The P4 program that every switch of a fabric runs, and the macros that it is compiled with."""

from pathlib import Path

from weft.base.cache import PACKAGE
from weft.base.errors import InputError, MachineError, refuse

AGGREGATION_VALUES = 256
"""How many numbers of 32 bits an aggregation packet of the built-in switch carries."""
BMV2_AGGREGATION_VALUES = 64
"""The same number if BMv2 runs the program; it is smaller since BMv2 takes statements one
by one."""
_VALUES = (16, 32, 64, 128, 256)

_PROGRAM = PACKAGE / "p4" / "fabric.p4"


def fabric_program() -> Path:
    """Return the path of the fabric's P4 program, ``fabric.p4``, whose includes are in ``include/``
    beside it.

    Raises `MachineError` if it is not there.
    """
    refuse(
        not _PROGRAM.is_file(),
        f"{_PROGRAM} is missing: run Weft from its checkout, or install it again with "
        "'pip install --force-reinstall'",
        MachineError,
    )
    return _PROGRAM.resolve()


def fabric_macros(values: int = AGGREGATION_VALUES) -> dict[str, str]:
    """Return the macros to compile the fabric's program with, for aggregation packets of so many
    values.

    Raises `InputError` for a number that the program does not take.
    """
    if values not in _VALUES:
        raise InputError(
            f"{values} values in an aggregation packet: the switch program takes "
            f"{', '.join(map(str, _VALUES[:-1]))} or {_VALUES[-1]}"
        )
    return {"AGGREGATION_VALUES": str(values)}
