"""What an exercise is, and what its check may do with its network."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import weft
from weft.interface.commands import Running
from weft.switch.compiler import compile_program

LIMIT_S = 60.0
"""How long anything may take that is waited for."""
GRPC_PORT = 50051
"""Where the exercises' controllers look for the first switch."""


class Unfulfilled(Exception):
    """An expectation does not hold; the message is what was seen."""


@dataclass(frozen=True)
class Exercise:
    """An exercise: its files, and what is expected."""

    name: str
    expectation: str
    check: Callable[[Lab], str]
    """What returns what was seen, or raises `Unfulfilled`."""
    programs: str | Mapping[str, str]
    """As `weft.up` takes them, in the exercise's folder."""
    topology: str = "topology.json"
    controlled: bool = True
    """Whether the switches' entries are files; otherwise they are a controller's of the exercise's
    own."""


class Lab:
    """The network of an exercise, while it is up."""

    def __init__(self, folder: Path, work: Path, net: weft.Net) -> None:
        """``work`` is a folder for what scripts print."""
        self.folder, self.net, self._work = folder, net, work
        self._printed = 0

    def script(self, host: str, *words: str, input: str = "") -> str:
        """Run a script of the exercise's on a host to its end, and return what it printed."""
        command = ["env", "-C", str(self.folder), sys.executable, "-u", *words]
        return self.net.host(host).run(*command, input=input, timeout=LIMIT_S, check=True).output

    def ping(self, host: str, other: str, count: int = 2, patience_s: int = 2) -> bool:
        """Return whether a ping is answered; the last one is waited for so long."""
        ip = self.net.host(other).ip
        return self.net.host(host).run(f"ping -c {count} -W {patience_s} {ip}").status == 0

    @contextmanager
    def running(self, host: str, command: str) -> Iterator[Callable[[], str]]:
        """Run a command on a host within the block; what it gets is told what has been printed."""
        self._printed += 1
        file = self._work / f"{self._printed}.txt"
        line = f"cd {shlex.quote(str(self.folder))}; exec {command} > {file} 2>&1"
        running: Running = self.net.host(host).start("sh", "-c", line)
        try:
            yield lambda: file.read_text(errors="replace") if file.exists() else ""
        finally:
            running.stop()

    @contextmanager
    def listening(self, host: str, script: str = "receive.py") -> Iterator[Callable[[], str]]:
        """Run a script that sniffs at a host within the block."""
        with self.running(host, f"{sys.executable} -u {script}") as printed:
            wait(lambda: len(self._sockets(host)) > 1, f"{script} listens at {host}", printed)
            yield printed

    def _sockets(self, host: str) -> list[str]:
        return self.net.host(host).run("cat /proc/net/packet").output.splitlines()

    def iperf(self, client: str, server: str, seconds: int = 2) -> bool:
        """Return whether a TCP connection carries something."""
        ip = self.net.host(server).ip
        with self.running(server, "iperf -s") as printed:
            wait(lambda: "listening" in printed(), f"iperf listens at {server}", printed)
            probe = "import socket, sys; socket.create_connection((sys.argv[1], 5001), 3).close()"
            reached = self.net.host(client).run(sys.executable, "-c", probe, ip).status == 0
            if not reached:
                return False
            done = self.net.host(client).run(f"iperf -c {ip} -t {seconds}", timeout=LIMIT_S)
            return "bits/sec" in done.output

    @contextmanager
    def load(self, client: str, server: str) -> Iterator[None]:
        """Send UDP at 1 Mbit/s from one host to another within the block."""
        ip = self.net.host(server).ip
        with (
            self.running(server, "iperf -s -u"),
            self.running(client, f"iperf -c {ip} -t 600 -u"),
        ):
            yield

    @contextmanager
    def controller(self, script: str) -> Iterator[Callable[[], str]]:
        """Run the exercise's controller, on this machine, as Weft's users do."""
        program = Path(self.net.topology.switches[0].program)
        compiled = compile_program(program)
        (self._work / f"{program.stem}.json").write_text(compiled.bmv2_json)
        (self._work / f"{program.stem}.p4info.txtpb").write_text(str(compiled.p4info))
        options = [f"--p4info={self._work}/{program.stem}.p4info.txtpb",
                   f"--bmv2-json={self._work}/{program.stem}.json"]  # fmt: skip
        printed = self._work / "controller.txt"
        (self._work / "logs").mkdir()
        environment = {**os.environ, "PYTHONPATH": str(self.folder.parents[1] / "utils")}
        with printed.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-u", "-m", "weft.compat.p4runtime", self.folder / script,
                 *options], cwd=self._work, stdout=file, stderr=subprocess.STDOUT,
                env=environment,
            )  # fmt: skip
        try:
            yield printed.read_text
        finally:
            process.kill()
            process.wait()


def wait(condition: Callable[[], object], what: str, printed: Callable[[], str]) -> None:
    """Wait until a condition holds. Raises Unfulfilled with what was printed if it never does."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise Unfulfilled(f"not so within {LIMIT_S:g} s: {what}; {printed()[-300:].strip()!r}")
        time.sleep(0.1)
