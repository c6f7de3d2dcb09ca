"""BMv2's process behind a switch of a Mininet script, which dies with it."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weft.base import files
from weft.base.children import DIE_WITH_PARENT, how_it_ended, last_words, run_tool
from weft.base.errors import InputError, MachineError, RunError
from weft.switch.commands.switch_group import end, environment, in_namespace, weft_command

START_LIMIT_S = 60.0
"""How long BMv2 may take to listen."""
COMPILING_LIMIT_S = 600.0
LOOK_S = 0.05
LISTENING = "0A"
"""A listening socket's state in /proc/net/tcp."""


def compiled_for_bmv2(program: Path, log_file: str) -> Path:
    """Return a program as BMv2 takes it: P4 source is compiled, beside the log file. Raises
    InputError for a program that does not compile."""
    if program.suffix != ".p4":
        return program
    compiled = Path(log_file).with_suffix(".json")
    done = run_tool(
        weft_command("p4c", str(program), "-o", str(compiled)),
        environment=environment(),
        timeout_s=COMPILING_LIMIT_S,
        what="weft p4c",
    )
    if done.returncode != 0:
        raise InputError(f"program {str(program)!r}: {done.stderr.strip() or last_words(done)}")
    return compiled


class Bmv2Process:
    """A process of BMv2 with one switch, which is killed when its script dies."""

    def __init__(
        self,
        program: str,
        options: Sequence[str],
        target: Sequence[str],
        *,
        thrift_port: int,
        port: int,
        log_file: str,
        namespace_pid: int | None,
    ) -> None:
        """Start it, with its options and its target's. It is ready once it listens at ``port``.
        Raises MachineError if it is not installed."""
        if shutil.which(program) is None:
            raise MachineError(
                f"{program!r} (BMv2) is not on PATH, and is no program: install p4lang's package "
                "p4lang-bmv2, name it by sw_path, or leave switch='bmv2' out"
            )
        told = run_tool([program, "--help"])
        has_thrift = "--thrift-port" in told.stdout + told.stderr
        thrift = ["--thrift-port", str(thrift_port)] if has_thrift else []
        self._command = [
            *DIE_WITH_PARENT, *in_namespace(namespace_pid), program, *thrift, *options, *target,
        ]  # fmt: skip
        self._port = port
        self._log_file = log_file
        with files.told_as_input(f"cannot write the log {log_file!r}"):
            log = files.create(Path(log_file))
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def __str__(self) -> str:
        return shlex.join(self._command)

    def wait_until_ready(self) -> None:
        """Return once it listens. Raises RunError if it ends before, or does not."""
        deadline = time.monotonic() + START_LIMIT_S
        while not listens(self._process.pid, self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                why = "does not listen"
                if self._process.returncode is not None:
                    why = how_it_ended(self._process.returncode)
                self.stop("")
                raise RunError(f"{self} {why}; its log is {self._log_file}")
            time.sleep(LOOK_S)

    def stop(self, name: str) -> None:
        """End it."""
        self._process.terminate()
        end(self._process)


def listens(pid: int, port: int) -> bool:
    """Return whether anybody listens at a TCP port in the network namespace of a process."""
    for family in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{pid}/net/{family}") as table:
            for line in table:
                _, local, _, state, *_ = line.split()
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False
