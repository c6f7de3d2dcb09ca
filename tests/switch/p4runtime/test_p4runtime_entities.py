"""Action profiles, replication, counters and registers through P4Runtime."""

from __future__ import annotations

import pytest
from tests.support.p4runtime_support import (
    DELETE,
    GROUP,
    INSERT,
    MODIFY,
    SEND,
    BareClient,
    Refused,
)

from weft.switch.engine.switches import Dataplane
from weft.switch.p4runtime.server import P4RuntimeServer

pytest_plugins = ["tests.support.p4runtime_fixtures"]


# -- action profiles -----------------------------------------------------------------------------

MEMBER = r"""action_profile_member {{ action_profile_id: @{profile} member_id: {id}
    action {{ action_id: @send params {{ param_id: 1 value: "\x0{id}" }} }} }}"""
SELECTOR_GROUP = """action_profile_group { action_profile_id: @selector_profile group_id: 1
    members { member_id: 1 weight: 1 } members { member_id: 2 weight: 3 } }"""
INDIRECT = r"""table_entry {{ table_id: @{table} match {{ field_id: 1 exact {{ value: "\x01" }} }}
    action {{ {target} }} }}"""
ONE_SHOT = r"""action_profile_action_set { action_profile_actions { weight: 2
      action { action_id: @send params { param_id: 1 value: "\x01" } } }
    action_profile_actions { weight: 1 action { action_id: @drop } } }"""


def with_members(client: BareClient) -> None:
    client.write(*((INSERT, MEMBER.format(profile="selector_profile", id=id)) for id in (1, 2)))


def test_backup_replicas_are_refused(client: BareClient) -> None:
    """What the switch took and dropped, a client would rely on."""
    replica = "replicas { port: '\\x01' instance: 1 backup_replicas { port: '\\x02' } }"
    for entry in (
        "multicast_group_entry { multicast_group_id: 9",
        "clone_session_entry { session_id: 9",
    ):
        with pytest.raises(Refused) as caught:
            client.write((INSERT, f"packet_replication_engine_entry {{ {entry} {replica} }} }}"))
        ((code, message),) = caught.value.updates
        assert code == "UNIMPLEMENTED" and "backup_replicas" in message
    assert client.read("packet_replication_engine_entry {}") == []


