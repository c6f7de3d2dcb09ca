"""What a file of entries is asked, whichever format it is in."""

from typing import Protocol

from weft.controller.client import LoadableProgram
from weft.controller.handles.switch import SwitchHandle
from weft.topo.switch_kinds import SwitchKind


class EntryFile(Protocol):
    """The content of a file with what goes into one switch."""

    def check(self, name: str, program: LoadableProgram, kind: SwitchKind) -> None:
        """Raise InputError, which names the file and the line, for what can be seen not to fit a
        switch, by its name and its program, before there is one."""

    def apply(self, switch: SwitchHandle) -> None:
        """Write all of it to a switch. Raises InputError, which names the file and the line, for
        what does not fit the switch's program, or what the switch refuses."""
