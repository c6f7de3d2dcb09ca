"""The rows of ``weft bench switch``: this runs in a network namespace of its own and prints JSON.

Every switch has veth pairs of its own, all made alike, so that each can stay up while others take
their turn: one pair in, one or four out. Sinks are the far ends of the pairs out; a letter in their
names tells which switch they belong to.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from weft.agents.collectives.names import BMV2_AGGREGATION_VALUES
from weft.base.children import (
    last_words,
    python_command,
    run_tool,
)
from weft.base.errors import MachineError, RunError, WeftError
from weft.base.outputs import killed
from weft.controller.client import LoadableProgram, Session
from weft.controller.entities import Action, Entity, PlannedMember, PlannedMulticast, entry
from weft.controller.plan import Update
from weft.controller.program_names import ProgramNames
from weft.switch.compiler import ProgramFiles, compile_cached
from weft.switch.engine.control.entities import Exact, Lpm, MemberTarget
from weft.switch.realtime import bare
from weft.switch.realtime.packet_sockets import open_port
from weft.tools.bench.switch import HOPS
from weft.tools.bench.switch_traffic import (
    START_DEADLINE_S,
    WINDOWS,
    BenchmarkRow,
    ForwardingDevice,
    TrafficGenerator,
    chosen_window,
)
from weft.tools.bench.timing import BENCHMARK_LIMIT_S
from weft.topo.fabric_program import fabric_macros, fabric_program
from weft.topo.interfaces import SYSCTLS
from weft.topo.worlds.emulated.namespaces import run_batch, write_sysctls
from weft.topo.worlds.emulated.switch_processes import bmv2_command, find_bmv2
from weft.topo.worlds.processors import cpu_use, read_cpu_times

TRIAL_S = 0.15
MTU = 9000
FANOUT = 4
TWELVE_TABLES = Path(__file__).with_name("programs") / "twelve_tables.p4"

_GROUP = 239 << 24
_MAC = 0x020000000009


def rig(letter: str, outputs: int = 1) -> list[str]:
    """Return lines for ``ip -batch`` that make pairs into a switch (port 1) and out of it (from
    port 2 on)."""
    pairs = [
        (f"{letter.upper()}1", f"i{letter}"),
        *((f"{letter.upper()}{2 + i}", f"{letter}{2 + i}") for i in range(outputs)),
    ]
    return [line for a, b in pairs for line in pair(a, b)]


def pair(a: str, b: str) -> list[str]:
    """Return lines for ``ip -batch`` that make a veth pair."""
    each = f"mtu {MTU} numtxqueues 1 numrxqueues 1"
    return [
        f"link add name {a} {each} type veth peer name {b} {each}",
        f"link set dev {a} up",
        f"link set dev {b} up",
    ]


def unicast(names: ProgramNames, port: int) -> list[Entity]:
    """Return entries of fabric.p4 that let everything in 10/8 leave by one port."""
    call = Action.of(names.name("forward"), port=port, src_mac=_MAC, dst_mac=_MAC)
    return [
        PlannedMember(names.name("ecmp"), port, call),
        entry(
            names.name("ipv4_route"), {names.name("dst_addr"): Lpm(10 << 24, 8)}, MemberTarget(port)
        ),
    ]


def replicated(names: ProgramNames) -> list[Entity]:
    """Return entries of fabric.p4 that send a group to four ports."""
    call = Action.of(names.name("replicate"), group=1)
    return [
        PlannedMulticast(1, tuple(range(2, 2 + FANOUT))),
        entry(names.name("multicast_route"), {names.name("dst_addr"): Exact(_GROUP)}, call),
    ]


def load(
    name: str, number: int, address: str, program: ProgramFiles, entities: list[Entity]
) -> None:
    """Give a switch its program and entries, as any controller does."""
    with contextlib.closing(Session(name, number, address, deadline_s=60.0)) as session:
        session.connect()
        session.push_program(LoadableProgram.read(program), START_DEADLINE_S)
        for each in entities:
            session.write([Update("insert", each)])


class Bench:
    """All devices, which are up, and their rows."""

    def __init__(self, folder: Path, sizes: Sequence[int]) -> None:
        self.folder = folder
        self.sizes = sizes
        self.rows: list[BenchmarkRow] = []
        self.devices: list[ForwardingDevice] = []
        self.skipped: list[str] = []
        self.fabric = compile_cached(
            fabric_program(), defines=dict(fabric_macros(BMV2_AGGREGATION_VALUES))
        )
        self.names = LoadableProgram.read(self.fabric).names
        self.twelve = compile_cached(TWELVE_TABLES)

    def start(self) -> None:
        """Bring everything up."""
        mounted = run_tool(["mount", "-t", "sysfs", "sysfs", "/sys"])
        if mounted.returncode:
            raise MachineError(f"mount -t sysfs: {last_words(mounted)}")
        write_sysctls(SYSCTLS)
        run_batch("ip", ["link set dev lo up"])
        self.ceiling()
        self.weft()
        self.weft_more()
        try:
            find_bmv2()
        except MachineError:
            self.skipped.append("BMv2: simple_switch_grpc is not on PATH")
            return
        self.bmv2()
        self.bmv2_chain()

    def add(self, device: ForwardingDevice) -> ForwardingDevice:
        """Start a device."""
        device.start(self.folder / f"{device.name.replace(' ', '-')}.log")
        self.devices.append(device)
        return device

    def ceiling(self) -> None:
        """Add the bare loop to what is measured."""
        run_batch("ip", rig("a"))
        command = python_command("weft.tools.bench.switch_rows", "forward", "A1", "A2")
        device = self.add(ForwardingDevice("ceiling", command, says_ready))
        self.rows += [
            BenchmarkRow("ceiling", "unicast", size, "a", [device]) for size in self.sizes
        ]

    def switch(self, name: str, number: int, ports: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a switch in the form that the built-in switch's configuration has."""
        return {"name": name, "device_id": number, "address": self.address(name), "ports": ports}

    def address(self, name: str) -> str:
        """Return where a switch of this name serves P4Runtime: ``unix:PATH``."""
        return f"unix:{self.folder / name}.sock"

    def weft_process(self, name: str, switches: list[dict[str, Any]]) -> ForwardingDevice:
        """Return a process of the built-in switch."""
        path = self.folder / f"{name.replace(' ', '-')}.json"
        path.write_text(json.dumps({"switches": switches}))
        return self.add(
            ForwardingDevice(name, python_command("weft.switch.realtime", str(path)), says_ready)
        )

    def weft(self) -> None:
        """Add the built-in switch with fabric.p4 to what is measured."""
        run_batch("ip", rig("b", FANOUT))
        prepared = run_tool(
            python_command("weft.switch.realtime", "--prepare"),
            timeout_s=BENCHMARK_LIMIT_S,
            what="what prepares the switch",
        )
        if prepared.returncode:
            raise RunError(f"the switch cannot be prepared: {last_words(prepared)}")
        ports = [{"port": port, "interface": f"B{port}"} for port in range(1, 2 + FANOUT)]
        device = self.weft_process("weft", [self.switch("fabric", 1, ports)])
        self.load_fabric("fabric", "weft", "b", device)

    def load_fabric(self, name: str, what: str, letter: str, device: ForwardingDevice) -> None:
        """Load fabric.p4 into a switch, and add its unicast and multicast to what is measured."""
        load(
            name,
            1,
            self.address(name),
            self.fabric,
            unicast(self.names, 2) + replicated(self.names),
        )
        self.rows += [
            *(BenchmarkRow(what, "unicast", size, letter, [device]) for size in self.sizes),
            BenchmarkRow(
                what, "multicast to 4", 1400, letter, [device], copies=FANOUT, destination=_GROUP
            ),
        ]

    def weft_more(self) -> None:
        """Add twelve tables, and four switches on patch links, to what is measured."""
        run_batch("ip", rig("c") + rig("d"))
        ports = [{"port": port, "interface": f"C{port}"} for port in (1, 2)]
        switches = [self.switch("twelve", 1, ports)]
        for i in range(HOPS):
            left = {"interface": "D1"} if i == 0 else {"patch": [f"hop{i - 1}", 2]}
            right = {"interface": "D2"} if i == HOPS - 1 else {"patch": [f"hop{i + 1}", 1]}
            switches.append(
                self.switch(f"hop{i}", 2 + i, [{"port": 1, **left}, {"port": 2, **right}])
            )
        device = self.weft_process("weft with 5 switches", switches)
        load("twelve", 1, self.address("twelve"), self.twelve, [])
        for i in range(HOPS):
            load(f"hop{i}", 2 + i, self.address(f"hop{i}"), self.fabric, unicast(self.names, 2))
        self.rows += [
            BenchmarkRow("weft", "12 tables", 1400, "c", [device]),
            BenchmarkRow("weft", "patch links", 1400, "d", [device], hops=HOPS),
        ]

    def bmv2_process(self, name: str, number: int, ports: dict[int, str]) -> ForwardingDevice:
        """Return a BMv2 without a program."""
        path = self.folder / f"{name}.sock"
        command = bmv2_command(number, path, ports)
        return self.add(ForwardingDevice(name, command, lambda _: listens(path)))

    def bmv2(self) -> None:
        """Add BMv2 with the same programs to what is measured."""
        run_batch("ip", rig("e", FANOUT) + rig("f"))
        device = self.bmv2_process("bmv2", 1, {port: f"E{port}" for port in range(1, 2 + FANOUT)})
        self.load_fabric("bmv2", "bmv2", "e", device)
        device = self.bmv2_process("bmv2-twelve", 2, {1: "F1", 2: "F2"})
        load("bmv2-twelve", 2, self.address("bmv2-twelve"), self.twelve, [])
        self.rows.append(BenchmarkRow("bmv2", "12 tables", 1400, "f", [device]))

    def bmv2_chain(self) -> None:
        """Add four BMv2, one behind the other over veth pairs, to what is measured."""
        run_batch("ip", rig("h"))
        for i in range(HOPS - 1):
            run_batch("ip", pair(f"J{i}", f"K{i}"))
        devices = []
        for i in range(HOPS):
            left = "H1" if i == 0 else f"K{i - 1}"
            right = "H2" if i == HOPS - 1 else f"J{i}"
            name = f"bmv2-hop{i}"
            devices.append(self.bmv2_process(name, 3 + i, {1: left, 2: right}))
            load(name, 3 + i, self.address(name), self.fabric, unicast(self.names, 2))
        self.rows.append(BenchmarkRow("bmv2", "4 in a row", 1400, "h", devices, hops=HOPS))

    def measure(self, rounds: int, turn_s: float) -> None:
        """Choose each row's window, then let all rows take turns."""
        generator = TrafficGenerator()
        with contextlib.ExitStack() as stack:
            ports = {
                letter: stack.enter_context(open_port(f"i{letter}"))
                for letter in {row.letter for row in self.rows}
            }
            for row in self.rows:
                trials = {
                    window: generator.run(row, ports[row.letter], window, TRIAL_S)
                    for window in WINDOWS
                }
                row.window = chosen_window(
                    {window: trial["packets_per_s"] for window, trial in trials.items()}
                )
            for _ in range(rounds):
                for row in self.rows:
                    row.turns.append(generator.run(row, ports[row.letter], row.window, turn_s))

    def figures(self) -> dict[str, Any]:
        """Return what was measured, in a form that JSON can hold."""
        return {
            "cores": len(os.sched_getaffinity(0)),
            "skipped": self.skipped,
            "processes": {
                device.name: {
                    "start_s": device.start_s,
                    "start_bytes": device.start_bytes,
                    "end_bytes": device.memory_bytes(),
                }
                for device in self.devices
                if device.name in ("ceiling", "weft", "weft with 5 switches", "bmv2")
            },
            "rows": [
                {
                    "what": row.what,
                    "traffic": row.traffic,
                    "frame_bytes": row.frame_bytes,
                    "hops": row.hops,
                    "copies": row.copies,
                    "window": row.window,
                    "turns": row.turns,
                }
                for row in self.rows
            ],
        }

    def close(self) -> None:
        """End all devices."""
        for device in self.devices:
            device.process.send_signal(signal.SIGKILL)
        for device in self.devices:
            killed(device.process)


