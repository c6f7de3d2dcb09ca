"""How network files of other tools are read, whichever format they are in."""

import os
import re
from pathlib import Path

from weft.base.errors import InputError
from weft.base.placed import PlacedDocument, placed, text_of
from weft.base.placed_yaml import placed_yaml
from weft.topo.labs import LAB_ENDINGS
from weft.topo.labs.containerlab import Containerlab
from weft.topo.labs.lab_format import LabFormat, Programs
from weft.topo.labs.netlab import Netlab
from weft.topo.labs.p4utils import P4Utils
from weft.topo.labs.tutorials import Tutorials
from weft.topo.network import Topology
from weft.topo.wiring import topology_of

FORMATS: tuple[LabFormat, ...] = (Containerlab(), Netlab(), Tutorials(), P4Utils())
"""All formats, in the order in which they are tried."""
_NODE = re.compile(r"(?:host|switch) '([^']+)'")
_NODES = ("hosts", "switches", "nodes", "topology.nodes", "topology.hosts", "topology.switches")
"""Where formats have their nodes."""


def is_lab(path: object) -> bool:
    """Return whether a path names such a file, by its ending."""
    return isinstance(path, (str, os.PathLike)) and os.fspath(path).endswith(LAB_ENDINGS)


def read_lab(path: str | os.PathLike[str], programs: Programs | None = None) -> Topology:
    """Return the network of a file of another tool, with what it asks beside its shape.

    Args:
        programs: the programs of its switches, where it names none or others are wanted.

    Raises:
        InputError: it is of no known format, makes no sense, or asks what Weft has not; with its
            line.
    """
    file = Path(path)
    text = text_of(file, LAB_ENDINGS)
    document = placed(text, file) if file.suffix == ".json" else placed_yaml(text, file)
    format_ = next((each for each in FORMATS if each.fits(document.content)), None)
    if format_ is None:
        raise InputError(
            f"{document.path} is no network that Weft knows: it reads its own (NAME.toml), and "
            f"{', '.join(each.name for each in FORMATS)}"
        )
    described = format_.read(document, programs or Programs())
    try:
        return topology_of(described, str(document.path))
    except InputError as error:
        raise _placed(str(error), document, format_) from None


def _placed(message: str, document: PlacedDocument, format_: LabFormat) -> InputError:
    """Return an error of the network that was described, with the line of the link or node that
    it is about."""
    said = message.removeprefix(f"{document.path}: ")
    node = _NODE.match(said)
    for place in (f"{each}.{node[1]}" for each in _NODES) if node else ():
        if place in document.lines:
            return InputError(f"{document.path}:{document.lines[place]}: {said}")
    if said.startswith("links["):
        line = document.line(f"{format_.links}{said.removeprefix('links')}")
        return InputError(f"{document.path}:{line}: {said}")
    return InputError(message)
