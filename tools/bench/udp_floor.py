"""What a UDP packet costs the processor that nobody looks into: a bare loop over a veth pair.

It is what a rank's packets are compared with: the same size, the same system calls, the kernel's
whole way from one network namespace into another; no transport, no switch, no waiting.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from weft.agents.datagrams import Datagrams, ipv4
from weft.agents.drivers.compiled_udp import receive_many, send_many
from weft.agents.drivers.progress_engine import Messages, force_buffer
from weft.agents.drivers.udp import SOCKET_OPTIONS
from weft.base.children import DIE_WITH_PARENT, last_words, python_command, python_path, run_tool
from weft.base.errors import MachineError, RunError, refuse
from weft.base.libc import CLONE_NEWNET, check_call, libc
from weft.tools.bench.timing import BENCHMARK_LIMIT_S
from weft.topo.worlds.emulated.namespaces import in_namespace

PACKETS = 40_000
PAYLOAD_BYTES = 4096
ROCE_BYTES = 12 + 16 + 4
"""BTH, RETH and ICRC."""
BATCHES = (1, 16)
_PORT = 4791
_NEAR, _FAR = "10.9.0.1", "10.9.0.2"


def floor_ns() -> dict[int, float]:
    """Return processor time of a UDP packet, sent and received, in ns, by how many of them go in a
    system call.

    Raises:
        MachineError: no network namespaces can be made here.
        RunError: packets were lost.
    """
    return measured_apart(__name__, "the bare loop over UDP")


def measured_apart(module: str, what: str) -> dict[int, float]:
    """Return what a module measures (`main`) in a process of its own, which leaves the machine's
    network. Raises ``MachineError`` and ``RunError``, which names ``what`` was measured."""
    done = run_tool(
        [*DIE_WITH_PARENT, *python_command(module)],
        timeout_s=BENCHMARK_LIMIT_S,
        environment={**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))},
        what=what,
    )
    if done.returncode == 3:
        raise MachineError(done.stderr.strip())
    if done.returncode:
        raise RunError(f"{what} failed: {last_words(done)}")
    return {int(batch): took_ns for batch, took_ns in json.loads(done.stdout).items()}


def _socket(address: str, bound_port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    for option in SOCKET_OPTIONS:
        opened.setsockopt(*option)
    force_buffer(opened, socket.SO_RCVBUF, 16 << 20)
    force_buffer(opened, socket.SO_SNDBUF, 16 << 20)
    opened.bind((address, bound_port))
    return opened


def ip(*commands: str) -> None:
    """Run commands of ``ip``. Raises ``MachineError``."""
    for command in commands:
        done = run_tool(["ip", *command.split()])
        if done.returncode:
            raise MachineError(f"ip {command}: {last_words(done)}")


def _measure() -> dict[int, float]:
    """Leave the machine's network, and measure between two namespaces."""
    check_call(libc.unshare(CLONE_NEWNET))
    far = subprocess.Popen(
        [*DIE_WITH_PARENT, "unshare", "--net", "sh", "-c", "echo ready; read -r _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert far.stdin is not None and far.stdout is not None
    refuse(far.stdout.readline() != b"ready\n", "no second network namespace", MachineError)
    up = "addr add {}/24 dev {}", "link set {1} mtu 9000 up"
    ip("link add near type veth peer name far", f"link set far netns {far.pid}")
    ip(*(each.format(_NEAR, "near") for each in up))
    in_namespace(far.pid, lambda: ip(*(each.format(_FAR, "far") for each in up)))
    with (
        _socket(_NEAR, 0) as sender,
        in_namespace(far.pid, lambda: _socket(_FAR, _PORT)) as receiver,
    ):
        _packet_ns(sender, receiver, BATCHES[-1])  # what has to be loaded is
        found = {batch: _packet_ns(sender, receiver, batch) for batch in BATCHES}
    far.communicate()
    return found


def _packet_ns(sender: socket.socket, receiver: socket.socket, batch: int) -> float:
    """Return the processor time of a packet that goes with others to the number of `batch`."""
    outgoing = Datagrams.allocate(batch, PAYLOAD_BYTES + ROCE_BYTES)
    outgoing.destination[:] = ipv4(_FAR)
    outgoing.length[:] = PAYLOAD_BYTES + ROCE_BYTES
    outgoing.count = batch
    incoming = Datagrams.allocate(64, PAYLOAD_BYTES + 64)
    sending, receiving = Messages(None), Messages(incoming)
    received = 0
    started_ns = time.process_time_ns()
    for _ in range(PACKETS // batch):
        sent = send_many(sender.fileno(), outgoing.address, 0, batch, sending.headers, _PORT, False)
        refuse(sent != batch, f"sendmmsg took {sent} of {batch} packets", RunError)
        received += receive_many(receiver.fileno(), incoming.address, receiving.headers, ipv4(_FAR))
    took_ns = time.process_time_ns() - started_ns
    refuse(received != PACKETS // batch * batch, f"{received} of {PACKETS} packets came", RunError)
    return took_ns / received


def main(measure: Callable[[], dict[int, float]]) -> None:
    """Print what is measured, for `measured_apart`."""
    try:
        print(json.dumps(measure()))
    except (OSError, MachineError) as error:
        print(f"the kernel makes no networks of veths here: {error}", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main(_measure)
