"""``weft shell``: p4runtime-shell on a switch of a testbed that is up, and the Python environment
of it, which needs another protobuf than Weft.

``./weft setup`` makes it in the clone's virtual environment, as ``.venv/shell``. Where Weft came by
pip, the first ``weft shell`` makes it, in the cache.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from weft.base.cache import PACKAGE, cache_dir
from weft.base.children import run_tool
from weft.base.errors import MachineError
from weft.controller.remote import DEADLINE_S, RemoteClient
from weft.topo.worlds.emulated.testbeds import RunningSwitch

PINS = PACKAGE / "requirements" / "shell.txt"
"""The packages in it, pinned."""
INSTALL_LIMIT_S = 1800.0


def shell_python() -> Path:
    """Return the environment's interpreter; an environment that is missing is made.

    Raises MachineError where that fails, as it does where pip reaches no package index.
    """
    beside = Path(sys.prefix, "shell", "bin", "python")
    if beside.exists():
        return beside
    what = f"{sys.implementation.cache_tag} {PINS.read_text()}"
    folder = cache_dir() / f"shell-{hashlib.sha256(what.encode()).hexdigest()[:16]}"
    if not folder.exists():
        print(f"weft: installing p4runtime-shell into {folder}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="shell-", dir=folder.parent) as scratch:
            made = Path(scratch, "made")
            _run(sys.executable, "-I", "-m", "venv", str(made))
            _run(
                str(made / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet",
                "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
                "--requirement", str(PINS),
            )  # fmt: skip
            with contextlib.suppress(OSError):  # another one was quicker
                made.rename(folder)
    return folder / "bin" / "python"


def _run(*command: str) -> None:
    done = run_tool(command, timeout_s=INSTALL_LIMIT_S)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
        why = (errors or said or [f"exit status {done.returncode}"])[-1]
        raise MachineError(
            f"p4runtime-shell, which 'weft shell' opens, could not be installed: {why}; "
            "once pip reaches a package index, run it again"
        )


def open_shell(name: str, switch: RunningSwitch) -> NoReturn:
    """Become p4runtime-shell, as the primary of the switch. Raises MachineError without it."""
    python = str(shell_python())
    asking = RemoteClient(name, switch.device_id, switch.address, None, DEADLINE_S)
    try:
        high, low = asking.vacant_election_id()
    finally:
        asking.tear_down()
    arguments = [
        python, "-I", "-m", "p4runtime_sh", "--grpc-addr", switch.address,
        "--device-id", str(switch.device_id), "--election-id", f"{high},{low}",
    ]  # fmt: skip
    print(f'p4runtime-shell on {name}: tables, Write(), table_entry["..."], help; exit ends it.')
    sys.stdout.flush()
    os.execv(python, arguments)
