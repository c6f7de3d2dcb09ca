"""A switch as the commands of BMv2's command line reach it."""

from weft.controller.bmv2_cli.access import Access
from weft.controller.bmv2_cli.arrays import Counters, Meters, Registers, ValueSets
from weft.controller.bmv2_cli.entries import Entries
from weft.controller.bmv2_cli.profiles import Profiles
from weft.controller.bmv2_cli.program import ProgramView
from weft.controller.bmv2_cli.replication import Replication
from weft.controller.client import Session


class CommandSwitch:
    """A switch by its session. Handles are kept in the switch: those of entries with the entries
    themselves, as P4Runtime's ``metadata``, and those of multicast nodes in the switch's memo.

    ``forget`` is to be called before what may have been changed by others is used again.
    """

    def __init__(self, session: Session) -> None:
        self.access = access = Access(session)
        self.entries = Entries(access)
        self.profiles = Profiles(access)
        self.replication = Replication(access)
        self.counters = Counters(access, self.entries)
        self.meters = Meters(access, self.entries)
        self.registers = Registers(access, self.entries)
        self.value_sets = ValueSets(access)

    @property
    def program(self) -> ProgramView:
        """The program that the switch runs. Raises SwitchError if it tells none."""
        return self.access.program

    def forget(self) -> None:
        """Ask the switch again for its program and its entries."""
        self.access.forget()
        self.entries.forget()

    def reset(self) -> None:
        """Load the switch's program anew, with nothing in its tables, arrays and groups."""
        session = self.access.session
        program = session.learn_program()
        session.take_over()
        session.push_program(program)
        self.forget()
