"""What a file of entries is asked, whichever format it is in."""

from typing import Protocol

from weft.controller.handles.switch import SwitchHandle


class EntryFile(Protocol):
    """The content of a file with what goes into one switch."""

    def apply(self, switch: SwitchHandle) -> None:
        """Write all of it to a switch. Raises InputError, which names the file and the line, for
        what does not fit the switch's program, or what the switch refuses."""
