"""Actions whose parameters are called like arguments of the handles' own methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import weft
from weft.base.errors import InputError
from weft.controller.handles.switch import SwitchHandle

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<8> other; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action queue(bit<3> priority, bit<9> port) { s.priority = priority; s.egress_spec = port; }
    action age(bit<8> idle_timeout) { hdr.h.other = idle_timeout; }
    action unknown(@name("action") bit<8> one, bit<8> match, bit<8> params, bit<8> named) {
        hdr.h.other = one + match + params + named;
    }
    action select_one(bit<8> member, bit<8> group) { hdr.h.other = member + group; }
    table plain {
        key = { hdr.h.kind : exact; }
        actions = { queue; age; unknown; select_one; NoAction; }
    }
    table ranked {
        key = { hdr.h.kind : ternary; }
        actions = { queue; NoAction; }
    }
    action_profile(8) profile;
    table bound {
        key = { hdr.h.other : exact; }
        actions = { queue; unknown; NoAction; }
        implementation = profile;
    }
    apply { plain.apply(); ranked.apply(); bound.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def leaf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchHandle]:
    path = tmp_path_factory.mktemp("named") / "named.p4"
    path.write_text(SOURCE)
    with weft.up(weft.single(2), world="simulated", program=path) as net:
        yield net.switch("leaf0")


def test_a_mapping_gives_parameters_of_any_name(leaf: SwitchHandle) -> None:
    plain, ranked = leaf.table("plain"), leaf.table("ranked")
    plain.insert({"kind": 1}, "queue", {"priority": 5, "port": 2})
    ranked.insert({"kind": "1&&&1"}, "queue", {"priority": 6}, priority=9, port=1)
    plain.insert({"kind": 2}, "age", {"idle_timeout": 7})
    assert [entry.params for entry in plain] == [{"priority": 5, "port": 2}, {"idle_timeout": 7}]
    ((first),) = ranked
    assert (first.priority, first.params) == (9, {"priority": 6, "port": 1})
    plain.modify({"kind": 1}, "queue", {"priority": 1}, port=3)
    assert next(iter(plain)).params == {"priority": 1, "port": 3}
    for kind in (1, 2):
        plain.delete({"kind": kind})


def test_keywords_do_for_names_that_no_argument_has(leaf: SwitchHandle) -> None:
    plain, bound = leaf.table("plain"), leaf.table("bound")
    values = {"action": 1, "match": 2, "params": 3, "named": 4}
    plain.insert({"kind": 3}, "unknown", **values)
    plain.insert({"kind": 4}, "select_one", member=5, group=6)
    plain.insert({"kind": 5}, "select_one", {"member": 5, "group": 6})
    assert [entry.params for entry in plain] == [values, *[{"member": 5, "group": 6}] * 2]
    bound.insert({"other": 1}, "unknown", values)
    assert [entry.params for entry in bound] == [values]
    plain.set_default("unknown", **values)
    plain.set_default("queue", {"priority": 1, "port": 2})
    assert plain.default == "I.queue(priority=1, port=2)"
    members = leaf.profile("profile").members
    members.insert(1, "unknown", **values)
    members.insert(2, "queue", {"priority": 7}, port=1)
    found = members.read()
    assert (found[1].params, found[2].params) == (values, {"priority": 7, "port": 1})


def test_who_names_a_parameter_like_an_argument_is_told_what_to_write(leaf: SwitchHandle) -> None:
    plain, ranked = leaf.table("plain"), leaf.table("ranked")
    behind = "give the action's parameters as a mapping behind its name, "
    wrong: dict[str, list[Callable[[], None]]] = {
        "'queue', {'priority': ..., 'port': ...}": [
            lambda: plain.insert({"kind": 9}, "queue", priority=1, port=2),
            lambda: ranked.insert({"kind": "1&&&1"}, "queue", priority=1, port=2),
            lambda: ranked.modify({"kind": "1&&&1"}, "queue", port=2),
        ],
        "'age', {'idle_timeout': ...}": [lambda: plain.insert({"kind": 9}, "age", idle_timeout=3)],
    }
    for words, mistakes in wrong.items():
        for mistake in mistakes:
            with pytest.raises(InputError) as raised:
                mistake()
            assert str(raised.value).endswith(behind + words)
    mapped: object = [1, 2]
    with pytest.raises(InputError, match=r"\[1, 2\] does not say what its parameters are"):
        plain.insert({"kind": 9}, "queue", mapped)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="port is given twice"):
        plain.insert({"kind": 9}, "queue", {"priority": 1, "port": 2}, port=2)
    with pytest.raises(InputError, match="no parameter 'prio'"):
        plain.insert({"kind": 9}, "queue", {"priority": 1, "port": 2, "prio": 2})
    with pytest.raises(InputError, match="parameters go with an action"):
        leaf.table("bound").insert({"other": 9}, "", {"port": 2}, member=1)
