"""What large requests to a switch cost: in errors, bytes of metadata, messages and memory."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import pytest
from google.protobuf import text_format
from google.rpc import code_pb2
from tests.support.p4runtime_support import (
    DELETE,
    INSERT,
    MODIFY,
    SEND,
    BareClient,
    Files,
    Refused,
    config_request,
    make_dataplane,
)

from weft.controller.client import LoadableProgram, Session, WriteError
from weft.controller.entities import Action, entry
from weft.controller.plan import Update
from weft.switch.engine.control.entities import Exact
from weft.switch.messages import p4info_pb2, p4runtime_pb2
from weft.switch.p4runtime import arrays, configs, received, requests
from weft.switch.p4runtime.device import Device, TurnLock
from weft.switch.p4runtime.local import LocalError, LocalSwitch, answered
from weft.switch.p4runtime.outcomes import DETAILS_BYTES, Outcomes
from weft.switch.p4runtime.received import (
    MOST_ELEMENTS,
    MOST_MESSAGE_BYTES,
    MOST_P4INFO_BYTES,
    Malformed,
    RequestBatch,
    batch_parser,
)
from weft.switch.p4runtime.refusals import MOST_MESSAGE, Refusal, fitting, not_found
from weft.switch.p4runtime.server import P4RuntimeServer

pytest_plugins = ["tests.support.p4runtime_fixtures"]

METADATA_BYTES = 8192
"""What gRPC's clients take unless told otherwise."""

GROUP = "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: %d } }"


@pytest.fixture
def device(every_entity: Files) -> Device:
    made = Device(make_dataplane().control(0, "leaf0"), 1)
    configs.set_config(made, config_request(every_entity))
    return made


def write_bytes(client: BareClient, *runs: tuple[int, int, str], atomicity: int = 0) -> bytes:
    """A serialised WriteRequest of runs of equal updates: how many, type and entity."""
    request = p4runtime_pb2.WriteRequest(atomicity=atomicity)
    client._identify(request)
    data = request.SerializeToString()
    for count, kind, text in runs:
        part = p4runtime_pb2.WriteRequest()
        text_format.Merge(client.by_id(text), part.updates.add(type=kind).entity)
        data += part.SerializeToString() * count
    return bytes(data)


