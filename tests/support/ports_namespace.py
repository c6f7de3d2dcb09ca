"""Run by test_switch_ports.py in a network namespace of its own: ``weft switch`` whose ports
have queueing disciplines, are looked at, go down, are deleted and made anew.

Prints what it saw as one JSON document.
"""

from __future__ import annotations

import json
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO, Any

from tests.support.realtime_namespace import DEADLINE_S, make_links
from tests.support.switch_namespace import start

from weft.switch.realtime.packet_sockets import ETH_P_ALL, open_port

FRAMES = 100
FRAME_BYTES = 1000
HELD = 64
"""The most packets that wait in the queue of a port whose interface is slower than they come."""


def run(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True)


def frame(number: int) -> bytes:
    return bytes.fromhex("020000000002 020000000001 88b5") + bytes([number]) * (FRAME_BYTES - 14)


def numbers(port: socket.socket) -> list[int]:
    """The numbers of the frames that are there."""
    found: list[int] = []
    while select.select([port], [], [], 0.05)[0]:
        found.append(port.recv(65536)[-1])
    return found


def told(stream: IO[str]) -> queue.SimpleQueue[str]:
    """The lines of a stream, which a thread reads, but for notes."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in stream:
            if not line.startswith("weft: note:"):
                lines.put(line.strip())

    threading.Thread(target=read, daemon=True).start()
    return lines


def all_up() -> bool:
    """Whether every link is: what is sent before is lost."""
    shown = subprocess.run(
        ["ip", "-j", "link", "show", "type", "veth"], capture_output=True, check=True
    )
    return {each["operstate"] for each in json.loads(shown.stdout)} == {"UP"}


def passes(number: int) -> tuple[bool, int]:
    """Whether frames of this number come from one host's end to the other's, and how many did not
    before one did: a link that has just come up may still lose some."""
    while not all_up():
        time.sleep(0.01)
    hosts = [open_port(name) for name in ("h1", "h2")]
    end = time.monotonic() + DEADLINE_S
    found, lost = False, -1
    while not found and time.monotonic() < end:
        hosts[0].send(frame(number))
        lost += 1
        found = number in numbers(hosts[1])
    for host in hosts:
        host.close()
    return found, lost


def tbf() -> dict[str, int]:
    """What the queueing discipline of the switch's second port has counted."""
    command = ["tc", "-j", "-s", "qdisc", "show", "dev", "s2"]
    shown = subprocess.run(command, capture_output=True, check=True)
    (found,) = [each for each in json.loads(shown.stdout) if each["kind"] == "tbf"]
    return {name: found[name] for name in ("packets", "drops", "backlog")}


def shaped(bypassed: bool) -> dict[str, Any]:
    """What becomes of many frames at once that leave by a slow queueing discipline of somebody
    else's, and what somebody sees who looks at the interface that they leave by."""
    run("tc qdisc add dev s2 root tbf rate 100kbit burst 1600 limit 5000")
    hosts = [open_port(name) for name in ("h1", "h2")]
    watching = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    watching.bind(("s2", ETH_P_ALL))
    for _ in range(FRAMES):
        hosts[0].send(frame(1))
    came = 0
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        came += len(numbers(hosts[1]))
        counted = tbf()
        through = counted["packets"] + counted["drops"] >= FRAMES and counted["backlog"] == 0
        if came >= FRAMES if bypassed else through:
            break
    came += len(numbers(hosts[1]))
    run("tc qdisc del dev s2 root")
    left = 0
    while select.select([watching], [], [], 0)[0]:
        _, (_, _, way, *_) = watching.recvfrom(65536)
        left += way == socket.PACKET_OUTGOING
    for each in (*hosts, watching):
        each.close()
    return {"came": came, "left": left, **counted}


def congested() -> dict[str, Any]:
    """What becomes of many frames at once that a queueing discipline has room for, but sends
    slowly: how many come, and the greatest length of the switch's queue that the program saw."""
    run("tc qdisc add dev s2 root tbf rate 1mbit burst 1600 limit 1000000")
    hosts = [open_port(name) for name in ("h1", "h2")]
    depths: list[int] = []
    end = time.monotonic() + DEADLINE_S
    while max(depths, default=0) < HELD // 2 and time.monotonic() < end:  # it may not be seen yet
        for _ in range(2 * FRAMES):
            hosts[0].send(frame(2))
        last = False
        while not last and time.monotonic() < end:
            hosts[0].send(frame(3))  # behind all others, so that none of them comes after it
            while not last and select.select([hosts[1]], [], [], 0.1)[0]:
                came = hosts[1].recv(65536)
                last = came[-1] == 3
                depths.append(int.from_bytes(came[6:12], "big"))
    dropped = tbf()["drops"]
    run("tc qdisc del dev s2 root")
    for each in hosts:
        each.close()
    return {"came": len(depths), "greatest": max(depths), "dropped": dropped}


def main(program: str, *options: str) -> None:
    make_links()
    # No host's kernel says anything of its own, also on links that are made anew.
    run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
    words = " ".join(options)
    switch, _ = start(f"-i 1@s1 -i 2@s2 {program} --grpc-server-addr 127.0.0.1:50061 {words}")
    assert switch.stderr is not None and switch.stdout is not None
    lines = told(switch.stderr)
    seen: dict[str, Any] = {"shaped": shaped("--bypass-qdisc" in options), "said": []}

    if "--bypass-qdisc" not in options:
        seen["congested"] = congested()
    run("ip link set s2 down", "ip link set s2 up")
    seen["passes"] = [passes(201)]
    run("ip link del s1")
    seen["said"].append(lines.get(timeout=DEADLINE_S))
    run("ip link add name s1 type veth peer name h1")
    seen["said"].append(lines.get(timeout=DEADLINE_S))
    run("ip link set s1 up", "ip link set h1 up")
    seen["passes"].append(passes(202))
    away = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 60"], stdout=-1)
    assert away.stdout is not None
    away.stdout.readline()
    run(f"ip link set s2 netns {away.pid}")
    seen["said"].append(lines.get(timeout=DEADLINE_S))
    run("ip link del h2", "ip link add name s2 type veth peer name h2")
    away.kill()
    seen["said"].append(lines.get(timeout=DEADLINE_S))
    run("ip link set s2 up", "ip link set h2 up")
    seen["passes"].append(passes(203))
    switch.send_signal(signal.SIGINT)
    seen["ended"] = switch.stdout.read().splitlines()
    seen["status"] = switch.wait(DEADLINE_S)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