def test_members_groups_and_entries_that_use_them(client: BareClient) -> None:
    with_members(client)
    client.write((INSERT, SELECTOR_GROUP))
    entry = INDIRECT.format(table="selector_table", target="action_profile_group_id: 1")
    client.write((INSERT, entry))
    assert client.read("action_profile_member {}") == [
        client.entity(MEMBER.format(profile="selector_profile", id=id)) for id in (1, 2)
    ]
    assert client.read("action_profile_group {}") == [client.entity(SELECTOR_GROUP)]
    assert client.read("table_entry { table_id: @selector_table }") == [client.entity(entry)]
    one = "action_profile_member { action_profile_id: @selector_profile member_id: 2 }"
    assert len(client.read(one)) == 1
    for text in (MEMBER.format(profile="selector_profile", id=1), SELECTOR_GROUP):
        with pytest.raises(Refused) as caught:
            client.write((DELETE, text))
        assert caught.value.updates[0][0] == "FAILED_PRECONDITION"
    client.write((DELETE, entry))
    client.write((DELETE, SELECTOR_GROUP))
    client.write((DELETE, MEMBER.format(profile="selector_profile", id=1)))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (SELECTOR_GROUP.replace("weight: 3", "weight: 0"), "INVALID_ARGUMENT"),
        (SELECTOR_GROUP.replace("weight: 3", "weight: -1"), "INVALID_ARGUMENT"),
        (SELECTOR_GROUP.replace("member_id: 2", "member_id: 1"), "INVALID_ARGUMENT"),
        (SELECTOR_GROUP.replace("member_id: 2", "member_id: 3"), "NOT_FOUND"),
        (SELECTOR_GROUP.replace("group_id: 1", "group_id: 0"), "INVALID_ARGUMENT"),
        (SELECTOR_GROUP.replace("group_id: 1", "group_id: 1 max_size: -1"), "INVALID_ARGUMENT"),
        (SELECTOR_GROUP.replace("group_id: 1", "group_id: 1 max_size: 3"), "RESOURCE_EXHAUSTED"),
        (SELECTOR_GROUP.replace("group_id: 1", "group_id: 1 max_size: 2000000000").replace(
            "weight: 3", "weight: 1999999999"), "RESOURCE_EXHAUSTED"),
        (SELECTOR_GROUP.replace("weight: 3", "weight: 1999999999"), "RESOURCE_EXHAUSTED"),
        (SELECTOR_GROUP.replace("weight: 3", "weight: 3 watch: 77"), "INVALID_ARGUMENT"),
        (SELECTOR_GROUP.replace("weight: 3", r'weight: 3 watch_port: "\x4d"'), "INVALID_ARGUMENT"),
        (SELECTOR_GROUP.replace("selector_profile", "plain_profile"), "INVALID_ARGUMENT"),
        (MEMBER.format(profile="selector_profile", id=1), "ALREADY_EXISTS"),
        (MEMBER.format(profile="selector_profile", id=0), "INVALID_ARGUMENT"),
        (MEMBER.format(profile="selector_profile", id=3).replace("@send", "@mark"),
         "INVALID_ARGUMENT"),
        ("action_profile_member { action_profile_id: @selector_profile member_id: 5 }",
         "INVALID_ARGUMENT"),
        (INDIRECT.format(table="selector_table", target="action_profile_group_id: 9"), "NOT_FOUND"),
        (INDIRECT.format(table="profile_table", target="action_profile_member_id: 9"), "NOT_FOUND"),
        (INDIRECT.format(table="profile_table", target="action_profile_group_id: 9"),
         "INVALID_ARGUMENT"),
        (INDIRECT.format(table="selector_table", target=ONE_SHOT), "INVALID_ARGUMENT"),
        (INDIRECT.format(table="selector_table", target="action { action_id: @drop }"),
         "INVALID_ARGUMENT"),
    ],
)  # fmt: skip
def test_wrong_members_groups_and_targets_are_refused(
    client: BareClient, text: str, code: str
) -> None:
    with_members(client)
    with pytest.raises(Refused) as caught:
        client.write((INSERT, text))
    assert caught.value.updates[0][0] == code, caught.value.updates


def test_members_whose_watch_port_is_down_are_left_out(
    client: BareClient, server: P4RuntimeServer, dataplane: Dataplane
) -> None:
    with_members(client)
    watching = SELECTOR_GROUP.replace("weight: 1", r'weight: 1 watch_port: "\x01"').replace(
        "weight: 3", "weight: 3 watch: 2"
    )
    entry = INDIRECT.format(table="selector_table", target="action_profile_group_id: 1")
    client.write((INSERT, watching), (INSERT, entry))

    def ports() -> set[int]:
        for number in range(30):
            frame = bytes([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number]) + bytes(50)
            dataplane.receive(0, 3, [frame], 1000)
        return {departure.port for departure in dataplane.transmit(10**12)}

    assert ports() == {1, 2}
    server.device.set_port_up(2, False)
    assert ports() == {1}
    server.device.set_port_up(2, True)
    server.device.set_port_up(1, False)
    assert ports() == {2}
    assert client.read("action_profile_group {}") == [client.entity(watching)]


def test_a_group_keeps_its_max_size(client: BareClient) -> None:
    with_members(client)
    client.write((INSERT, SELECTOR_GROUP))
    with pytest.raises(Refused) as caught:
        client.write((MODIFY, SELECTOR_GROUP.replace("group_id: 1", "group_id: 1 max_size: 9")))
    assert "max_size cannot change from 0 to 9" in caught.value.updates[0][1]


