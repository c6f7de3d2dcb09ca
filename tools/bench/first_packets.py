"""The first packets of ``weft bench start``: this runs in a network namespace of its own and prints
JSON.

A switch that is up gets its program over P4Runtime; meanwhile a frame is sent to it every
millisecond, until one comes out at the other side. So it is measured from outside, alike for the
built-in switch and BMv2.
"""

import json
import random
import select
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from weft.base.children import python_command
from weft.base.errors import RunError, WeftError
from weft.base.outputs import killed
from weft.controller.client import LoadableProgram, Session
from weft.switch.compiler import ProgramFiles, compile_program
from weft.switch.compiler.outputs import write_outputs
from weft.tools.bench import thrift
from weft.tools.bench.switch_rows import listens, rig, says_ready
from weft.tools.bench.switch_traffic import HOST, START_DEADLINE_S, ForwardingDevice, frames
from weft.topo.interfaces import SYSCTLS
from weft.topo.worlds.emulated.namespaces import run_batch, write_sysctls
from weft.topo.worlds.emulated.switch_processes import BMV2, bmv2_command, options_of_its_build

PROGRAM = Path(__file__).with_name("programs") / "basic_router.p4"
SIMPLE_SWITCH = "simple_switch"
"""BMv2 without P4Runtime."""
FRAME_BYTES = 128
EVERY_S = 0.001
"""The time between two frames."""


class Wanted(msgspec.Struct):
    """What `weft.tools.bench.start` asks this process for."""

    folder: str
    attempts: int


def measure(folder: Path, attempts: int) -> dict[str, list[dict[str, float]]]:
    """Return a list for each way: ``cold``, a program that no switch has run before; ``made``, the
    same where the switch waits for its machine code; ``warm``, the same again, whose code is kept
    now; and, where it is installed, ``bmv2``.

    Each attempt has the seconds from the beginning of SetForwardingPipelineConfig until the first
    packet is through (``s``), and the switch's processor time meanwhile (``cpu_s``).
    """
    write_sysctls(SYSCTLS)
    run_batch("ip", ["link set dev lo up", *rig("a")])
    ways = ["cold", "made", "warm"]
    if any(map(shutil.which, (BMV2, SIMPLE_SWITCH))):
        ways.append("bmv2")
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for attempt in range(attempts + 1):
        files = fresh_program(folder)
        for way in ways:
            name = f"{way}{attempt}"
            path = folder / f"{name}.sock"
            device = bmv2(name, path) if way == "bmv2" else weft(name, path, at_once=way != "made")
            with running(device, folder), loading(device, path, files) as load:
                came = first_packet(device, load)
            if attempt:  # before the first, Weft's own code may have to be compiled, too
                found[way].append(came)
    return found


def fresh_program(folder: Path) -> ProgramFiles:
    """Compile the program with a number in its code that it has not had before."""
    salt = random.SystemRandom().getrandbits(32)
    compiled = compile_program(PROGRAM, defines={"SALT": str(salt)})
    return write_outputs(compiled, f"basic{salt}", folder)


def weft(name: str, path: Path, *, at_once: bool) -> ForwardingDevice:
    """Return a process of the built-in switch without a program; ``at_once``, as all networks have
    it, it does not wait for machine code."""
    ports = [{"port": port, "interface": f"A{port}"} for port in (1, 2)]
    switch = {"name": name, "device_id": 1, "address": f"unix:{path}", "ports": ports}
    config = path.with_suffix(".json")
    config.write_text(json.dumps({"switches": [switch], "at_once": at_once}))
    command = python_command("weft.switch.realtime", str(config))
    return ForwardingDevice(name, command, says_ready)


def bmv2(name: str, path: Path) -> ForwardingDevice:
    """Return a BMv2 without a program: simple_switch_grpc, or simple_switch where there is none."""
    interfaces = {1: "A1", 2: "A2"}
    if shutil.which(BMV2):
        return ForwardingDevice(name, bmv2_command(1, path, interfaces), lambda _: listens(path))
    words = " ".join(options_of_its_build(SIMPLE_SWITCH))
    options = words.format(thrift_port=thrift.PORT, path=path.with_suffix("")).split()
    ports = [word for port in interfaces.items() for word in ("-i", "{}@{}".format(*port))]
    command = [SIMPLE_SWITCH, "--no-p4", *options, *ports, "--", "--enable-swap"]
    return ForwardingDevice(name, command, lambda _: thrift.listens())


@contextmanager
def running(device: ForwardingDevice, folder: Path) -> Iterator[None]:
    """Have a switch up within the block."""
    device.start(folder / f"{device.name}.log")
    try:
        yield
    finally:
        killed(device.process)


@contextmanager
def loading(
    device: ForwardingDevice, path: Path, files: ProgramFiles
) -> Iterator[Callable[[], None]]:
    """Yield what gives a switch its program: by P4Runtime, or by Thrift where it has but that."""
    program = LoadableProgram.read(files)
    if device.command[0] == SIMPLE_SWITCH:
        yield partial(thrift.load, program.config.p4_device_config)
        return
    with closing(Session(device.name, 1, f"unix:{path}", deadline_s=60.0)) as session:
        session.connect()
        yield partial(session.push_program, program, START_DEADLINE_S)


def first_packet(device: ForwardingDevice, load: Callable[[], None]) -> dict[str, float]:
    """Give a switch its program, and return how long it takes until a packet is through, and what
    processor time. Raises RunError if none comes."""
    (frame, *_) = frames(FRAME_BYTES, HOST)
    with (
        closing(_socket("ia")) as inward,
        closing(_socket("a2")) as outward,
        ThreadPoolExecutor(1) as others,
    ):
        before_ns, started = device.cpu_ns(), time.monotonic()
        pushed = others.submit(load)
        while not select.select([outward], [], [], EVERY_S)[0]:
            inward.send(frame)
            if pushed.done():
                pushed.result()
            if time.monotonic() - started > START_DEADLINE_S:
                raise RunError(f"no packet comes through {device.name}")
        taken = {"s": time.monotonic() - started, "cpu_s": (device.cpu_ns() - before_ns) / 1e9}
        pushed.result()
    return taken


def _socket(interface: str) -> socket.socket:
    """Return a socket for IPv4's frames on an interface; it hears none that it sends itself."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    made.bind((interface, 0x0800))
    made.setblocking(False)
    return made


def main(wanted: Wanted) -> None:
    """Measure and print."""
    found: dict[str, Any] = measure(Path(wanted.folder), wanted.attempts)
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main(msgspec.json.decode(sys.argv[1], type=Wanted))
    except WeftError as failure:
        print(failure)
        sys.exit(1)
