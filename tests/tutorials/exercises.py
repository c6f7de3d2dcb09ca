"""The exercises, and what their READMEs promise of a solution."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from tests.tutorials.exercise import Exercise, Lab, Unfulfilled, wait


def expect(held: object, seen: str) -> str:
    """Return what was seen; raise `Unfulfilled` with it if it is not as expected."""
    if not held:
        raise Unfulfilled(seen)
    return seen


def all_ping(lab: Lab, names: Iterable[str]) -> str:
    hosts = [lab.net.mininet[name] for name in names]
    lost = lab.net.mininet.ping(hosts, timeout="5")
    return expect(lost == 0, f"{lost:g} % of the pings of {len(hosts)} hosts lost")


def basic(lab: Lab) -> str:
    return all_ping(lab, [host.name for host in lab.net.hosts])


def multicast(lab: Lab) -> str:
    unknown = not lab.ping("h1", "h4", 1)
    seen = all_ping(lab, ["h1", "h2", "h3"])
    return expect(unknown, f"{seen}; h1 to h4 is {'not ' if unknown else ''}answered")


def basic_tunnel(lab: Lab) -> str:
    seen = []
    for words, holds in (
        (("10.0.2.2", "plain"), "plain"),
        (("10.0.2.2", "tunnelled", "--dst_id", "2"), "tunnelled"),
        (("10.0.3.3", "elsewhere", "--dst_id", "2"), "elsewhere"),
    ):
        with lab.listening("h2") as printed:
            lab.script("h1", "send.py", *words)
            wait(lambda text=holds: text in printed(), f"{holds} arrives at h2", printed)  # type: ignore[misc]
            tunnel = "MyTunnel" in printed()
            seen.append(f"{holds}{' by tunnel' if tunnel else ''}")
            expect(tunnel == ("--dst_id" in words), f"{holds}: MyTunnel {tunnel}")
    return f"h2 received {', '.join(seen)}"


def calc(lab: Lab) -> str:
    tasks = {"4+3": 7, "9-4": 5, "12&10": 8, "12|3": 15, "12^10": 6}
    printed = lab.script("h1", "calc.py", input="\n".join([*tasks, "quit", ""]))
    numbers = re.findall(r"^\d+$", printed, re.MULTILINE)
    seen = ", ".join(f"{task} = {number}" for task, number in zip(tasks, numbers, strict=False))
    return expect(numbers == [str(each) for each in tasks.values()], seen or printed[-200:])


def source_routing(lab: Lab) -> str:
    with lab.listening("h2") as printed:
        lab.script("h1", "send.py", "10.0.2.2", input="2 3 2 2 1\nq\n")
        wait(lambda: "ttl" in printed(), "a packet arrives at h2", printed)
        (ttl,) = re.findall(r"ttl\s*= (\d+)", printed())
        return expect(ttl == "59", f"over ports 2 3 2 2 1 with TTL {ttl} of 64")


def firewall(lab: Lab) -> str:
    ways = (("h1", "h2", True), ("h1", "h3", True), ("h3", "h1", False))
    found = [(one, other, lab.iperf(one, other), wanted) for one, other, wanted in ways]
    seen = ", ".join(f"{one} to {other} {'carried' if ok else 'refused'}"
                     for one, other, ok, _ in found)  # fmt: skip
    return expect(all(ok == wanted for *_, ok, wanted in found), f"TCP: {seen}")


def load_balance(lab: Lab) -> str:
    with lab.listening("h2") as second, lab.listening("h3") as third:
        for number in range(12):
            lab.script("h1", "send.py", "10.0.0.1", f"P4 {number}")

        def counts() -> list[int]:
            return [printed().count("got a packet") for printed in (second, third)]

        wait(lambda: sum(counts()) >= 12, "12 packets arrive", lambda: str(counts()))
        at = counts()
        return expect(min(at) > 0, f"of 12 flows {at[0]} to h2, {at[1]} to h3")


def ecn(lab: Lab) -> str:
    with lab.listening("h2") as printed, lab.running("h1", python("send.py 10.0.2.2 'P4' 60")):
        wait(lambda: "tos" in printed(), "a packet arrives at h2", printed)
        before = tos_of(printed())
        with lab.load("h11", "h22"):
            wait(lambda: "0x3" in tos_of(printed()), "a packet has tos 3", printed)
        return expect(before <= {"0x1"}, f"tos {', '.join(sorted(before))}, under load 0x3")


def tos_of(printed: str) -> set[str]:
    return set(re.findall(r"tos\s*= (0x[0-9a-f]+)", printed))


def mri(lab: Lab) -> str:
    with lab.listening("h2") as printed, lab.running("h1", python("send.py 10.0.2.2 'P4' 60")):
        wait(lambda: depths(printed()), "a packet arrives at h2", printed)
        before = depths(printed())
        with lab.load("h11", "h22"):
            wait(lambda: max(deep for _, deep in depths(printed())) > 2, "a queue fills", printed)
        way = [swid for swid, _ in before[:2]]
        most = max(deep for _, deep in depths(printed()))
        seen = f"switches {way[0]} and {way[1]}; queue depth {before[0][1]}, under load {most}"
        return expect(sorted(way) == [1, 2], seen)


def depths(printed: str) -> list[tuple[int, int]]:
    """The (switch, queue depth) pairs that packets had."""
    found = re.findall(r"swid\s*= (\d+)\s*\n\W*qdepth\s*= (\d+)", printed)
    return [(int(swid), int(depth)) for swid, depth in found]


def link_monitor(lab: Lab) -> str:
    with lab.listening("h1") as printed, lab.running("h1", python("send.py")):
        wait(lambda: "Port" in printed(), "a probe comes back", printed)
        rate = "Switch 1 - Port 4"
        with (
            lab.running("h4", "iperf -s -u"),
            lab.running("h1", "iperf -c 10.0.4.4 -t 60 -u -b 5M"),
        ):
            wait(lambda: most_of(printed(), rate) > 2, f"{rate} is used", printed)
            time.sleep(4)
        return f"{rate}: {most_of(printed(), rate):.1f} Mbit/s of 5 that iperf sends"


def most_of(printed: str, what: str) -> float:
    return max([0.0, *map(float, re.findall(rf"{what}: ([\d.]+) Mbps", printed))])


def qos(lab: Lab) -> str:
    seen = {}
    for protocol, tos in (("UDP", "0xb9"), ("TCP", "0xb1")):
        with lab.listening("h2") as printed:
            lab.script("h1", "send.py", "--p", protocol, "--des", "10.0.2.2", "--m", "P4",
                       "--dur", "2")  # fmt: skip
            wait(lambda: "tos" in printed(), "a packet arrives at h2", printed)
            # What follows may be h2's own answers.
            (seen[protocol],) = tos_of(printed().split("got a packet")[1])
            expect(seen[protocol] == tos, f"{protocol}: tos {seen[protocol]}")
    return ", ".join(f"{name}: tos {found}" for name, found in seen.items())


def p4runtime(lab: Lab) -> str:
    with lab.controller("solution/mycontroller.py") as printed:
        wait(lambda: "Reading tunnel counters" in printed(), "it reads counters", printed)
        expect(lab.ping("h1", "h2", 4), "h1 to h2 is not answered")
        counted = r"MyIngress.ingressTunnelCounter 100: ([1-9]\d*) packets"
        wait(lambda: re.search(counted, printed()), "it counts packets", printed)
        return f"h1 to h2 answered; {re.findall(counted, printed())[-1]} packets in tunnel 100"


def flowcache(lab: Lab) -> str:
    with lab.controller("solution/mycontroller.py") as printed:
        wait(lambda: printed().count("Installed P4 Program") == 3, "programs are loaded", printed)
        time.sleep(3)  # it makes clone sessions and begins to listen, and says nothing of it
        # One at a time, with patience. The controller writes an entry for each packet that it is
        # sent: of two of one flow, as on a machine so busy that the next ping comes before the
        # entry, the second entry is there already, and its refusal ends the controller (gathered
        # tasks), which then answers nothing that is under way. It would end so with BMv2, too.
        wait(lambda: lab.ping("h1", "h2", 1, 5), "h1 to h2 is answered", printed)
        flows = printed().count("added table entry")
        wait(lambda: "Deleted flow_cache entry" in printed(), "entries are deleted", printed)
        return f"h1 to h2 answered; {flows} entries by packets to the controller, deleted when idle"


def python(words: str) -> str:
    import sys

    return f"{sys.executable} -u {words}"


def exercise(name: str, expectation: str, topology: str = "topology.json") -> Exercise:
    return Exercise(name, expectation, globals()[name], f"solution/{name}.p4", topology)


EXERCISES = (
    exercise("basic", "all hosts ping each other", "pod-topo/topology.json"),
    exercise("basic_tunnel", "the tunnel header decides, not the IP address"),
    Exercise(
        "p4runtime", "its controller's tunnels carry pings, and count them", p4runtime,
        "advanced_tunnel.p4", controlled=False,
    ),
    Exercise(
        "flowcache", "its controller learns flows of packets that it is sent", flowcache,
        "solution/flowcache.p4", controlled=False,
    ),
    exercise("ecn", "marks (tos 3) while a link is overloaded"),
    exercise("mri", "packets bear the switches' queue depths, which grow under load"),
    exercise("source_routing", "packets go over the ports that they name"),
    exercise("calc", "the switch answers with results"),
    exercise("load_balance", "flows take both paths"),
    exercise("qos", "UDP and TCP get their traffic classes"),
    Exercise(
        "firewall", "connections begin inside alone", firewall,
        {"s1": "solution/firewall.p4", "s2": "basic.p4", "s3": "basic.p4", "s4": "basic.p4"},
        "pod-topo/topology.json",
    ),
    exercise("link_monitor", "probes tell how much a link is used", "pod-topo/topology.json"),
    exercise("multicast", "h1, h2 and h3 ping each other, and not h4", "sig-topo/topology.json"),
)  # fmt: skip