def says_ready(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "ready\n"


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        listens = client.connect_ex(str(path)) == 0
    if not listens:
        time.sleep(0.002)
    return listens


def forward(source: str, target: str) -> None:
    """Forward packets until killed: this is the process of the ceiling."""
    ports = [open_port(source), open_port(target)]
    messages = bare.FrameMessages()
    watched = np.zeros(1, np.int64)
    bare.forward(-1, -1, messages.headers, messages.vectors, watched)  # compiled before it is ready
    print("ready", flush=True)
    bare.forward(ports[0].fileno(), ports[1].fileno(), messages.headers, messages.vectors, watched)


class Wanted(msgspec.Struct):
    """What `weft.tools.bench.switch` asks this process for."""

    folder: str
    sizes: list[int]
    """Of frames, in bytes."""
    rounds: int
    turn_s: float


def main(wanted: Wanted) -> None:
    """Measure everything and print it."""
    with contextlib.closing(Bench(Path(wanted.folder), wanted.sizes)) as bench:
        bench.start()
        load_before = os.getloadavg()[0]
        before = read_cpu_times()
        bench.measure(wanted.rounds, wanted.turn_s)
        stolen = cpu_use(before, read_cpu_times()).steal
        print(json.dumps({**bench.figures(), "load_before": load_before, "stolen": stolen}))


if __name__ == "__main__":
    if sys.argv[1] == "forward":
        forward(*sys.argv[2:])
    else:
        try:
            main(msgspec.json.decode(sys.argv[1], type=Wanted))
        except WeftError as failure:
            print(failure)
            sys.exit(1)
