"""What a format of network files is asked, and what all formats have in common."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from weft.base.errors import InputError
from weft.base.placed import PlacedDocument
from weft.base.units import parse_duration, shown
from weft.topo.network_document import NetworkDocument

MOST_NAMED = 8
"""The most programs that a message names."""
SOURCE = ".p4"
_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|ms|us)?(?:ecs?)?\s*")
"""A time as tc takes it."""


@dataclass(frozen=True)
class Programs:
    """The programs that somebody names for the switches of a network file."""

    default: str = ""
    """That of all switches that the file names none for; empty: there is none."""
    by_switch: Mapping[str, str] = field(default_factory=dict)
    """Those of some switches, whatever the file says."""


class LabFormat(Protocol):
    """A format of network files."""

    name: str
    """What messages call it."""
    links: str
    """The place of the list of links in such a document, in the order of those of what `read`
    returns."""

    def fits(self, content: Any) -> bool:
        """Return whether a document, as dicts, lists and plain values, is one of the format."""

    def read(self, document: PlacedDocument, programs: Programs) -> NetworkDocument:
        """Return the network that a document describes, in Weft's own form. Raises InputError with
        the line of what makes no sense, or of what Weft has not."""


def program_of(
    document: PlacedDocument, programs: Programs, switch: str, place: str, named: str = ""
) -> str:
    """Return the path of a switch's program.

    Args:
        place: that of the switch in the document.
        named: what the document names as its program: a source, or BMv2's JSON, as which another
            compiler writes it, and in place of which Weft compiles the source.

    Raises:
        InputError: there is none, or it is not there.
    """
    if own := programs.by_switch.get(switch, "" if named else programs.default):
        return str(Path(own).absolute())
    if not named:
        raise document.wrong(
            place,
            f"the file names no program for {switch}: name one for all such switches by --program "
            f"FILE{SOURCE} (in Python program=...), or for this one by --program "
            f"{switch}=FILE{SOURCE}; {_beside(document)}",
        )
    source = Path(named)
    if source.suffix != SOURCE:
        source = Path(source.name).with_suffix("")
        source = source if source.suffix == SOURCE else source.with_suffix(SOURCE)
    for folder in folders_of(document):
        if (folder / source).is_file():
            return str((folder / source).absolute())
    raise document.wrong(
        place,
        f"program {shown(named)}: there is no {source} in {_listed(folders_of(document))}, from "
        f"which Weft would compile it: name the source by --program {switch}=FILE{SOURCE}; "
        f"{_beside(document)}",
    )


def check_switches(document: PlacedDocument, programs: Programs, switches: Sequence[str]) -> None:
    """Raise InputError if programs are named for other switches than there are."""
    for name in programs.by_switch:
        if name not in switches:
            raise InputError(
                f"program {name}={programs.by_switch[name]}: {document.path} has no switch {name}; "
                f"it has {', '.join(switches)}"
            )


def file_beside(document: PlacedDocument, place: str, named: str) -> str:
    """Return the path of a file that a document names, by its own folder, or by that above it,
    where such files are often used from. Raises InputError if it is in neither."""
    for folder in folders_of(document):
        if named and (folder / named).is_file():
            return str((folder / named).absolute())
    raise document.wrong(
        place, f"{shown(named)}: there is no such file in {_listed(folders_of(document))}"
    )


def folders_of(document: PlacedDocument) -> tuple[Path, Path]:
    """Return where files that a document names are looked for."""
    folder = Path(os.path.normpath(document.path.parent))
    return folder, Path(os.path.normpath(folder / ".."))


def check_unique(document: PlacedDocument, places: Mapping[str, str], what: str) -> None:
    """Raise InputError if two values are alike, given by their places."""
    first: dict[str, str] = {}
    for place, value in places.items():
        key = value.partition("/")[0].lower()
        if (other := first.setdefault(key, place)) != place:
            raise document.wrong(
                place, f"{what} {key} is that of {other} already (line {document.line(other)})"
            )


def delay_of(document: PlacedDocument, place: str, value: object) -> str:
    """Return the delay of a link that a document gives as Mininet takes it: a number with a unit,
    or of microseconds."""
    parts = _TIME.fullmatch(str(value)) if isinstance(value, (str, int, float)) else None
    if parts is None:
        raise document.wrong(
            place, f"{shown(value)} is no delay: write a number with a unit, like '5ms' or '100us'"
        )
    number, unit = parts.groups("us")
    with document.blaming(place):
        return f"{parse_duration(number + unit, 'delay')}ns"


def rate_of(document: PlacedDocument, place: str, value: object) -> int:
    """Return the rate of a link that a document gives as Mininet takes it, in Mbit/s."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise document.wrong(place, f"{shown(value)} is no bandwidth in Mbit/s, like 0.5 or 10")
    return round(value * 1e6)


def _beside(document: PlacedDocument) -> str:
    found = [
        os.path.normpath(path)
        for folder in folders_of(document)
        for inside in (folder, folder / "solution")
        for path in sorted(inside.glob(f"*{SOURCE}"))
    ]
    named = ", ".join([*dict.fromkeys(found)][:MOST_NAMED])
    return f"beside it lie {named}" if found else "no program lies beside it"


def _listed(folders: Sequence[Path]) -> str:
    return " or ".join(map(str, folders))
