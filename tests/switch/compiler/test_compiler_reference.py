"""The compiler held against p4c, and its programs run on BMv2, where those are installed."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.compiler_support import FABRIC, PROGRAMS, bmv2, p4c
from tests.support.p4c_peer import CURRENT, in_both, p4c_version, with_p4c

from weft.switch.compiler import ProgramFiles, compile_program, write_outputs

NEEDS_P4C = pytest.mark.skipif(
    p4c() is None, reason="p4c is not installed: no p4c-bm2-ss on the PATH, no WEFT_P4C"
)
NEEDS_BMV2 = pytest.mark.skipif(
    bmv2() is None or os.geteuid() != 0,
    reason="BMv2's simple_switch is not on the PATH, or no root for a network namespace of its own",
)

# p4c 1.2.5.16 crashes on this part of the program.
DEFINES: dict[str, dict[str, str | None]] = {"control_flow": {"NO_EXIT_IN_SUBCONTROL": None}}

ALL_PROGRAMS = [FABRIC, *sorted(PROGRAMS.glob("*.p4"))]


def with_weft(source: Path, folder: Path) -> ProgramFiles:
    return write_outputs(compile_program(source, defines=DEFINES.get(source.stem)), "weft", folder)


@NEEDS_P4C
@pytest.mark.parametrize("source", ALL_PROGRAMS, ids=lambda path: path.stem)
def test_p4info_is_the_same_as_p4cs(source: Path, tmp_path: Path) -> None:
    ours = with_weft(source, tmp_path).p4info.read_text()
    theirs = with_p4c(source, tmp_path, DEFINES.get(source.stem, {})).p4info.read_text()
    assert in_both(ours) == in_both(theirs)
    assert ours == theirs or p4c_version() < CURRENT


def _write_capture(path: Path, packets: list[bytes]) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in enumerate(packets):
            file.write(struct.pack("<IIII", 1, number * 10000, len(packet), len(packet)) + packet)


def _read_capture(path: Path) -> list[bytes]:
    data = path.read_bytes()
    packets, offset = [], 24
    while offset + 16 <= len(data):
        length = struct.unpack_from("<IIII", data, offset)[2]
        packets.append(data[offset + 16 : offset + 16 + length])
        offset += 16 + length
    return packets


PORTS = (0, 1, 2, 3, 7)


def run_bmv2(program: Path, packets: list[bytes], folder: Path) -> dict[int, list[bytes]]:
    """What comes out of each port of BMv2 when the packets go in at port 1.

    At most 60 packets: BMv2's queues hold 64, and it does not keep to the capture's times when the
    machine is busy.
    """
    folder.mkdir()
    for port in PORTS:
        _write_capture(folder / f"p{port}_in.pcap", packets if port == 1 else [])
    interfaces = [word for port in PORTS for word in ("-i", f"{port}@p{port}")]
    command = ["unshare", "-n", str(bmv2()), str(program), "--use-files", "1", *interfaces]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    before: list[int] = []
    sizes = [-1]
    started = time.monotonic()
    # Ready when nothing has come out for a while, after the one second that BMv2 waits.
    while sizes != before or time.monotonic() < started + 2.5:
        before = sizes
        time.sleep(0.4)
        assert process.poll() is None, process.communicate()[0].decode()
        sizes = [path.stat().st_size for path in sorted(folder.glob("*_out.pcap"))]
    process.terminate()
    process.communicate()
    return {port: _read_capture(folder / f"p{port}_out.pcap") for port in PORTS}


def arithmetic(generator: random.Random, number: int) -> bytes:
    return generator.randbytes(34)


def parsing(generator: random.Random, number: int) -> bytes:
    packet = bytearray(generator.randbytes(14))
    packet[0] = generator.choice([1, 2, 3, 0xEE, 1, 2])
    packet[3] = generator.choice([4, 6, 4, 6, 9]) << 4 | generator.randrange(4)
    if packet[0] == 2:
        packet[1] = generator.choice([1, 2, 3, 4])
    if packet[0] == 3 and generator.random() < 0.7:
        packet[1:3] = b"\x03\x03"
    for place in range(4, 14):
        if generator.random() < 0.3:
            packet[place] = generator.choice([0xA5, 0x10, 0x41, 0x25, 0x20])
    return bytes(packet[: generator.choice([14, 14, 14, generator.randrange(1, 9)])])


def control_flow(generator: random.Random, number: int) -> bytes:
    packet = bytearray(generator.randbytes(6))
    packet[0] = generator.choice([1, 2, 3, 4, 5, 6, 0x90])
    packet[1] = generator.choice([1, 2, 3, packet[1], packet[1], packet[1]])
    packet[2] = generator.choice([0, 0x11, packet[2], packet[2]])
    packet[3] = generator.choice([9, packet[3]])
    return bytes(packet)


def tables(generator: random.Random, number: int) -> bytes:
    packet = bytearray(generator.randbytes(24))
    packet[6:10] = generator.choice([b"\x0a\x01\x02\x03", b"\x0a\x01\x05\x03", packet[6:10]])
    packet[13] = generator.choice([0x10, packet[13]])
    packet[14:16] = generator.choice([b"\x00\x50", b"\x1f\x90", b"\x10\x05", b"\x04\x00"])
    packet[16] = generator.choice([6, 17])
    packet[17] = generator.choice([1, 2, 4, 5, 17])
    return bytes(packet)


def externs(generator: random.Random, number: int) -> bytes:
    packet = bytearray(generator.randbytes(60))
    packet[0] = number % 12
    return bytes(packet)


def headers(generator: random.Random, number: int) -> bytes:
    packet = bytearray(generator.randbytes(13))
    packet[0], packet[2] = number % 11, number % 3
    return bytes(packet)


@NEEDS_P4C
@NEEDS_BMV2
@pytest.mark.system
@pytest.mark.parametrize(
    "make", [arithmetic, parsing, control_flow, tables, externs, headers], ids=lambda f: f.__name__
)
def test_bmv2_does_the_same_with_our_json_as_with_p4cs(
    make: Callable[[random.Random, int], bytes], tmp_path: Path
) -> None:
    source = PROGRAMS / f"{make.__name__}.p4"
    generator = random.Random(7)
    packets = [make(generator, number) for number in range(60)]
    ours = run_bmv2(with_weft(source, tmp_path).json, packets, tmp_path / "ours")
    program = with_p4c(source, tmp_path, DEFINES.get(source.stem, {}))
    theirs = run_bmv2(program.json, packets, tmp_path / "theirs")
    assert sum(len(item) for item in theirs.values()) > 10
    assert ours == theirs


@NEEDS_BMV2
@pytest.mark.system
@pytest.mark.parametrize("source", ALL_PROGRAMS, ids=lambda path: path.stem)
def test_bmv2_loads_our_json(source: Path, tmp_path: Path) -> None:
    outputs = run_bmv2(with_weft(source, tmp_path).json, [], tmp_path / "run")
    assert outputs == {port: [] for port in PORTS}
