"""How files of entries are read, whichever format they are in."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.base.placed import placed, text_of
from weft.controller.client import LoadableProgram
from weft.controller.entry_files.commands_file import CommandsFile
from weft.controller.entry_files.entry_file import EntryFile
from weft.controller.entry_files.runtime_json import RuntimeJson
from weft.topo.switch_kinds import SwitchKind

ENDINGS = (".json", ".txt")
"""What names of such files end in."""


def read_entry_file(path: Path) -> EntryFile:
    """Return the content of a file. Raises InputError for what is no such file."""
    text = text_of(path, ENDINGS)
    if path.suffix.lower() == ".json" or text.lstrip().startswith("{"):
        return RuntimeJson(placed(text, path))
    return CommandsFile(path, text)


def checked_files(
    paths: Mapping[str, Sequence[str]],
    programs: Mapping[str, LoadableProgram],
    kind: SwitchKind,
) -> dict[str, list[EntryFile]]:
    """Return the contents of files of entries by switch, which fit the switches' programs.

    Raises InputError, which names the file and the line.
    """
    found: dict[str, list[EntryFile]] = {}
    for switch, some in paths.items():
        found[switch] = [read_entry_file(Path(path)) for path in some]
        for each in found[switch]:
            each.check(switch, programs[switch], kind)
    return found
