"""A peer that is there but does not answer is waited for; one that cannot be reached is not."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from tests.support.memory_network import Faults, NetworkTimeout
from tests.support.transport_pair import A, B, Pair

from weft.agents.datagrams import ipv4
from weft.agents.transport import CompletionKind, TransportOptions
from weft.agents.transport.silence import silent_peers, spare
from weft.pytorch import liveness
from weft.pytorch.liveness import HostProbe, Liveness

SECOND_NS = 1_000_000_000


def test_a_connection_waits_for_a_silent_peer_as_long_as_it_is_spared() -> None:
    deaf = Faults(loss=1.0)
    pair = Pair(faults=deaf)
    pair.left.post_send(b"one")

    def until(time_ns: int) -> None:
        pair.network.run(lambda: pair.network.now_ns >= time_ns)

    for second in range(1, 20):
        until(second * SECOND_NS)
        assert silent_peers(pair.a, pair.network.now_ns - SECOND_NS // 2) == {B}
        spare(pair.a, A, pair.network.now_ns)
        spare(pair.a, B, pair.network.now_ns)
        assert not silent_peers(pair.a, pair.network.now_ns - SECOND_NS // 2)
        assert not pair.a.poll()
    deaf.loss = 0.0
    pair.settle()
    assert [done.kind for done in pair.at_a] == [CompletionKind.SENT]
    deaf.loss = 1.0
    pair.left.post_send(b"two")
    pair.settle()
    assert "acknowledged nothing for 2 s" in pair.at_a[-1].error
    assert not silent_peers(pair.a, pair.network.now_ns), "it is lost"


def test_a_host_that_is_there_answers_and_another_does_not() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        silent = HostProbe("127.0.0.1", "", taken.getsockname()[1])
        there = HostProbe("127.0.0.1", "")
        found = []
        for _ in range(10):
            time.sleep(0.01)
            found.append((there.ask(), silent.ask()))
        there.close()
        silent.close()
    assert any(answered for answered, _ in found)
    assert not any(answered for _, answered in found)


def test_only_hosts_that_answer_are_spared_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One peer is on this machine, whose kernel answers; no way leads to the other one."""
    patient = TransportOptions(give_up_ns=10 * SECOND_NS)
    pair = Pair(faults=Faults(loss=1.0), connected=False, options=patient)
    local = pair.right.local
    here, nowhere = ipv4("127.0.0.1"), ipv4("240.0.0.1")
    for queue_pair, address in ((pair.left, here), (pair.a.create_rc(), nowhere)):
        queue_pair.connect(replace(local, address=address))
        queue_pair.post_send(b"is anybody there?")
    agent = Liveness(pair.a, "")

    def after(time_ns: int) -> bool:
        return pair.network.now_ns >= time_ns

    lost = []
    for half_second in range(1, 40):
        pair.network.run(partial(after, half_second * SECOND_NS // 2))
        agent.look_after(pair.network.now_ns)
        time.sleep(0.005)
        lost += [done.qp for done in pair.a.poll() if done.error]
    assert lost and pair.left not in lost

    # An answer may have come another way than the connection's.
    monkeypatch.setattr(liveness, "MOST_SPARED_NS", 20 * SECOND_NS)
    half_second = 40
    while pair.left not in lost and half_second < 80:
        half_second += 1
        with suppress(NetworkTimeout):  # nothing is left to happen once it is lost
            pair.network.run(partial(after, half_second * SECOND_NS // 2))
        agent.look_after(pair.network.now_ns)
        time.sleep(0.005)
        lost += [done.qp for done in pair.a.poll() if done.error]
    assert pair.left in lost
    agent.close()
