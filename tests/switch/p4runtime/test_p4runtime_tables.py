"""Table entries through P4Runtime, in front of the real engine."""

from __future__ import annotations

import grpc
import pytest
from tests.support.p4runtime_support import (
    DELETE,
    INSERT,
    MODIFY,
    ROUTE,
    SEND,
    TERNARY,
    BareClient,
    Refused,
)

from weft.switch.messages import stub_of
from weft.switch.p4runtime.server import P4RuntimeServer

pytest_plugins = ["tests.support.p4runtime_fixtures"]


# -- table entries -------------------------------------------------------------------------------


def test_an_entry_reads_back_as_it_was_written(client: BareClient) -> None:
    texts = [
        SEND.format(a=1),
        SEND.format(a=2),
        ROUTE.format(value=r"\n\x01\x00\x00", length=16),
        TERNARY.format(priority=3, match=""),
        TERNARY.format(
            priority=3,
            match=r'match { field_id: 1 ternary { value: "\x10" mask: "\xf0" } } '
            r'match { field_id: 2 range { low: "\x00" high: "\x01\x00" } } '
            r'match { field_id: 3 optional { value: "\x0f" } } ',
        ),
    ]
    client.write(*((INSERT, text) for text in texts))
    read = client.read(
        "table_entry { table_id: @exact_table }",
        "table_entry { table_id: @lpm_table }",
        "table_entry { table_id: @priority_table }",
    )
    assert read == [client.entity(text) for text in texts]


def test_an_entry_that_matches_anything_reads_back_without_match(client: BareClient) -> None:
    text = """table_entry { table_id: @lpm_table action { action { action_id: @drop } } }"""
    client.write((INSERT, text))
    assert client.read("table_entry { table_id: @lpm_table }") == [client.entity(text)]


def test_long_bytestrings_are_taken_and_short_ones_given(client: BareClient) -> None:
    text = ROUTE.format(value=r"\x00\x00\n\x01\x00\x00", length=16)
    client.write((INSERT, text.replace(r'"\x05"', r'"\x00\x00\x05"')))
    expected = ROUTE.format(value=r"\n\x01\x00\x00", length=16)
    assert client.read("table_entry { table_id: @lpm_table }") == [client.entity(expected)]


def test_entries_are_modified_and_deleted_by_their_key(client: BareClient) -> None:
    client.write((INSERT, SEND.format(a=1)))
    modified = SEND.format(a=1).replace(r"\x05", r"\x06")
    client.write((MODIFY, modified))
    assert client.read("table_entry { table_id: @exact_table }") == [client.entity(modified)]
    client.write((DELETE, SEND.format(a=1).replace("@send", "12345")))
    assert client.read("table_entry { table_id: @exact_table }") == []


def test_each_update_of_a_batch_has_an_error_of_its_own(client: BareClient) -> None:
    with pytest.raises(Refused) as caught:
        client.write(
            (INSERT, SEND.format(a=1)),
            (INSERT, SEND.format(a=1)),
            (MODIFY, SEND.format(a=3)),
            (INSERT, SEND.format(a=2)),
            (DELETE, SEND.format(a=3)),
            (0, SEND.format(a=3)),
            (INSERT, ""),
            (INSERT, "extern_entry {}"),
        )
    refused = caught.value
    assert (refused.code, refused.details) == ("UNKNOWN", "6 of 8 updates failed")
    assert [code for code, _ in refused.updates] == [
        "OK",
        "ALREADY_EXISTS",
        "NOT_FOUND",
        "OK",
        "NOT_FOUND",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "UNIMPLEMENTED",
    ]
    assert refused.updates[0][1] == ""
    assert "TheIngress.exact_table" in refused.updates[1][1]
    assert len(client.read("table_entry { table_id: @exact_table }")) == 2


def test_a_full_table_says_so(client: BareClient) -> None:
    client.write(*((INSERT, SEND.format(a=a)) for a in range(4)))
    with pytest.raises(Refused) as caught:
        client.write((INSERT, SEND.format(a=5)))
    assert caught.value.updates[0][0] == "RESOURCE_EXHAUSTED"


def test_errors_of_a_large_batch_keep_their_codes_within_grpcs_metadata(
    server: P4RuntimeServer, client: BareClient
) -> None:
    plain = grpc.insecure_channel(server.address)
    client.stub = stub_of(plain)
    with pytest.raises(Refused) as caught:
        client.write(*((DELETE, SEND.format(a=1)) for _ in range(60)))
    assert [code for code, _ in caught.value.updates] == ["NOT_FOUND"] * 60
    assert "exact_table" in caught.value.updates[0][1]
    plain.close()


