"""What is asked of a form of files of flows, and all of them by their endings."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from weft.base.files import read_bounded, read_text, told_as_input
from weft.base.registry import Registry

if TYPE_CHECKING:  # help and messages go without numpy
    from weft.agents.collectives.flow_graph import FlowGraph


class FileFlows(NamedTuple):
    """The flows of a file, and what somebody who runs them should know of it."""

    graph: "FlowGraph"
    notes: tuple[str, ...] = ()


class FileReading(NamedTuple):
    """What is asked of a file's flows, beside the file."""

    algorithm: str
    """The algorithm of Allreduces in it; other collectives take one like it."""
    ranks: int
    """How many ranks the network has. It is for forms that do not say how many they need."""
    size_bytes: int
    """The size of the collective, for forms that do not say."""


class FileFormat:
    """A form of files of flows, by the ending of their names.

    A package names an instance of a subclass by an entry point in the group
    ``weft.workload_formats``; one of Weft's own is a module in `formats`.
    """

    name: str
    """The ending of the files' names, like ``.cm``."""
    position = 1000
    """Its place in lists: after those with lower ones."""
    about: str
    """What help says of it, in a few words."""
    sized = False
    """Whether files leave the size of their collective open, so that who runs one says it."""

    most_bytes = 256 << 20
    """The largest file that is read."""

    def content(self, path: Path) -> bytes:
        """Return the bytes of a file. Raises InputError if it cannot be read."""
        with told_as_input(f"workload {str(path)!r} cannot be read"):
            return read_bounded(path, self.most_bytes, endings=(self.name,))

    def text(self, path: Path) -> str:
        """Return the text of a file. Raises InputError if it cannot be read, or is none."""
        with told_as_input(f"workload {str(path)!r} cannot be read"):
            return read_text(path, self.most_bytes, endings=(self.name,))

    def files(self, path: Path) -> Sequence[Path]:
        """Return all files that are read, given the one that is named. Raises InputError for a name
        that cannot be."""
        return [path]

    def has_collectives(self, path: Path) -> bool:
        """Return whether there are collectives in it, whose algorithm is then chosen by who runs
        it. Raises InputError as `read` does."""
        return False

    def read(self, path: Path, reading: FileReading) -> FileFlows:
        """Return a file's flows; those of node n are those of rank n.

        Raises:
            InputError: it cannot be read, or makes no sense; the message names the place.
        """
        raise NotImplementedError


class FormatFacts(msgspec.Struct):
    """The facts of a form are known without its module: they are attributes of `FileFormat`."""

    position: int
    about: str
    sized: bool


FORMATS: Registry[Any] = Registry(
    "weft.workload_formats",
    "weft.experiments.families.flows.formats:FORMAT",
    facts=FormatFacts,
    kind="weft.experiments.families.flows.file_format:FileFormat",
)
"""All forms of files, each a `FileFormat`."""


def is_sized(workload: str | None) -> bool:
    """Return whether a workload is a file that leaves the size of its collective open."""
    ending = Path(workload or "").suffix
    return ending in FORMATS and bool(FORMATS.fact(ending, "sized"))


def endings() -> tuple[str, ...]:
    """Return the endings of all forms, in order."""
    return tuple(sorted(FORMATS, key=lambda name: FORMATS.fact(name, "position")))


def described(form: str) -> str:
    """Return a phrase for each form, ``ABOUT (FORM)``, where ``{}`` in ``form`` is the ending;
    forms that are alike but for it are together."""
    named: dict[str, list[str]] = {}
    for each in endings():
        named.setdefault(FORMATS.fact(each, "about"), []).append(form.format(each))
    return ", ".join(f"{about} ({', '.join(names)})" for about, names in named.items())
