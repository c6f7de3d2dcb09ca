"""A communicator as one of its reduction servers knows it: its members and its operations."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.agents.servers.members import Members
from weft.agents.servers.server_operation import ServerOperation


@dataclass
class ServedCommunicator:
    """What a server does for one communicator."""

    members: Members
    operations: dict[int, ServerOperation] = field(default_factory=dict)
    last_number: int = 0
    """Of the operations so far."""
    opened: dict[int, int] = field(default_factory=dict)
    """The number of the last operation that each rank has opened."""
    failure: str = ""
    """Why the job does nothing more, or empty."""

    def operation_of(self, low_bits: int, member: int) -> ServerOperation | None:
        """The oldest operation with these low 8 bits of its number to which a member has more to
        say."""
        for number, operation in self.operations.items():
            if number & 0xFF == low_bits and operation.expects(member):
                return operation
        return None
