"""The wire format: compiled code against the plain packet class, zlib and scapy."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of
from tests.support.rocev2_packet import MalformedPacket, Packet, icrc
from tests.support.wire_decoding import decode

from weft.agents.datagrams import ipv4
from weft.agents.wire import packets
from weft.agents.wire.compiled import compiled
from weft.agents.wire.crc import crc32, crc_by_tables
from weft.agents.wire.headers import HAS_PAYLOAD, PROPERTIES, Opcode

A, B = ipv4("10.0.0.1"), ipv4("10.0.3.254")


@compiled
def _crc_by_tables_of(data: npt.NDArray[np.uint8]) -> int:
    register = crc_by_tables(np.uint64(0xFFFFFFFF), data.ctypes.data, len(data))
    result: int = np.int64(register ^ np.uint64(0xFFFFFFFF))
    return result


@st.composite
def some_packet(draw: st.DrawFn) -> Packet:
    opcode = draw(st.sampled_from(sorted(Opcode)))
    bits = PROPERTIES[opcode]
    word = st.integers(0, 2**32 - 1)
    fields = {
        1: (("remote_address", st.integers(0, 2**64 - 1)), ("rkey", word), ("dma_length", word)),
        2: (("qkey", word), ("source_queue_pair", st.integers(0, 2**24 - 1))),
        4: (("syndrome", st.integers(0, 255)), ("message_sequence", st.integers(0, 2**24 - 1))),
        8: (("immediate", word),),
    }
    values = {
        name: draw(numbers)
        for bit, columns in fields.items()
        if bits & bit
        for name, numbers in columns
    }
    payload = draw(st.binary(max_size=300)) if bits & HAS_PAYLOAD else b""
    number = st.integers(0, 2**24 - 1)
    return Packet(
        opcode,
        draw(number),
        draw(number),
        draw(st.booleans()),
        payload=payload,
        congested=draw(st.booleans()),
        begins_message=draw(st.booleans()),
        **values,
    )


@given(st.binary(max_size=700))
def test_crc_equals_zlib(data: bytes) -> None:
    assert crc32(data) == zlib.crc32(data)
    assert _crc_by_tables_of(np.frombuffer(data, np.uint8)) == zlib.crc32(data)


def test_icrc_is_crc32_of_the_masked_headers() -> None:
    data = bytes(range(100))
    masked = bytearray(data)
    masked[4] = 0xFF
    pseudo = (
        b"\xff" * 8
        + b"\x45\xff"
        + (20 + 8 + 104).to_bytes(2, "big")
        + b"\x00\x00\x40\x00\xff\x11\xff\xff"
        + A.to_bytes(4, "big")
        + B.to_bytes(4, "big")
        + (50_000).to_bytes(2, "big")
        + (4791).to_bytes(2, "big")
        + (8 + 104).to_bytes(2, "big")
        + b"\xff\xff"
    )
    assert icrc(data, A, B, 50_000) == zlib.crc32(pseudo + masked)


def test_icrc_refuses_what_is_shorter_than_a_bth() -> None:
    with pytest.raises(ValueError, match="11 bytes"):
        icrc(bytes(11), A, B, 1)


@given(some_packet(), st.integers(0, 65535))
def test_scapy_computes_the_same_icrc(packet: Packet, source_port: int) -> None:
    roce = pytest.importorskip("scapy.contrib.roce")
    inet = pytest.importorskip("scapy.layers.inet")
    data = packet.encode(A, B, source_port)
    header = inet.IP(src="10.0.0.1", dst="10.0.3.254", id=0, flags="DF", ttl=64)
    udp = inet.UDP(sport=source_port, dport=4791, chksum=0)
    frame = inet.IP(bytes(header / udp / data))
    assert roce.BTH in frame
    assert frame[roce.BTH].compute_icrc(data[:-4]) == data[-4:]


@given(some_packet(), st.integers(0, 65535))
def test_a_packet_comes_back_as_it_was(packet: Packet, source_port: int) -> None:
    data = packet.encode(A, B, source_port)
    assert len(data) % 4 == 0
    assert Packet.decode(data, A, B, source_port) == packet


@given(st.lists(some_packet(), min_size=1, max_size=5))
def test_the_compiled_decoder_finds_the_same_fields(listed: list[Packet]) -> None:
    batch = batch_of(Datagram(A, B, 77, 0, packet.encode(A, B, 77)) for packet in listed)
    found = decode(batch)
    assert found.status.tolist() == [packets.GOOD] * len(listed)
    for row, packet in enumerate(listed):
        fields = found.fields[row]
        assert fields["opcode"] == packet.opcode
        assert fields["queue_pair"] == packet.queue_pair
        assert fields["psn"] == packet.psn
        assert fields["acknowledge_request"] == packet.acknowledge_request
        assert int(fields["remote_address"]) % 2**64 == packet.remote_address
        assert fields["rkey"] == packet.rkey
        assert fields["dma_length"] == packet.dma_length
        assert fields["qkey"] == packet.qkey
        assert fields["source_queue_pair"] == packet.source_queue_pair
        assert fields["syndrome"] == packet.syndrome
        assert fields["message_sequence"] == packet.message_sequence
        assert fields["immediate"] == packet.immediate
        assert fields["congested"] == packet.congested
        assert fields["begins_message"] == packet.begins_message
        start = fields["payload_offset"]
        payload = batch.data[row, start : start + fields["payload_length"]]
        assert payload.tobytes() == packet.payload


@given(some_packet(), st.data())
def test_one_wrong_bit_outside_the_masked_fields_is_found(
    packet: Packet, data: st.DataObject
) -> None:
    spoiled = bytearray(packet.encode(A, B, 7))
    bit = data.draw(st.integers(0, 8 * len(spoiled) - 1).filter(lambda bit: bit // 8 != 4))
    spoiled[bit // 8] ^= 1 << bit % 8
    found = decode(batch_of([Datagram(A, B, 7, 0, bytes(spoiled))]))
    assert found.status.tolist() == [packets.BAD_ICRC]
    with pytest.raises(MalformedPacket):
        Packet.decode(bytes(spoiled), A, B, 7)


@given(st.binary(max_size=80), st.booleans())
def test_random_bytes_are_refused_or_decode_alike_in_both(data: bytes, sealed: bool) -> None:
    if sealed and len(data) >= 12:
        data += icrc(data, A, B, 9).to_bytes(4, "little")
    status = decode(batch_of([Datagram(A, B, 9, 0, data)])).status[0]
    try:
        Packet.decode(data, A, B, 9)
    except MalformedPacket:
        assert status != packets.GOOD
    else:
        assert status == packets.GOOD or data[1] & 0xF


@pytest.mark.parametrize("field", ["source", "destination", "source_port"])
def test_the_icrc_covers_addresses_and_source_port(field: str) -> None:
    data = Packet(Opcode.RC_SEND_ONLY, 5, 6, payload=b"hello").encode(A, B, 9)
    changed = Datagram(A, B, 9, 0, data)._replace(**{field: 10})  # type: ignore[arg-type]
    assert decode(batch_of([changed])).status.tolist() == [packets.BAD_ICRC]


def test_the_icrc_leaves_out_tos_and_the_congestion_bits() -> None:
    data = bytearray(Packet(Opcode.RC_SEND_ONLY, 5, 6, payload=b"hello").encode(A, B, 9))
    data[4] ^= 0x40
    marked = Datagram(A, B, 9, 3, bytes(data))
    assert decode(batch_of([marked])).status.tolist() == [packets.GOOD]