def sent(server: P4RuntimeServer, data: bytes, method: str = "Write") -> Refused:
    """How a request fails for a client that has gRPC's own options."""
    with grpc.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/p4.v1.P4Runtime/{method}")(data, timeout=240)
        size = sum(
            len(key) + 32 + (4 * (len(value) + 2) // 3 if key.endswith("-bin") else len(value))
            for key, value in caught.value.trailing_metadata() or ()
        )
        assert size + encoded_bytes(caught.value.details() or "") + 200 <= METADATA_BYTES
        return Refused(caught.value)


def encoded_bytes(message: str) -> int:
    """Bytes of the message of a status as gRPC writes it."""
    return sum(1 if " " <= one <= "~" and one != "%" else 3 * len(one.encode()) for one in message)


# -- errors of batches ---------------------------------------------------------------------------


def test_a_client_with_grpcs_own_options_gets_the_status_of_20000_failing_updates(
    server: P4RuntimeServer, client: BareClient
) -> None:
    refused = sent(server, write_bytes(client, (20_000, DELETE, SEND.format(a=1))))
    assert refused.code == "UNKNOWN"
    shown = len(refused.updates)
    assert refused.details == (
        f"20000 of 20000 updates failed; here are details of the first {shown}"
    )
    assert 20 < shown < 200
    assert {code for code, _ in refused.updates} == {"NOT_FOUND"}
    assert "exact_table" in refused.updates[0][1]
    assert refused.updates[-1][1].endswith(f"(and {20_000 - shown} more updates failed)")


def test_the_first_error_is_told_where_it_comes_late_in_a_large_batch(
    server: P4RuntimeServer, client: BareClient
) -> None:
    client.write((INSERT, GROUP % 1))
    good = (5_000, MODIFY, GROUP % 1)
    refused = sent(server, write_bytes(client, good, (1, INSERT, GROUP % 1), good))
    assert {code for code, _ in refused.updates} == {"OK"}
    assert refused.details.startswith(
        f"1 of 10001 updates failed; here are details of the first {len(refused.updates)}; "
        "number 5001 is the first: ALREADY_EXISTS: "
    )


def test_all_updates_of_a_large_batch_are_tried(
    server: P4RuntimeServer, client: BareClient
) -> None:
    bad = (3 * requests.UPDATES_AT_ONCE, DELETE, SEND.format(a=1))
    sent(server, write_bytes(client, bad, (1, INSERT, GROUP % 7), bad, (1, INSERT, GROUP % 8)))
    found = client.read("packet_replication_engine_entry {}")
    assert [
        one.packet_replication_engine_entry.multicast_group_entry.multicast_group_id
        for one in found
    ] == [7, 8]


@pytest.mark.parametrize("atomicity", [1, 2])
def test_a_large_batch_of_all_or_none_says_which_update_failed(
    server: P4RuntimeServer, client: BareClient, atomicity: int
) -> None:
    data = write_bytes(
        client, (1, INSERT, GROUP % 1), (2_000, MODIFY, GROUP % 1), (1, DELETE, SEND.format(a=1)),
        (2_000, MODIFY, GROUP % 1), atomicity=atomicity,
    )  # fmt: skip
    refused = sent(server, data)
    assert "4002 of 4002 updates failed" in refused.details
    assert "number 2002 is the first: NOT_FOUND: table 'TheIngress.exact_table'" in refused.details
    assert refused.updates[0] == ("ABORTED", "update 2002 of the batch failed: none took effect")
    assert client.read("packet_replication_engine_entry {}") == []


@pytest.mark.parametrize("text", ["e" * 60, "e" * 5_000, "€" * 5_000, "", "%\n" * 300, "\n"])
@pytest.mark.parametrize("good", [0, 1, 100, 120, 150, 5_000])
@pytest.mark.parametrize("bad", [1, 2, 40, 120, 150, 5_000])
def test_the_details_of_any_batch_fit_what_clients_take(text: str, good: int, bad: int) -> None:
    outcomes = Outcomes()
    outcomes.add(None, good)
    outcomes.add(not_found(text), bad)
    status = outcomes.status("updates")
    size = len(status.SerializeToString())
    assert size <= DETAILS_BYTES
    assert 4 * (size + 2) // 3 + encoded_bytes(status.message) + 7 * 32 + 100 <= METADATA_BYTES
    errors = []
    for detail in status.details:
        errors.append(p4runtime_pb2.Error())
        assert detail.Unpack(errors[-1])
    assert [error.canonical_code for error in errors] == (
        [code_pb2.OK] * good + [code_pb2.NOT_FOUND] * bad
    )[: len(errors)]
    if len(errors) < good + bad:
        assert len(errors) * 40 > DETAILS_BYTES / 2 or len(text) > 40
        assert f"{bad} of {good + bad} updates failed; here are details of the first" in (
            status.message
        )
    if good + bad <= 30 and len(text) == 60:
        assert [error.message for error in errors] == [""] * good + [text] * bad


def test_outcomes_keep_no_more_than_can_be_told() -> None:
    outcomes = Outcomes()
    for number in range(50_000):
        outcomes.add(not_found(f"no entry {number}"))
    assert len(outcomes) == outcomes.failed == 50_000
    texts = [one.message for one in outcomes if one is not None and one.message]
    assert sum(map(len, texts)) <= DETAILS_BYTES
    assert texts[:2] == ["no entry 0", "no entry 1"]


def test_outcomes_of_parts_are_those_of_the_whole() -> None:
    refusals_ = [
        None if number % 7 == 0 else Refusal(10 if number < 20 else 5, f"error {number}")
        for number in range(3_000)
    ]
    whole, joined = Outcomes(), Outcomes()
    for at in range(0, 3_000, 11):
        part = Outcomes()
        for refusal in refusals_[at : at + 11]:
            part.add(refusal)
            whole.add(refusal)
        joined.extend(part)
    assert joined.status("updates") == whole.status("updates")


def test_the_controller_says_how_many_updates_of_a_large_batch_failed(fabric: Files) -> None:
    switch = LocalSwitch(make_dataplane().control(0, "leaf0"), 1)
    session = Session("leaf0", 1, switch)
    session.connect()
    session.push_program(LoadableProgram.read(fabric))
    table = "FabricIngress.fault.ingress_fault"
    entity = entry(
        table, {"standard_metadata.ingress_port": Exact(1)}, Action("FabricIngress.fault.lose_all")
    )
    with pytest.raises(WriteError) as caught:
        session.write([Update("delete", entity)] * 5_000)
    shown = len(caught.value.failures)
    assert 20 < shown < 200
    message = f"5000 of 5000 updates failed; here are details of the first {shown}:\n"
    assert message in str(caught.value)
    session.close()


def test_a_long_message_of_any_characters_reaches_the_client(
    server: P4RuntimeServer, client: BareClient
) -> None:
    request = p4runtime_pb2.WriteRequest(device_id=1, role="ü€" * 10_000)
    request.election_id.low = 1
    refused = sent(server, request.SerializeToString())
    assert refused.code == "NOT_FOUND"
    assert 1_985 < encoded_bytes(refused.details) <= MOST_MESSAGE
    assert fitting("a%é\n", 7) == "a%" and fitting("abc", 3) == "abc"


# -- requests that are too large -----------------------------------------------------------------


def test_a_request_of_too_many_updates_is_refused_before_they_are_made(
    server: P4RuntimeServer, client: BareClient
) -> None:
    data = write_bytes(client, (1, INSERT, GROUP % 1)) + b"\x22\x00" * MOST_ELEMENTS
    refused = sent(server, data)
    assert refused.code == "RESOURCE_EXHAUSTED"
    assert refused.details == (
        f"this request has more than {MOST_ELEMENTS} updates, which is the limit; send several"
    )
    assert client.read("packet_replication_engine_entry {}") == []


@pytest.mark.parametrize(
    ("method", "data", "message"),
    [
        ("Write", b"\x22\x00\x22\x80\x80\x80\x01" + bytes(2 << 20), "updates[1] of this request"),
        ("Read", b"\x12\x80\x80\x80\x01" + bytes(2 << 20), "entities[0] of this request"),
        ("Write", b"\x32\x80\x80\x80\x01" + bytes(2 << 20), "this request without its updates"),
        ("Capabilities", b"\x22\x80\x80\x80\x01" + bytes(2 << 20), "this request"),
        ("StreamChannel", b"\x22\x80\x80\x80\x01" + bytes(2 << 20), "this request"),
    ],
)
def test_a_request_of_too_many_bytes_is_refused(
    server: P4RuntimeServer, client: BareClient, method: str, data: bytes, message: str
) -> None:
    refused = sent(server, data, method)
    assert refused.code == "RESOURCE_EXHAUSTED"
    assert refused.details.startswith(f"{message} has 2097")
    assert refused.details.endswith(f" bytes; {MOST_MESSAGE_BYTES} is the limit")


def test_updates_become_messages_when_their_turn_comes(device: Device) -> None:
    one = p4runtime_pb2.WriteRequest()
    entry = one.updates.add(type=INSERT).entity.packet_replication_engine_entry
    entry.multicast_group_entry.multicast_group_id = 1
    entry.multicast_group_entry.metadata = b"m" * 20
    data = one.SerializeToString() * 20_000 + b"\x22\x02\xff\xff"
    parse = batch_parser(p4runtime_pb2.WriteRequest, "updates")
    tracemalloc.start()
    try:
        batch = parse(data)
        outcomes = Outcomes()
        for part in requests.parts(batch):
            outcomes.extend(requests.write(device, part))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(outcomes), outcomes.failed) == (20_001, 20_000)
    assert [one.code for one in outcomes if one is not None][-1] == code_pb2.INVALID_ARGUMENT
    assert peak_bytes < 10 * len(data) + (4 << 20)


