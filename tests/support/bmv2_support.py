"""Runs the same packets through simple_switch and through the plain form of the engine."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import p4c_peer

from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane, Queue

PORTS = 5
CONFIGURED_S = 60.0
"""How long simple_switch_CLI may take to configure the switch."""

Sent = dict[int, list[bytes]]
"""Frames by egress port."""

SCRIPT = """
ip link set lo up
{target} --use-files 0 {interfaces} --thrift-port 19090 \
    --notifications-addr ipc://events.ipc {options} program.json > bmv2.log 2>&1 &
switch=$!
echo $switch > pid
for i in $(seq 100); do
    echo help | {target}_CLI --thrift-port 19090 > /dev/null 2>&1 && break
    sleep 0.1
done
{target}_CLI --thrift-port 19090 < commands > cli.log 2>&1
touch configured
read finished
kill $switch
wait $switch
"""


def require_bmv2(target: str = "simple_switch") -> None:
    """Skip the test where BMv2 is missing or cannot have a namespace of its own."""
    for name in (target, f"{target}_CLI"):
        if shutil.which(name) is None:
            pytest.skip(f"BMv2 ({name}) is not installed")
    helped = subprocess.run([f"{target}_CLI", "--help"], capture_output=True, text=True)
    if helped.returncode != 0:  # it configures switches for all tests
        said = " ".join(helped.stderr.splitlines()[-1:])
        pytest.skip(f"BMv2's {target}_CLI does not start: {said}")
    if os.geteuid() != 0:
        pytest.skip("BMv2 is given a network namespace of its own: needs root")


def compile_with_p4c(source: Path) -> str:
    """The BMv2 JSON that p4c makes of a source; skips where p4c is not there, or too old."""
    output = source.with_suffix(".p4c.json")
    p4c_peer.compile_with_p4c(source, output)
    return output.read_text()


PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def pcap_records(frames: Iterable[tuple[int, bytes]]) -> bytes:
    """What a capture file has behind its header, of frames with the milliseconds at which they
    come. BMv2 takes no notice of the time: it reads a file as fast as it can, so queues fill."""
    data = b""
    for milliseconds, frame in frames:
        stamp = (milliseconds // 1000, milliseconds % 1000 * 1000)
        data += struct.pack("<IIII", *stamp, len(frame), len(frame)) + frame
    return data


def feed(pipe: int, configured: Path, records: bytes) -> None:
    """Write the frames of a capture file to a pipe once the switch is configured, and close it."""
    deadline = time.monotonic() + CONFIGURED_S
    while not configured.exists() and time.monotonic() < deadline:
        time.sleep(0.02)  # between two looks
    with os.fdopen(pipe, "wb") as file:
        file.write(records)


def read_pcap(path: Path) -> list[bytes]:
    """The whole frames of a capture file, which may still be growing."""
    data = path.read_bytes() if path.is_file() else b""
    frames, at = [], 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        if at + 16 + length > len(data):
            break
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


def loaded(
    program: str, ports: int, *, plain: bool, **options: Any
) -> tuple[Dataplane, SwitchControl]:
    """A switch with ports from 1 on that runs a program."""
    dataplane = Dataplane(1, 8, packets=64, plain=plain, **options)
    for port in range(1, ports + 1):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0)
    control.load_program(program, load="save")
    control.commit_program()
    return dataplane, control


def weft(
    program: str,
    frames: Sequence[bytes],
    configure: Callable[[SwitchControl], None] | None = None,
    *,
    plain: bool = True,
) -> Sent:
    """What the engine sends on each port for frames that arrive at port 1."""
    dataplane, control = loaded(program, PORTS, plain=plain)
    if configure is not None:
        configure(control)
        control.publish()
    sent: Sent = {port: [] for port in range(1, PORTS + 1)}
    for frame in frames:
        dataplane.receive(0, 1, [frame], 0)
        for departure in dataplane.transmit(0):
            sent[departure.port].append(departure.frame)
    assert dataplane.context.free_buffer_count == 64 == dataplane.context.free_packet_count, (
        "a packet or a buffer was lost"
    )
    return sent


def bmv2(
    folder: Path, program: str, frames: Sequence[bytes], count: int, commands: str = ""
) -> Sent:
    """What simple_switch sends on each port for frames that come in at port 1 (`run_bmv2`)."""
    return run_bmv2(folder, program, {1: list(enumerate(frames))}, count, commands)


def run_bmv2(
    folder: Path,
    program: str,
    arrivals: Mapping[int, Sequence[tuple[int, bytes]]],
    count: int,
    commands: str = "",
    ports: Sequence[int] = range(1, PORTS + 1),
    limit_s: float = 60.0,
    target: str = "simple_switch",
    options: str = "",
) -> Sent:
    """What simple_switch sends on each port; ends when ``count`` frames are out and no more come,
    or after ``limit_s`` seconds.

    ``arrivals`` are frames by port, with the milliseconds at which they come; they come once the
    switch, which is one of BMv2's, is configured. ``commands`` are for its CLI, ``options`` for its
    command line. What it prints is in bmv2.log of the folder.
    """
    (folder / "program.json").write_text(program)
    (folder / "commands").write_text(f"set_queue_depth 10000\n{commands}\n")
    interfaces = " ".join(f"-i {port}@p{port}" for port in ports)
    for port in ports:
        path = folder / f"p{port}_in.pcap"
        if port not in arrivals:
            path.write_bytes(PCAP_HEADER)
            continue
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDWR)  # so that opening waits for nobody
        os.write(pipe, PCAP_HEADER)
        feeding = (pipe, folder / "configured", pcap_records(arrivals[port]))
        threading.Thread(target=feed, args=feeding, daemon=True).start()
    script = SCRIPT.format(interfaces=interfaces, target=target, options=options)
    process = subprocess.Popen(
        ["unshare", "-n", "bash", "-c", script],
        cwd=folder,
        stdin=subprocess.PIPE,
    )

    def sent() -> Sent:
        return {port: read_pcap(folder / f"p{port}_out.pcap") for port in ports}

    try:
        deadline = time.monotonic() + limit_s
        before: Sent = {}
        while time.monotonic() < deadline:
            now = sent()
            if sum(map(len, now.values())) >= count and now == before:
                break
            pid = folder / "pid"
            if pid.is_file() and pid.read_text().strip():
                running = Path(f"/proc/{pid.read_text().strip()}/exe").exists()
                assert running, f"BMv2 ended with {sum(map(len, now.values()))} frames sent"
            log = (folder / "bmv2.log").read_text() if (folder / "bmv2.log").exists() else ""
            assert not re.search(r"(?m)^[^\[]*(Bad json|Invalid)", log), log[:2000]
            before = now
            time.sleep(0.3)  # between two looks at the files
    finally:
        process.communicate(b"\n", timeout=120)
    return sent()


def assert_same(ours: Sent, theirs: Sent) -> None:
    """Every port has sent the same frames."""
    for port in ours:
        mine, other = sorted(ours[port]), sorted(theirs[port])
        missing = [frame.hex() for frame in other if frame not in mine]
        extra = [frame.hex() for frame in mine if frame not in other]
        assert mine == other, (
            f"port {port}: BMv2 alone sent {missing[:8]}; the engine alone sent {extra[:8]}"
        )
