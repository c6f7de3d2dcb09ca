"""What a capture file holds is counted in the file itself."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from weft.topo.worlds.emulated.captures import packets_in

HEADER = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)


def packet(size_bytes: int) -> bytes:
    return struct.pack("=IIII", 1, 2, size_bytes, size_bytes) + bytes(size_bytes)


@pytest.mark.parametrize("cut_bytes", [0, 1, 99, 100, 101, 116, 117])
def test_packets_that_are_cut_are_not_counted(tmp_path: Path, cut_bytes: int) -> None:
    text = HEADER + packet(60) + packet(0) + packet(100)
    (tmp_path / "file.pcap").write_bytes(text[: len(text) - cut_bytes])
    whole = 3 - (cut_bytes > 0) - (cut_bytes > 116)
    assert packets_in(tmp_path / "file.pcap") == whole


@pytest.mark.parametrize("text", [b"", HEADER[:10], HEADER])
def test_a_file_without_packets_has_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "file.pcap").write_bytes(text)
    assert packets_in(tmp_path / "file.pcap") == 0
    assert packets_in(tmp_path / "missing.pcap") == 0