def test_what_is_written_before_commit_is_kept_as_bytes_and_bounded(
    device: Device, every_entity: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs.set_config(device, config_request(every_entity, "VERIFY_AND_SAVE"))
    request = p4runtime_pb2.WriteRequest()
    entry = request.updates.add(type=INSERT).entity.packet_replication_engine_entry
    entry.multicast_group_entry.multicast_group_id = 1
    assert not requests.write(device, request).failed
    assert requests.write(device, request).failed
    assert device.staged is not None
    assert device.staged.updates == [request.updates[0].SerializeToString()]
    monkeypatch.setattr(requests, "MOST_STAGED_BYTES", 1)
    with pytest.raises(Refusal, match="wait for COMMIT") as caught:
        requests.write(device, request)
    assert caught.value.code == code_pb2.RESOURCE_EXHAUSTED
    configs.set_config(device, config_request(every_entity, "COMMIT"))
    assert list(device.notes.replication) == [("multicast_group_entry", 1)]


def test_an_answer_ends_where_it_is_too_large(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = p4runtime_pb2.WriteRequest()
    for number in range(1, requests.ENTITIES_PER_RESPONSE + 2):
        entry = write.updates.add(type=INSERT).entity.packet_replication_engine_entry
        entry.multicast_group_entry.multicast_group_id = number
    assert not requests.write(device, write).failed
    read = p4runtime_pb2.ReadRequest()
    for _ in range(10):
        read.entities.add().packet_replication_engine_entry.SetInParent()
    monkeypatch.setattr(requests, "MOST_ANSWER_BYTES", 20_000)
    responses, outcomes = requests.read(device, read.entities)
    assert 20_000 < sum(map(len, responses)) < 40_000
    refused = [one for one in outcomes if one is not None]
    assert 0 < len(refused) == outcomes.failed < len(outcomes) == 10
    assert {one.code for one in refused} == {code_pb2.RESOURCE_EXHAUSTED}
    assert "20000 is the limit; ask for less at a time" in refused[0].message


def test_arrays_of_too_many_cells_are_read_and_written_by_index(
    client: BareClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = client.info.counters[0]
    one = f"counter_entry {{ counter_id: {array.preamble.id} data {{ packet_count: 3 }} INDEX }}"
    without, at_0 = one.replace("INDEX", ""), one.replace("INDEX", "index { index: 0 }")
    monkeypatch.setattr(arrays, "MOST_CELLS", array.size)
    client.write((MODIFY, without))
    monkeypatch.setattr(arrays, "MOST_CELLS", array.size - 1)
    for do in (lambda: client.write((MODIFY, without)), lambda: client.read(without)):
        with pytest.raises(Refused) as caught:
            do()
        assert caught.value.updates == [
            (
                "RESOURCE_EXHAUSTED",
                f"counter {array.preamble.name} has {array.size} cells: with more than "
                f"{array.size - 1} give an index",
            )
        ]
    client.write((MODIFY, at_0))
    assert client.read(at_0)[0].counter_entry.data.packet_count == 3


# -- others meanwhile ----------------------------------------------------------------------------


def test_the_lock_goes_to_who_waits_though_its_holder_wants_it_again() -> None:
    lock = TurnLock()
    order: list[str] = []
    with lock:
        others = [
            threading.Thread(target=lambda name=name: took(name), daemon=True) for name in "abc"
        ]

        def took(name: str) -> None:
            with lock:
                order.append(name)

        for number, other in enumerate(others):
            other.start()
            while len(lock._waiting) <= number:
                pass
    with lock:
        order.append("again")
    for other in others:
        other.join(60)
    assert order == ["a", "b", "c", "again"]


class _Interrupted:
    """The updates of a batch; something happens before one of them is come to."""

    def __init__(self, updates: Sequence[Any], at: int, what: Callable[[], object]) -> None:
        self._updates, self._at, self._what = updates, at, what

    def __len__(self) -> int:
        return len(self._updates)

    def __iter__(self) -> Iterator[Any]:
        for number, update in enumerate(self._updates):
            if number == self._at:
                self._what()
            yield update


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        ("primary", "PERMISSION_DENIED", ""),
        ("program", "FAILED_PRECONDITION", "another program was loaded before this update"),
    ],
)
def test_a_large_batch_ends_where_another_client_or_program_comes(
    every_entity: Files, event: str, code: str, message: str
) -> None:
    switch = LocalSwitch(make_dataplane().control(0, "leaf0"), 1)
    switch.arbitrate((0, 1))
    config = config_request(every_entity)
    config.device_id, config.election_id.low = 1, 1
    switch.stub.SetForwardingPipelineConfig(config)
    request = p4runtime_pb2.WriteRequest(device_id=1)
    request.election_id.low = 1
    at = requests.UPDATES_AT_ONCE
    for number in range(2 * at):
        entry = request.updates.add(type=INSERT).entity.packet_replication_engine_entry
        entry.multicast_group_entry.multicast_group_id = number + 1

    def happen() -> None:
        if event == "primary":
            switch.arbitrate((0, 2))
        else:
            switch.stub.SetForwardingPipelineConfig(config)

    batch = RequestBatch(request, _Interrupted(request.updates, at, happen))
    with pytest.raises(LocalError, match=f"{at} of {2 * at} updates failed") as caught:
        answered(switch.service.write)(batch)
    assert f"number {at + 1} is the first: {code}: {message}" in caught.value.details()
    groups = switch.service.device.notes.replication
    assert len(groups) == (at if event == "primary" else 0)


# -- programs ------------------------------------------------------------------------------------


def test_a_p4info_of_too_many_bytes_is_refused_and_a_large_program_is_not(
    server: P4RuntimeServer, client: BareClient, every_entity: Files
) -> None:
    request = config_request(every_entity)
    client._identify(request)
    request.config.p4_device_config += b" " * (2 * MOST_P4INFO_BYTES)
    data = request.SerializeToString()
    assert not isinstance(received.config_parser()(data), Malformed)
    p4info = p4info_pb2.P4Info()
    p4info.actions.add().preamble.name = "a" * MOST_P4INFO_BYTES
    more = p4runtime_pb2.SetForwardingPipelineConfigRequest()
    more.config.p4info.CopyFrom(p4info)
    data = write_bytes(client) + more.SerializeToString()
    refused = sent(server, data, "SetForwardingPipelineConfig")
    assert refused.code == "RESOURCE_EXHAUSTED"
    assert refused.details.startswith("P4Info, or this request without its p4_device_config, has ")