def test_a_full_profile_says_so(client: BareClient) -> None:
    members = [MEMBER.format(profile="plain_profile", id=id) for id in (1, 2, 3, 4)]
    client.write(*((INSERT, text) for text in members))
    with pytest.raises(Refused) as caught:
        client.write((INSERT, MEMBER.format(profile="plain_profile", id=5)))
    assert caught.value.updates[0][0] == "RESOURCE_EXHAUSTED"


def test_one_shot_action_sets_read_back_as_written_and_do_not_mix(client: BareClient) -> None:
    entry = INDIRECT.format(table="selector_table", target=ONE_SHOT)
    client.write((INSERT, entry))
    assert client.read("table_entry { table_id: @selector_table }") == [client.entity(entry)]
    assert client.read("action_profile_member {}") == []
    with pytest.raises(Refused) as caught:
        client.write((INSERT, MEMBER.format(profile="selector_profile", id=1)))
    assert caught.value.updates[0][0] == "INVALID_ARGUMENT"
    client.write((DELETE, entry))
    client.write((INSERT, MEMBER.format(profile="selector_profile", id=1)))


# -- replication, counters, registers ------------------------------------------------------------


def test_multicast_groups(client: BareClient) -> None:
    with_metadata = GROUP.format(id=1).replace("replicas", "metadata: 'm' replicas", 1)
    old_style = GROUP.format(id=2).replace(r'port: "\x02"', "egress_port: 2")
    old_style = old_style.replace(r'port: "\x03"', "egress_port: 3")
    client.write((INSERT, with_metadata), (INSERT, old_style))
    everything = "packet_replication_engine_entry { multicast_group_entry {} }"
    assert client.read(everything) == [client.entity(with_metadata), client.entity(old_style)]
    one = "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 2 } }"
    assert client.read(one) == [client.entity(old_style)]
    client.write((MODIFY, GROUP.format(id=2)))
    assert client.read(one) == [client.entity(GROUP.format(id=2))]
    client.write((DELETE, one))
    assert client.read(one) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("multicast_group_id: 1", "multicast_group_id: 0"),
        ("multicast_group_id: 1", "multicast_group_id: 65536"),
        (r'port: "\x02"', ""),
        (r'port: "\x02"', r'port: "\x03"'),
        (r'port: "\x02"', "egress_port: 512"),
        ("instance: 1", "instance: 65536"),
    ],
)
def test_a_wrong_multicast_group_is_refused(client: BareClient, old: str, new: str) -> None:
    with pytest.raises(Refused) as caught:
        client.write((INSERT, GROUP.format(id=1).replace(old, new, 1)))
    assert caught.value.updates[0][0] == "INVALID_ARGUMENT"


def test_clone_sessions(client: BareClient) -> None:
    text = (
        r"packet_replication_engine_entry { clone_session_entry { session_id: 3 "
        r'class_of_service: 2 packet_length_bytes: 64 replicas { port: "\x01" instance: 1 } } }'
    )
    client.write((INSERT, text))
    read = client.read("packet_replication_engine_entry { clone_session_entry {} }")
    assert read == [client.entity(text)]
    client.write(
        (DELETE, "packet_replication_engine_entry { clone_session_entry { session_id: 3 } }")
    )
    assert client.read("packet_replication_engine_entry {}") == []


