"""The network that a command is given: by options, as a file of Weft's own, or as one of another
tool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from weft.base.errors import InputError, refuse
from weft.experiments.scenario.networks import FILE_ENDING
from weft.topo.labs import LAB_ENDINGS

if TYPE_CHECKING:  # they take half a second, which help goes without
    from weft.experiments.scenario.scenario import Scenario
    from weft.interface.standing import Program
    from weft.topo.labs.lab_format import Programs

File = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Argument(
        metavar="[FILE]",
        help=f"A network file, NAME{FILE_ENDING}; or another tool's, NAME"
        f"{', NAME'.join(LAB_ENDINGS)}.",
        show_default=False,
    ),
]
"""What a command takes in place of ``--topology``."""


@dataclass(frozen=True)
class GivenNetwork:
    """A network, as the scenario that asks for it, and programs that are to be put in place of its
    own."""

    scenario: "Scenario"
    program: "Program | Mapping[str, Program] | None"


def given_network(
    file: Path | None, options: Mapping[str, Any], named: Sequence[str] = ()
) -> GivenNetwork:
    """Return the network that a command is given. Raises InputError.

    Args:
        file: the network file, if there is one.
        options: those of a scenario, by name.
        named: the values of ``--program``.
    """
    from weft.experiments.scenario.options import by_key, field_of, from_options, read_option
    from weft.interface.collectives import network_of, scenario_on
    from weft.topo.labs.reading import is_lab

    programs = _programs(named)
    if file is not None:
        refuse(
            "topology" in options,
            f"{file} and --topology say the same thing twice: keep one of them",
        )
        if is_lab(file):
            given = by_key(options, "options")
            fields = {field_of(name): read_option(name, value) for name, value in given.items()}
            return GivenNetwork(
                scenario_on(network_of(file, programs), "allgather", **fields), None
            )
        if file.suffix != FILE_ENDING:
            raise InputError(
                f"{file} is no network file: their names end in {FILE_ENDING} (Weft's own) or in "
                f"{' or '.join(LAB_ENDINGS)} (other tools'); a shape is --topology NAME"
            )
        options = {**options, "topology": str(file)}
    scenario = from_options({"collective": "allgather", **options})
    if not programs.by_switch:
        return GivenNetwork(scenario, Path(programs.default) if programs.default else None)
    names = [switch.name for switch in scenario.network().switches] if programs.default else []
    return GivenNetwork(scenario, {**dict.fromkeys(names, programs.default), **programs.by_switch})


def _programs(named: Sequence[str]) -> "Programs":
    """Return the programs that are named, ``PROGRAM.p4`` or ``SWITCH=PROGRAM.p4``. Raises
    InputError where two are that of the same switches."""
    from weft.topo.labs.lab_format import Programs
    from weft.topo.network_document import NODE_NAME

    default = ""
    by_switch: dict[str, str] = {}
    for text in named:
        name, equals, path = text.partition("=")
        if equals and NODE_NAME.fullmatch(name) and not Path(text).exists():
            if name in by_switch:
                raise InputError(f"--program {text}: {name} has {by_switch[name]} already")
            by_switch[name] = path
            continue
        refuse(
            default,
            f"--program {text}: all switches have {default} already; one switch's program is "
            "SWITCH=PROGRAM.p4",
        )
        default = text
    return Programs(default, by_switch)
