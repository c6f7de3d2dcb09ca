"""A running simple_switch in a network namespace of its own: frames one at a time; its state."""

from __future__ import annotations

import re
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from weft.switch.realtime.packet_sockets import open_port
from weft.topo.worlds.emulated.namespaces import in_namespace

THRIFT_PORT = 19090
START_S = 30.0
LOST_S = 30.0
"""How long a frame that is expected may take; one that does not come is a difference.
On a busy machine it may take long."""
QUIET_S = 0.004
"""How long after the last expected frame another one would have come."""
LEAST_BYTES = 14
"""Of a frame that Linux sends."""
VLAN_TAG = 0x8100
WHOLE_BYTES = """import runtime_CLI
whole = runtime_CLI.int_to_bytes
runtime_CLI.int_to_bytes = lambda value, count: whole(value, int(count))
sswitch_CLI.main()"""
"""Its pvs_add counts parts of bytes, and sends one too many."""


class Bmv2:
    """Used with ``with``. ``send`` has all that a frame leads to, in the order of each port."""

    def __init__(self, folder: Path, program: str, ports: Sequence[int], log: bool = False) -> None:
        self.folder, self.ports, self.log = folder, list(ports), log
        (folder / "program.json").write_text(program)

    def __enter__(self) -> Bmv2:
        lines = ["link set lo up"]
        for port in self.ports:
            lines.append(f"link add p{port} type veth peer name h{port}")
            for end in "ph":
                lines.append(f"link set {end}{port} mtu 9300 addrgenmode none up")
        (self.folder / "links").write_text("\n".join(lines))
        interfaces = " ".join(f"-i {port}@p{port}" for port in self.ports)
        log = "--log-file bmv2 --log-flush -L trace" if self.log else ""
        notices = "--notifications-addr ipc://events.ipc"
        help_text = subprocess.run(["simple_switch", "--help"], capture_output=True, text=True)
        if "--notifications-addr" not in help_text.stdout + help_text.stderr:
            notices = ""
        script = (
            f"ip -batch links && exec simple_switch {interfaces} --thrift-port {THRIFT_PORT} "
            f"{notices} {log} program.json > bmv2.log 2>&1"
        )
        command = ["unshare", "-n", "sh", "-c", script]
        self.process = subprocess.Popen(command, cwd=self.folder)
        deadline = time.monotonic() + START_S
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                said = (self.folder / "bmv2.log").read_text()
                raise RuntimeError(f"BMv2 does not start: {said[-1500:]}")
            time.sleep(0.02)  # between two looks
        self.sockets = in_namespace(
            self.process.pid, lambda: {port: open_port(f"h{port}") for port in self.ports}
        )
        for one in self.sockets.values():
            one.setsockopt(263, 8, 1)  # PACKET_AUXDATA: VLAN tags come beside the frame
        return self

    def _listens(self) -> bool:
        def connect() -> None:
            socket.create_connection(("127.0.0.1", THRIFT_PORT), timeout=1).close()

        try:
            in_namespace(self.process.pid, connect)
        except OSError:
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for one in self.sockets.values():
            one.close()
        self.process.kill()
        self.process.wait()

    def commands(self, text: str) -> str:
        """What simple_switch_CLI says to commands."""
        tool = Path(shutil.which("simple_switch_CLI") or "").read_text()
        mended = tool.replace("sswitch_CLI.main()", WHOLE_BYTES)
        python = tool.splitlines()[0].removeprefix("#!").split()
        command = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", *python, "-c", mended,
                   "--thrift-port", str(THRIFT_PORT)]  # fmt: skip
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def send(self, frame: bytes, expected: int, port: int = 1) -> list[tuple[int, bytes]]:
        """What leaves for a frame: (port, frame). Waits for so many, and whether more come."""
        assert len(frame) >= LEAST_BYTES, "Linux sends no frame without an Ethernet header"
        self.sockets[port].send(frame)
        found: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + LOST_S
        while True:
            wait = QUIET_S if len(found) >= expected else deadline - time.monotonic()
            ready = select.select(list(self.sockets.values()), [], [], max(wait, 0))[0]
            if not ready:
                if self.process.poll() is not None:
                    said = (self.folder / "bmv2.log").read_text()
                    raise RuntimeError(f"BMv2 ended: {said[-1500:]}")
                return sorted(found, key=lambda item: item[0])
            for where, one in self.sockets.items():
                if one in ready:
                    found.append((where, _received(one)))

    def registers(self, names: Sequence[str]) -> dict[str, list[int]]:
        """All cells of registers of up to 63 bits."""
        text = self.commands("\n".join(f"register_read {name}" for name in names))
        found = {}
        for name in names:
            match = re.search(rf"{re.escape(name)}= ([-0-9, ]+)", text)
            found[name] = [int(item) for item in match[1].split(",")] if match else []
        return found

    def counters(self, sizes: dict[str, int]) -> dict[str, list[tuple[int, int]]]:
        """(packets, bytes) of all cells of counters, of so many cells each."""
        wanted = [(name, cell) for name, size in sizes.items() for cell in range(size)]
        text = self.commands("\n".join(f"counter_read {name} {cell}" for name, cell in wanted))
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in sizes}
        for match in re.finditer(r"([\w.]+)\[\d+\]= +\((\d+) bytes, (\d+) packets\)", text):
            found[match[1]].append((int(match[3]), int(match[2])))
        return found


def _received(one: socket.socket) -> bytes:
    """A frame as it was on the wire, with the VLAN tag that Linux takes out of it."""
    frame, extra, _, _ = one.recvmsg(65536, 64)
    for _, kind, data in extra:
        status = int.from_bytes(data[:4], "little")
        if kind == 8 and status & 0x10:  # TP_STATUS_VLAN_VALID
            tag = int.from_bytes(data[16:18], "little")
            protocol = int.from_bytes(data[18:20], "little") if status & 0x40 else VLAN_TAG
            head = protocol.to_bytes(2, "big") + tag.to_bytes(2, "big")
            return frame[:12] + head + frame[12:]
    return frame
