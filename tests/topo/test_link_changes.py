"""Links that go on with another delay, jitter, loss or rate while their network is up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import weft
from weft.base.errors import InputError, MachineError
from weft.base.libc import CLONE_NEWNET, check_call, libc
from weft.topo.interfaces import host_shaper
from weft.topo.link_changes import LinkChange, figures_of
from weft.topo.worlds.emulated.changes import change_link
from weft.topo.worlds.emulated.namespaces import in_thread, run_batch
from weft.topo.worlds.emulated.netem import netem_lacking
from weft.topo.worlds.emulated.world import EmulatedWorld

MS = 1_000_000


@pytest.fixture(scope="module")
def net() -> Iterator[weft.Net]:
    with weft.up(weft.single(2), world="simulated") as net:
        yield net


@pytest.fixture
def link(net: weft.Net) -> Iterator[weft.LinkHandle]:
    link = net.link("h0", "leaf0")
    yield link
    link.set(delay=0, jitter=0, loss=0, rate="100Mbit")


def passed(net: weft.Net, way: tuple[str, str], packets: int = 1) -> list[float]:
    """How long packets took that were sent one by one from a host to another; those that came."""
    sender, receiver = (net.host(name) for name in way)
    frame = Ether(dst=sender.interfaces[0].gateway_mac, src=sender.interfaces[0].mac) / IP(
        src=sender.ip, dst=receiver.ip
    )
    took = []
    receiver.sniff(0)
    for _ in range(packets):
        begun = net.now
        sender.send(frame / UDP(dport=7) / bytes(18))
        took += [float(each.time) - begun for each in receiver.sniff(timeout=3, count=1)]
    return took


@pytest.mark.parametrize("way", [("h0", "h1"), ("h1", "h0")])
def test_a_delay_is_that_of_either_direction(
    net: weft.Net, link: weft.LinkHandle, way: tuple[str, str]
) -> None:
    (before,) = passed(net, way)
    link.set(delay="10ms")
    assert passed(net, way) == [pytest.approx(before + 0.01, abs=1e-7)]
    link.set(delay=250 * MS)
    assert passed(net, way) == [pytest.approx(before + 0.25, abs=1e-7)]
    link.set(delay=0)
    assert passed(net, way) == [pytest.approx(before, abs=1e-7)]


def test_a_jitter_is_on_both_sides_of_the_delay(net: weft.Net, link: weft.LinkHandle) -> None:
    link.set(delay="10ms", jitter="4ms")
    took = passed(net, ("h0", "h1"), 200)
    assert 0.006 <= min(took) < 0.0065 and 0.0135 < max(took) <= 0.0141
    assert median(took) == pytest.approx(0.01, rel=0.1)
    assert len(set(took)) > 100


def test_packets_stay_in_order_whatever_their_delays(net: weft.Net, link: weft.LinkHandle) -> None:
    sender, receiver = net.host("h0"), net.host("h1")
    head = Ether(dst=sender.interfaces[0].gateway_mac) / IP(src=sender.ip, dst=receiver.ip)
    receiver.sniff(0)
    link.set(delay="50ms", jitter="50ms")
    for number in range(100):
        if number == 50:  # those on the link arrive as they would have
            link.set(delay=0, jitter=0)
        sender.send(head / UDP(sport=number, dport=7) / bytes(18))
    came = [each[UDP].sport for each in receiver.sniff(timeout=1)]
    assert came == [*range(100)]


def test_what_a_link_loses_is_counted_also_when_it_loses_no_more(
    net: weft.Net, link: weft.LinkHandle
) -> None:
    before = link.counts["h0>leaf0"]
    link.set(loss="25%")
    came = len(passed(net, ("h0", "h1"), 200))
    assert 110 <= came <= 185
    link.set(loss=0)
    assert len(passed(net, ("h0", "h1"), 20)) == 20
    after = link.counts["h0>leaf0"]
    assert after.lost_packets - before.lost_packets == 200 - came
    assert after.tx_packets - before.tx_packets == 220


def test_a_rate_is_that_of_the_wire(net: weft.Net, link: weft.LinkHandle) -> None:
    (fast,) = passed(net, ("h1", "h0"))
    link.set(rate="1Mbit")
    (slow,) = passed(net, ("h1", "h0"))
    assert slow - fast == pytest.approx(60 * 8 * (1e-6 - 1e-8), abs=1e-7)
    assert (link.figures.rate_bps, link.figures.delay_ns) == (1_000_000, 0)
    link.set(rate="1Gbit")  # above what it came up with
    (fastest,) = passed(net, ("h1", "h0"))
    assert fast - fastest == pytest.approx(60 * 8 * (1e-8 - 1e-9), abs=1e-7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("delay=3h", "link h0-leaf0: delay '3h' is not understood: write a number and a unit"),
        ("delay=2s", "link h0-leaf0: delay 2000000000 ns: a delay is 0 to 1 s"),
        ("jitter=3ms", "link h0-leaf0: jitter 3 ms: it is at most the delay, which is 0 ns"),
        ("loss=110%", "link h0-leaf0: loss '110%' is not a probability"),
        ("rate=0", "link h0-leaf0: rate 0 bit/s: a rate is above 0"),
        ("dely=3ms", "link h0 leaf0: 'dely=3ms' is no figure of a link (did you mean delay?)"),
        ("delay=1ms up", "link h0 leaf0: 'up' is no figure of a link"),
        ("delay=1ms delay=2ms", "link h0 leaf0: delay is there twice"),
    ],
)
def test_figures_that_cannot_be_change_nothing(
    net: weft.Net, link: weft.LinkHandle, words: str, said: str
) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        link.change(LinkChange.of_words(words.split(), "link h0 leaf0"))
    assert figures_of(link.figures) == "rate 100 Mbit/s"


def test_jitter_and_delay_of_a_network_file_hold_from_the_start() -> None:
    lab = weft.Network("lab", delay="2ms")
    lab.switch("s")
    lab.link(lab.host("a"), "s", jitter="1ms")
    lab.link(lab.host("b"), "s")
    jitters = {each.name: each.jitter_ns for each in lab.topology().links}
    assert jitters == {"a-s": MS, "b-s": 0}
    with weft.up(lab.topology(), world="simulated") as net:
        took = passed(net, ("a", "b"), 50)
    assert 0.003 <= min(took) < max(took) <= 0.0051
    lab.link(lab.host("c"), "s", jitter="3ms")
    with pytest.raises(InputError, match=r"c-s.*jitter 3 ms: it is at most the delay"):
        lab.topology()


def pair(**figures: Any) -> weft.Network:
    """Two hosts at a switch, and a link between them with some figures."""
    network = weft.Network("pair")
    network.switch("s")
    for name in ("a", "b"):
        network.link(network.host(name), "s")
    network.link("a", "b", **figures)
    return network


def test_a_link_between_hosts_has_all_figures_where_something_keeps_them() -> None:
    with weft.up(pair(delay="1ms"), world="simulated") as net:
        link = net.link("a", "b")
        sender, receiver = (net.host(name).interfaces[1] for name in ("a", "b"))

        def took(packets: int = 1) -> list[float]:
            found = []
            receiver.sniff(0)
            for _ in range(packets):
                begun = net.now
                sender.send(Ether(src=sender.mac, dst=receiver.mac) / bytes(46))
                found += [float(each.time) - begun for each in receiver.sniff(timeout=3, count=1)]
            return found

        ((fast,), wire) = took(), 60 * 8 * (1e-6 - 1e-8)
        assert fast == pytest.approx(0.001 + 60 * 8 * 1e-8, abs=1e-7)
        link.set(rate="1Mbit", delay="5ms")
        assert took() == [pytest.approx(fast + 0.004 + wire, abs=1e-7)]
        before = link.counts["a>b"]
        link.set(loss="25%")
        came = len(took(200))
        assert 110 <= came <= 185
        after = link.counts["a>b"]
        assert after.lost_packets - before.lost_packets == 200 - came
        assert after.tx_packets - before.tx_packets == 200
        assert figures_of(link.figures) == "delay 5 ms, loss 25 %, rate 1 Mbit/s"


def shapers(network: weft.Network) -> list[str]:
    topology = network.topology()
    return [host_shaper(each, topology, 1500) for each in topology.outward("a")]


def test_hosts_keep_what_no_switch_does_by_netem_and_only_that() -> None:
    tbf = "root handle 1: tbf rate 100000000bit"
    assert [tbf in line for line in shapers(pair())] == [True, True]
    at_switch, between = shapers(pair(delay="10ms", jitter="1500us", loss="0.5%", rate="10Mbit"))
    assert tbf in at_switch
    assert between == (
        "qdisc replace dev a-eth1 root handle 2: netem limit 100000 delay 10000.0us 1500.0us "
        "loss 0.5% rate 10000000bit"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="tc takes root")
def test_a_kernel_without_netem_refuses_them_and_nothing_has_changed() -> None:
    """Where it has netem there is nothing to refuse, and tc takes the line."""
    slow = pair(delay="10ms").topology()
    plain, (_, line) = pair().topology(), shapers(pair(delay="10ms", jitter="1ms", loss=0.1))
    told: list[str] = []
    before, after = (topology.link("a-b") for topology in (plain, slow))

    def change() -> None:
        change_link(told.append, slow, before, after, 1500, dict.fromkeys("ab", os.getpid()))

    def tried() -> None:
        check_call(libc.unshare(CLONE_NEWNET))
        run_batch("ip", ["link add a-eth1 type veth peer name b-eth1"])
        run_batch("tc", [line])

    if not netem_lacking():
        in_thread(tried)
        return
    for attempt in (lambda: EmulatedWorld(slow), change):
        with pytest.raises(MachineError, match=r"link a-b: both its ends are hosts.*netem.*has no"):
            attempt()
    with pytest.raises(MachineError, match="qdisc kind is unknown"):  # and of the line no other
        in_thread(tried)
    EmulatedWorld(plain)
    assert not told
