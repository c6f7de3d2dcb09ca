"""``weft shell``: p4runtime-shell on a switch of a testbed that is up."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from weft.controller.client import later_election_id
from weft.experiments.commands.shell_environment import shell_python
from weft.topo.worlds.emulated.testbeds import RunningSwitch


def open_shell(name: str, switch: RunningSwitch) -> NoReturn:
    """Become p4runtime-shell, as the primary of the switch. Raises MachineError without it."""
    python = str(shell_python())
    high, low = later_election_id()
    arguments = [
        python, "-I", "-m", "p4runtime_sh", "--grpc-addr", switch.address,
        "--device-id", str(switch.device_id), "--election-id", f"{high},{low}",
    ]  # fmt: skip
    print(f'p4runtime-shell on {name}: tables, Write(), table_entry["..."], help; exit ends it.')
    sys.stdout.flush()
    os.execv(python, arguments)
