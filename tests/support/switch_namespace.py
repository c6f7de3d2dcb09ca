"""Run by test_switch_command.py in a network namespace of its own: ``weft switch`` as
Mininet scripts start simple_switch_grpc, and p4runtime-shell as its client.

Prints what it saw as one JSON document.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.engine_support import packet
from tests.support.realtime_namespace import collect, make_links
from tests.support.shell_process import Shell

from weft.switch.realtime.packet_sockets import open_port

ADDRESS = "127.0.0.1:50051"


def start(arguments: str) -> tuple[subprocess.Popen[str], list[str]]:
    """The switch, and what it said until it was ready."""
    command = [sys.executable, "-m", "weft", "switch", *arguments.split()]
    switch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert switch.stdout is not None
    said: list[str] = []
    for line in switch.stdout:
        said.append(line.strip())
        if line.startswith("ready"):
            break
    return switch, said


FORWARD = """
entry = TableEntry("TheIngress.ipv4_lpm")(action="TheIngress.ipv4_forward")
entry.match["hdr.ipv4.dst_addr"] = "10.1.0.0/16"
entry.action["dst_addr"] = "08:00:00:00:02:22"
entry.action["port"] = "2"
entry.insert()
"""


def main(json_file: str, p4info: str, folder: str) -> None:
    make_links()
    seen: dict[str, Any] = {}
    switch, seen["said"] = start(
        f"-i 1@s1 -i 2@s2 --interface 3@s3 --queue 3:rate=10Mbit,delay=2ms,packets=8 "
        f"--thrift-port 9090 --device-id 0 --pcap {folder} --trace={folder}/trace.jsonl "
        f"{json_file} "
        f"-- --grpc-server-addr {ADDRESS}"
    )
    hosts = {port: open_port(f"h{port}") for port in (1, 2, 3)}
    for host in hosts.values():
        host.setblocking(True)
    shell = Shell(ADDRESS, 0, p4info, json_file)
    shell(FORWARD)
    hosts[1].send(packet("10.1.2.3"))
    seen["frames"] = [frame.hex() for _, frame in collect(hosts[2], 1)]
    second = [sys.executable, "-m", "weft", "switch", "--no-p4", "--grpc-server-addr"]
    other = subprocess.run([*second, ADDRESS], capture_output=True, text=True, check=False)
    seen["occupied"] = [other.returncode, other.stderr]
    shell.close()
    switch.send_signal(signal.SIGINT)
    rest, seen["errors"] = switch.communicate(timeout=300)
    seen["ended"] = [switch.returncode, rest]
    seen["captures"] = {path.name: path.stat().st_size for path in Path(folder).glob("*.pcap")}
    lines = Path(folder, "trace.jsonl").read_text().splitlines()
    seen["trace"] = [json.loads(line) for line in lines]
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
