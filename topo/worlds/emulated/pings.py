"""Pings of Mininet's own tests, which go out side by side: where nobody answers they take as long
as a few, and not as long as all of them one after the other."""

import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from subprocess import DEVNULL, PIPE, STDOUT, Popen
from typing import Any

from weft.base.outputs import Unfinished, communicate, killed
from weft.topo.worlds.emulated.node_addresses import (
    Address,
    address_for,
    known_addresses,
    present_addresses,
)

AT_ONCE = 32
"""The most pings that are under way at a time: each is a process."""

PATIENCE_S = 60.0
"""How much longer than it waits for an answer a ping may take, which waits for none for 10 s if it
is not told how long."""

NOT_SENT = "0 packets transmitted, 0 received"
"""What is said of two hosts that have no addresses of the same kind, which sends no ping."""


class PingingNode:
    """A stand-in for a node in Mininet's loops over hosts: its commands have begun before they are
    asked for."""

    def __init__(self, node: Any, answers: Iterator[str]) -> None:
        self.node = node
        self.name: str = node.name
        self.intfs = node.intfs
        self._answers = answers

    def IP(self) -> Any:
        """Return the node's address."""
        return self.node.IP()

    def cmd(self, _command: str) -> str:
        """Return what the next ping has said."""
        return next(self._answers)

    def cmdPrint(self, *words: str) -> Any:
        """Run another command, and show it."""
        return self.node.cmdPrint(*words)

    def __str__(self) -> str:
        return self.name


@contextmanager
def side_by_side(hosts: Sequence[Any], timeout_s: str | None) -> Iterator[list[PingingNode]]:
    """Ping from each of some nodes of Mininet's to each other one, in the order in which Mininet
    does, and hand out what stands for the nodes. What is under way when the block is left ends."""
    known = {node: known_addresses(node) or present_addresses(node) for node in hosts}
    pairs = [
        (node, _address(known[node], known[other]))
        for node in hosts
        for other in hosts
        if node is not other and other.intfs
    ]
    with closing(_answers(pairs, timeout_s)) as answers:
        yield [PingingNode(node, answers) for node in hosts]


def _address(own: Sequence[Address], far: Sequence[Address]) -> str | None:
    """Return the address by which one is pinged; None if the two have none of the same kind."""
    kinds = {each.version for each in own}
    return address_for(own, [each for each in far if each.version in kinds])


def _answers(
    pairs: Sequence[tuple[Any, str | None]], timeout_s: str | None
) -> Generator[str, None, None]:
    """Return what pings say, in the order of their pairs of (node, address)."""
    wait = ["-W", str(timeout_s)] if timeout_s else []
    limit_s = PATIENCE_S + float(timeout_s or 0)
    left = iter(pairs)
    under_way: deque[Popen[str] | None] = deque()
    try:
        for _ in pairs:
            for node, address in left:
                if address is None:
                    under_way.append(None)
                    continue
                kind = ["-6"] if ":" in address else []
                under_way.append(
                    node.popen(
                        ["ping", *kind, "-c1", *wait, address], stdin=DEVNULL, stdout=PIPE,
                        stderr=STDOUT, text=True, errors="replace",
                        env={**os.environ, "LC_ALL": "C"},
                    )
                )  # fmt: skip
                if len(under_way) >= AT_ONCE:
                    break
            first = under_way[0]
            said = NOT_SENT if first is None else _said(first, limit_s)
            under_way.popleft()
            yield said
    finally:
        for each in filter(None, under_way):
            killed(each)
            if each.stdout:
                each.stdout.close()


def _said(ping: "Popen[str]", limit_s: float) -> str:
    """Return what a ping says. One that does not come to its end, as if it is stopped, is killed,
    and nobody has answered it."""
    try:
        return communicate(ping, timeout_s=limit_s)[0]
    except Unfinished as error:
        killed(ping)
        return error.output