def test_counters(client: BareClient, dataplane: Dataplane) -> None:
    dataplane.receive(0, 3, [bytes(60), bytes(80)], 1000)
    (cell,) = client.read("counter_entry { counter_id: @seen index { index: 3 } }")
    assert (cell.counter_entry.data.packet_count, cell.counter_entry.data.byte_count) == (2, 140)
    cells = client.read("counter_entry { counter_id: @seen }")
    assert [entity.counter_entry.index.index for entity in cells] == list(range(16))
    assert client.read("counter_entry {}") == cells
    (first,) = client.read("counter_entry { counter_id: @seen index {} }")
    assert first.counter_entry.data.packet_count == 0
    written = "counter_entry { counter_id: @seen index { index: 2 } data { packet_count: 9 } }"
    client.write((MODIFY, written))
    (cell,) = client.read("counter_entry { counter_id: @seen index { index: 2 } }")
    assert cell.counter_entry.data.packet_count == 9
    client.write((MODIFY, "counter_entry { counter_id: @seen data {} }"))
    assert all(
        entity.counter_entry.data.packet_count == 0 for entity in client.read("counter_entry {}")
    )


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        (INSERT, "counter_id: @seen index {} data {}", "INVALID_ARGUMENT"),
        (MODIFY, "counter_id: 9 index {} data {}", "INVALID_ARGUMENT"),
        (MODIFY, "counter_id: @seen index { index: -1 } data {}", "INVALID_ARGUMENT"),
        (MODIFY, "counter_id: @seen index { index: 16 } data {}", "OUT_OF_RANGE"),
        (MODIFY, "counter_id: @seen index {} data { packet_count: -1 }", "INVALID_ARGUMENT"),
    ],
)
def test_a_wrong_counter_write_is_refused(
    client: BareClient, kind: int, text: str, code: str
) -> None:
    with pytest.raises(Refused) as caught:
        client.write((kind, f"counter_entry {{ {text} }}"))
    assert caught.value.updates[0][0] == code


def test_direct_counters_live_with_their_entry(client: BareClient, dataplane: Dataplane) -> None:
    client.write((INSERT, SEND.format(a=1)))
    frame = bytes([1, 0x10, 0x20]) + bytes(57)
    dataplane.receive(0, 1, [frame, frame], 1000)
    key = SEND.format(a=1).split("action {")[0] + "}"
    (read,) = client.read(f"direct_counter_entry {{ {key} }}")
    assert read.direct_counter_entry.data.packet_count == 2
    (read,) = client.read(key.replace("match", "counter_data {} match", 1))
    assert read.table_entry.counter_data.byte_count == 120
    (read,) = client.read(key)
    assert not read.table_entry.HasField("counter_data")
    client.write((MODIFY, f"direct_counter_entry {{ {key} data {{ packet_count: 50 }} }}"))
    (read,) = client.read("direct_counter_entry {}")
    assert read.direct_counter_entry.data.packet_count == 50
    modified = SEND.format(a=1).replace("match", "counter_data { packet_count: 7 } match", 1)
    client.write((MODIFY, modified))
    (read,) = client.read("direct_counter_entry { table_entry { table_id: @exact_table } }")
    assert read.direct_counter_entry.data.packet_count == 7
    for kind, text, code in (
        (INSERT, f"direct_counter_entry {{ {key} }}", "INVALID_ARGUMENT"),
        (
            MODIFY,
            "direct_counter_entry { table_entry { table_id: @lpm_table } }",
            "INVALID_ARGUMENT",
        ),
        (MODIFY, f"direct_counter_entry {{ {key} }}".replace(r"\x01\x02", r"\x01"), "NOT_FOUND"),
    ):
        with pytest.raises(Refused) as caught:
            client.write((kind, text))
        assert caught.value.updates[0][0] == code


def test_registers(client: BareClient) -> None:
    client.write(
        (
            MODIFY,
            r'register_entry { register_id: @cells index { index: 2 } data { bitstring: "\x09" } }',
        )
    )
    values = [
        entity.register_entry.data.bitstring
        for entity in client.read("register_entry { register_id: @cells }")
    ]
    assert values == [b"\0", b"\0", b"\x09"] + [b"\0"] * 5
    with pytest.raises(Refused) as caught:
        client.write(
            (MODIFY, r'register_entry { register_id: @cells data { bitstring: "\x10\x00\x00" } }')
        )
    assert caught.value.updates[0][0] == "OUT_OF_RANGE"
