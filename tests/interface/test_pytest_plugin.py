"""pytest's fixtures for switches and networks, as another project's tests use them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from tests.support.plugin_support import LOADED

from weft.base.cache import cache_dir

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True, scope="module")
def one_cache() -> Iterator[None]:
    """Tests of other projects have a home of their own here, and find what has been compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(cache_dir()))
        yield


PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { ethernet_t ethernet; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.ethernet); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action forward(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table mac {
        key = { hdr.ethernet.dst : exact; }
        actions = { forward; drop; }
        default_action = drop();
    }
    apply { mac.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
TESTS = """
from pathlib import Path

import pytest
import weft
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

PROGRAM = Path(__file__).with_name("bridge.p4")
ONE, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
PACKET = Ether(dst=ONE, src=OTHER) / IP(src="10.0.0.2", dst="10.0.0.1") / UDP() / bytes(40)


@pytest.fixture
def bridge(weft_switch):
    switch = weft_switch(PROGRAM, ports=3)
    switch.table("mac").insert({"dst": ONE}, "forward", port=2)
    return switch


def test_a_known_address_has_its_port(bridge):
    bridge.send(1, PACKET)
    assert bridge.expect(2, PACKET)[IP].ttl == 64
    bridge.expect_nothing()


def test_a_short_frame_may_be_padded(bridge):
    frame = Ether(dst=ONE, src=OTHER, type=0x88B5) / b"short"
    bridge.send(3, frame)
    bridge.expect(2, frame)


def test_an_unknown_address_has_none(bridge):
    bridge.send(1, Ether(dst=OTHER, src=ONE, type=0x88B5) / bytes(60))
    bridge.expect_nothing(2, 3)


def test_a_function_says_what_is_expected(bridge):
    bridge.send(1, PACKET)
    bridge.send(3, PACKET)
    for _ in range(2):
        bridge.expect(2, lambda packet: UDP in packet)
"""
FAILING = (
    TESTS[: TESTS.index("def test_a_known")]
    + """
def test_that_fails(bridge):
    bridge.send(1, PACKET)
    other = PACKET.copy()
    other[IP].ttl = 3
    bridge.expect(2, other, timeout=0.2)


def test_that_hears_too_much(bridge):
    bridge.send(1, PACKET)
    bridge.expect_nothing()


def test_that_looks_elsewhere(bridge):
    bridge.send(1, PACKET)
    bridge.expect(3, lambda packet: True, timeout=0.2)


def test_without_a_program(weft_switch):
    weft_switch("no.p4")


def test_of_no_port(bridge):
    bridge.send(4, PACKET)
"""
)
NETS = """
from pathlib import Path

import weft

KEPT = []


def test_one(weft_net):
    net = weft_net(weft.leaf_spine(2, 1, 1), keep="module")
    KEPT.append(net)
    assert net.allgather(size="4KiB", algorithm="ring").verified


def test_other(weft_net):
    assert weft_net(weft.leaf_spine(2, 1, 1), keep="module") is KEPT[0]
    assert weft_net(weft.leaf_spine(2, 1, 1)) is not KEPT[0]


def test_two_of_a_test(weft_net, weft_switch):
    assert weft_net(weft.single(2)) is not weft_net(weft.single(2))
    one, other = weft_switch("bridge.p4"), weft_switch("bridge.p4")
    one.table("mac").insert({"dst": 1}, "forward", port=2)
    assert not list(other.table("mac"))


def test_programs_of_one_name(weft_switch, tmp_path, monkeypatch):
    program = Path("bridge.p4").resolve()
    one = weft_switch("bridge.p4", keep="module")
    assert weft_switch(program, keep="module").net is one.net
    (tmp_path / "bridge.p4").write_text(program.read_text().replace(" mac", " other"))
    monkeypatch.chdir(tmp_path)
    moved = weft_switch("bridge.p4", keep="module")
    assert moved.table("other") is not None and moved.net is not one.net
    Path("bridge.p4").write_text(program.read_text())
    assert weft_switch("bridge.p4", keep="module").table("mac") is not None


def test_a_wrong_one(weft_net):
    weft_net(weft.single(2), keep="ever")


def test_wrong_ports(weft_switch):
    weft_switch("bridge.p4", ports="x")
"""
OPTIONS = """
import pytest
from weft.base.errors import InputError
from scapy.layers.l2 import Ether

FRAME = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02", type=0x88B5) / bytes(1000)


def test_a_cpu_port(weft_switch):
    switch = weft_switch("bridge.p4", ports=2, cpu_port=255)
    switch.table("mac").insert({"dst": 0x020000000001}, "forward", port=255)
    switch.send(1, FRAME)
    (packet,) = switch.packets_in(timeout=5, count=1)
    assert packet.frame == bytes(FRAME)
    switch.expect_nothing()


@pytest.mark.parametrize("define", [{"LATE": None, "PORTS": 64}, ["LATE", "PORTS=64"]])
def test_macros_and_includes(weft_switch, tmp_path, define):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "bridge_body.p4").write_text(open("bridge.p4").read())
    (tmp_path / "outer.p4").write_text(
        "#ifdef LATE\\n#if PORTS == 64\\n#include <bridge_body.p4>\\n#endif\\n#endif\\n"
    )
    switch = weft_switch(tmp_path / "outer.p4", include=tmp_path / "inner", define=define)
    assert list(switch.tables) == ["I.mac"]


def test_links(weft_switch):
    switch = weft_switch("bridge.p4", ports=2, rate="1Mbit", delay="1ms", queue="20KiB")
    switch.table("mac").set_default("forward", port=2)
    (link, *_) = switch.net.topology.links
    assert (link.rate_bps, link.delay_ns, link.queue_bytes) == (1_000_000, 1_000_000, 20480)
    begin = switch.net.now
    switch.send(1, FRAME)
    switch.expect(2, FRAME)
    assert switch.net.now - begin >= 2 * 8e-3  # 1 KB at 1 Mbit/s, twice


def test_wrong_macro(weft_switch):
    weft_switch("bridge.p4", define={"1x": 2})


def test_wrong_rate(weft_switch):
    weft_switch("bridge.p4", rate="fast")
"""


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    pytester.makefile(".p4", bridge=PROGRAM)
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess(*LOADED, "-p", "no:cacheprovider", *options)


def test_a_switch_is_tested_in_process(pytester: pytest.Pytester) -> None:
    run(pytester, TESTS).assert_outcomes(passed=4)


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_the_same_tests_run_on_real_interfaces(pytester: pytest.Pytester) -> None:
    run(pytester, TESTS, "--weft-world", "emulated").assert_outcomes(passed=4)


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(
    shutil.which("simple_switch_grpc") is None, reason="BMv2 (simple_switch_grpc) is not installed"
)
def test_the_same_tests_run_on_bmv2(pytester: pytest.Pytester) -> None:
    run(pytester, TESTS, "--weft-bmv2").assert_outcomes(passed=4)


def test_a_test_that_fails_shows_what_differs_and_the_packets_way(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, FAILING)
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(
        [
            "*leaf0, port 2: the expected packet has not come within 0.2 s",
            "*expected: Ether / IP / UDP*",
            "*came: Ether / IP / UDP*",
            "*IP.ttl: 3 was expected, 64 came",
            "*the last packet's way through leaf0*",
            "packet 1: received at port 1, 82 bytes",
            "*table I.mac (hdr.ethernet.dst=0x20000000001): hit*",
            "*sent at port 2*",
            "*leaf0: nothing was expected, and there came",
            "*port 2: Ether / IP / UDP*",
            "*leaf0, port 3: the expected packet has not come*",
            "*elsewhere came",
            "*port 2: Ether / IP / UDP*",
            "*program 'no.p4': there is no such file",
            "*leaf0: port 4: there are ports 1 to 3",
        ]
    )


def test_networks_are_kept_for_as_long_as_is_asked(pytester: pytest.Pytester) -> None:
    result = run(pytester, NETS)
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*keep='ever': test, module, session are possible",
            "*hosts 'x' is no whole number: give one, like 2",
        ]
    )


def test_a_switch_has_the_options_of_the_command(pytester: pytest.Pytester) -> None:
    result = run(pytester, OPTIONS)
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(
        ["*define '1x=2': write NAME or NAME=VALUE*", "*rate 'fast' is not understood*"]
    )


def test_sessions_without_such_tests_do_not_wait_for_weft(pytester: pytest.Pytester) -> None:
    source = "import sys\n\ndef test_modules():\n    assert 'numba' not in sys.modules\n"
    pytester.makepyfile(source)
    pytester.runpytest_subprocess(*LOADED).assert_outcomes(passed=1)
