"""Run by test_mininet_switches.py in a network namespace of its own: a Mininet script whose
switches are those of `weft.mininet`, with BMv2's arguments.

Prints what it saw as one JSON document a line, and then waits to be killed.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from mininet.link import Link
from mininet.net import Mininet

from weft.base.errors import InputError, RunError
from weft.mininet import P4Host, P4RuntimeSwitch


def children() -> list[int]:
    """The processes of weft switch that this script has started."""
    folder = Path("/proc/self/task")
    numbers = [
        int(each) for task in folder.iterdir() for each in (task / "children").read_text().split()
    ]
    return [
        each for each in numbers if b"--control-fd" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


def main(program: str, folder: str) -> None:
    net = Mininet(host=P4Host, switch=P4RuntimeSwitch, controller=None, link=Link)
    h1, h2 = (net.addHost(f"h{number}", ip=f"10.0.0.{number}/24") for number in (1, 2))
    s1, s2, s3 = (
        net.addSwitch(
            f"s{number}", sw_path="simple_switch_grpc", program=program,
            log_file=f"{folder}/s{number}.log", pcap_dump=folder, cpu_port=255,
        )
        for number in (1, 2, 3)
    )  # fmt: skip
    for ends in ((h1, s1), (s1, s2), (s2, h2)):
        net.addLink(*ends)
    net.addLink(s3, h2)
    net.start()
    seen = {
        "numbers": [(each.device_id, each.grpc_port) for each in (s1, s2, s3)],
        "host": h1.defaultIntf().name,
        "mac": h1.MAC(),
        "lost": net.ping([h1, h2]),
        "processes": len(children()),
    }
    with socket.create_connection(("127.0.0.1", s2.grpc_port)):
        pass
    s2.stop(deleteIntfs=False)
    seen["lost_stopped"] = net.ping([h1, h2], timeout="0.2")
    s2.start([])
    seen["lost_started"] = net.ping([h1, h2])
    seen["processes_then"] = len(children())
    refused = []
    for wrong in (
        {"program": "nowhere.p4"}, {"switch": "ovs"}, {"grpc_port": 1 << 20}, {"progam": "x.p4"},
    ):  # fmt: skip
        try:
            P4RuntimeSwitch("s9", **wrong)
        except InputError as error:
            refused.append(str(error))
    seen["refused"] = refused
    s3.stop(deleteIntfs=False)
    s3.grpc_port = s1.grpc_port
    try:
        s3.start([])
    except RunError as error:
        seen["occupied"] = str(error)
    with redirect_stdout(StringIO()) as described:
        h1.describe()
        h1.describe("10.0.0.254", "02:00:00:00:00:fe")
    seen["described"] = described.getvalue()
    seen["logs"] = [Path(f"{folder}/s{number}.log").read_text() for number in (1, 2)]
    seen["left"] = children()
    print(json.dumps(seen), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