BAD_ENTRIES = [
    (SEND.replace("@exact_table", "99"), "INVALID_ARGUMENT", "no table has id 99"),
    (SEND.replace("@exact_table", "0"), "INVALID_ARGUMENT", "no table has id 0"),
    (SEND.replace("field_id: 2", "field_id: 9"), "INVALID_ARGUMENT", "no key field with id 9"),
    (SEND.replace("field_id: 2", "field_id: 1"), "INVALID_ARGUMENT", "is given twice"),
    (SEND.replace("exact {{", "ternary {{"), "INVALID_ARGUMENT", "of kind ternary"),
    (SEND.replace(r'exact {{ value: "\x0{a}" }}', ""), "INVALID_ARGUMENT", "of kind none"),
    (SEND.replace(r"\x01\x02", r"\x11\x02"), "OUT_OF_RANGE", "0x1102 does not fit bit<12>"),
    (SEND.replace(r"\x01\x02", ""), "OUT_OF_RANGE", "hdr.data.b: empty bytestring"),
    (SEND.replace("@send", "@mark"), "INVALID_ARGUMENT", "has no action with id"),
    (SEND.replace("param_id: 1", "param_id: 2"), "INVALID_ARGUMENT", "port (1) is missing"),
    (SEND.replace("action_id: @send", 'action_id: @send params {{ param_id: 7 value: "a" }}'),
     "INVALID_ARGUMENT", "no parameter with id 7"),
    (SEND.replace(r"\x05", r"\x02\x00"), "OUT_OF_RANGE", "parameter port: 0x200"),
    (SEND.split("action {{")[0] + "}}", "INVALID_ARGUMENT", "needs an action"),
    (SEND.replace("match", "priority: 3 match", 1), "INVALID_ARGUMENT", "priority 3"),
    (SEND.replace("match", "is_const: true match", 1), "INVALID_ARGUMENT", "is_const"),
    (SEND.replace("match", "idle_timeout_ns: 5 match", 1), "INVALID_ARGUMENT", "support_timeout"),
    (SEND.replace("match", "meter_config {{}} match", 1), "INVALID_ARGUMENT", "no direct meter"),
    (ROUTE.format(value=r"\n\x01\x00\x01", length=16), "INVALID_ARGUMENT", "beyond the prefix"),
    (ROUTE.format(value=r"\x00", length=0), "INVALID_ARGUMENT", "prefix length 0"),
    (ROUTE.format(value=r"\x00", length=33), "INVALID_ARGUMENT", "prefix length 33"),
    (ROUTE.format(value=r"\x00", length=-1), "INVALID_ARGUMENT", "prefix length -1"),
    (ROUTE.format(value=r"\x00", length=8).replace("action {", "counter_data {} action {", 1),
     "INVALID_ARGUMENT", "no direct counter"),
    ('table_entry { table_id: @lpm_table action { action { action_id: @NoAction } } }',
     "PERMISSION_DENIED", "for the default only"),
    ('table_entry { table_id: @lpm_table action { action_profile_member_id: 1 } }',
     "INVALID_ARGUMENT", "no action profile"),
    (TERNARY.format(priority=0, match=""), "INVALID_ARGUMENT", "priority 0"),
    (TERNARY.format(priority=-1, match=""), "INVALID_ARGUMENT", "priority -1"),
    (TERNARY.format(priority=1,
                    match=r'match { field_id: 1 ternary { value: "\x0f" mask: "\xf0" } }'),
     "INVALID_ARGUMENT", "outside the mask"),
    (TERNARY.format(priority=1,
                    match=r'match { field_id: 1 ternary { value: "\x00" mask: "\x00" } }'),
     "INVALID_ARGUMENT", "mask 0"),
    (TERNARY.format(priority=1,
                    match=r'match { field_id: 2 range { low: "\x02" high: "\x01" } }'),
     "INVALID_ARGUMENT", "is empty"),
    (TERNARY.format(priority=1,
                    match=r'match { field_id: 2 range { low: "\x00" high: "\x0f\xff" } }'),
     "INVALID_ARGUMENT", "is everything"),
    (r'table_entry { table_id: @const_table match { field_id: 1 exact { value: "\x05" } } '
     r'action { action { action_id: @NoAction } } }', "PERMISSION_DENIED", "const entries"),
    ('table_entry { table_id: @keyless_table action { action { action_id: @NoAction } } }',
     "INVALID_ARGUMENT", "has no key"),
    ('table_entry { table_id: @keyless_table is_default_action: true '
     'action { action { action_id: @NoAction } } }', "INVALID_ARGUMENT", "only be modified"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message"), BAD_ENTRIES)
def test_a_wrong_entry_is_refused_by_name(
    client: BareClient, text: str, code: str, message: str
) -> None:
    with pytest.raises(Refused) as caught:
        client.write((INSERT, text.format(a=1) if "{{" in text else text))
    ((found_code, found_message),) = caught.value.updates
    assert found_code == code
    assert message in found_message
    assert "TheIngress." in found_message or "has id" in found_message


def test_const_entries_can_be_read_but_not_changed(client: BareClient) -> None:
    entries = client.read("table_entry { table_id: @const_table }")
    assert [entity.table_entry.is_const for entity in entries] == [True, True]
    entry = r'table_entry { table_id: @const_table match { field_id: 1 exact { value: "\x01" } } }'
    for kind in (INSERT, DELETE):
        with pytest.raises(Refused) as caught:
            client.write((kind, entry))
        assert caught.value.updates[0][0] == "PERMISSION_DENIED"


def test_default_entries(client: BareClient) -> None:
    query = "table_entry { table_id: @keyless_table is_default_action: true }"
    (original,) = client.read(query)
    assert original.table_entry.action.action.params[0].value == b"\x07"
    changed = (
        "table_entry { table_id: @keyless_table is_default_action: true metadata: 'x' "
        "action { action { action_id: @NoAction } } }"
    )
    client.write((MODIFY, changed))
    assert client.read(query) == [client.entity(changed)]
    client.write((MODIFY, query))
    assert client.read(query) == [original]
    assert client.read("table_entry { table_id: @keyless_table }") == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "table_id: @priority_table action { action { action_id: @NoAction } }",
            "PERMISSION_DENIED",
        ),
        ("table_id: @lpm_table action { action { action_id: @mark } }", "PERMISSION_DENIED"),
        ("table_id: @lpm_table priority: 1", "INVALID_ARGUMENT"),
        ("table_id: @lpm_table match { field_id: 1 }", "INVALID_ARGUMENT"),
        ("table_id: @selector_table action { action { action_id: @drop } }", "PERMISSION_DENIED"),
        ("table_id: @keyless_table action { action_profile_group_id: 1 }", "INVALID_ARGUMENT"),
    ],
)
def test_a_wrong_default_entry_is_refused(client: BareClient, text: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        client.write((MODIFY, f"table_entry {{ {text} is_default_action: true }}"))
    assert caught.value.updates[0][0] == code


def test_metadata_comes_back_and_filters(client: BareClient) -> None:
    one = SEND.format(a=1).replace("match", "metadata: 'm' controller_metadata: 5 match", 1)
    two = SEND.format(a=2)
    client.write((INSERT, one), (INSERT, two))
    everything = [client.entity(one), client.entity(two)]
    table = "table_entry { table_id: @exact_table"
    assert client.read(f"{table} }}") == everything
    assert client.read(f"{table} metadata: 'm' }}") == everything[:1]
    assert client.read(f"{table} controller_metadata: 5 }}") == everything[:1]
    assert client.read(f"{table} metadata: 'other' }}") == []
    client.write((MODIFY, SEND.format(a=1)))
    assert client.read(f"{table} metadata: 'm' }}") == []


def test_reads_select_by_key_priority_and_action(client: BareClient) -> None:
    mask = r'match { field_id: 1 ternary { value: "\x10" mask: "\xf0" } }'
    texts = [
        TERNARY.format(priority=3, match=""),
        TERNARY.format(priority=4, match=""),
        TERNARY.format(priority=4, match=mask),
    ]
    client.write(*((INSERT, text) for text in texts))
    entities = [client.entity(text) for text in texts]
    table = "table_entry { table_id: @priority_table"
    assert client.read(f"{table} priority: 4 }}") == entities[1:]
    exact = r'match { field_id: 4 exact { value: "\x01" } }'
    assert client.read(f"{table} priority: 4 {mask} {exact} }}") == entities[2:]
    assert client.read(f"{table} {mask} {exact} }}") == entities[2:]
    assert client.read(f"{table} action {{ action {{ action_id: @NoAction }} }} }}") == []
    assert client.read(f"{table} action {{ action {{ action_id: @mark }} }} }}") == entities
    missing = r'match { field_id: 4 exact { value: "\x09" } }'
    assert client.read(f"{table} priority: 4 {missing} }}") == []


def test_a_wildcard_read_gives_all_tables(client: BareClient) -> None:
    client.write((INSERT, SEND.format(a=1)))
    tables = {entity.table_entry.table_id for entity in client.read("table_entry {}")}
    assert len(tables) == 2  # exact_table and const_table


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ("priority: 4", "priority"),
        (r'match { field_id: 4 exact { value: "\x09" } }', "match"),
        ("action {}", "action"),
        ('controller_metadata: 1 metadata: "a"', "controller_metadata or metadata"),
    ],
)
def test_a_read_of_all_tables_has_no_filters(client: BareClient, filters: str, said: str) -> None:
    with pytest.raises(Refused) as caught:
        client.read(f"table_entry {{ {filters} }}")
    assert f"table_id 0) has no {said}" in str(caught.value)
    assert "INVALID_ARGUMENT" in str(caught.value)


def test_read_errors_are_told_per_query_and_good_queries_are_answered(client: BareClient) -> None:
    with pytest.raises(Refused) as caught:
        client.read(
            "table_entry {}", "table_entry { table_id: 9 }", "", "meter_entry { meter_id: 1 }"
        )
    assert caught.value.code == "UNKNOWN"
    assert [code for code, _ in caught.value.updates] == ["OK", *["INVALID_ARGUMENT"] * 3]
