"""Allreduce and Reduce-Scatter on reduction servers: every result bit by bit against numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_network import Faults
from tests.support.own_options import own_of
from tests.support.server_group import FIRST_SERVER, ServerGroup

from weft.agents.collectives.agent import Done
from weft.agents.collectives.names import OPS
from weft.agents.collectives.reduction_plan import ReductionPlan, Terms, plan_of, terms_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.sums import DTYPES
from weft.agents.datagrams import ipv4
from weft.agents.servers import ReductionServer
from weft.agents.transport import Endpoint
from weft.base.errors import InputError

ALLREDUCE = Request(0, "allreduce", "optcast", 3000, dtype="float32")
SCATTER = Request(0, "reduce-scatter", "optcast", 700, dtype="float32")


@st.composite
def requests(draw: st.DrawFn, size: int, servers: int) -> Request:
    """Any request of small size that the servers can do."""
    request = draw(st.sampled_from([ALLREDUCE, SCATTER]))
    counts: int | tuple[int, ...] = draw(st.integers(0, 6000))
    if request is SCATTER:
        shares = st.integers(0, 1500)
        counts = draw(st.one_of(shares, st.tuples(*[shares] * size)))
    fan_in = draw(st.sampled_from([0, 2, 3, 4, 20]))
    if fan_in and -(-size // fan_in) > servers:
        fan_in = 0
    return replace(
        request,
        counts=counts,
        dtype=draw(st.sampled_from(DTYPES)),
        op=draw(st.sampled_from(OPS)),
        own=own_of(
            "optcast",
            block_bytes=draw(st.sampled_from([0, 0, 1, 700, 2048])),
            split=draw(st.integers(0, 5)),
            fan_in=fan_in,
        ),
    )


@settings(derandomize=True)
@given(data=st.data())
def test_every_rank_gets_what_numpy_gets_whatever_happens(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 9), "ranks")
    servers = data.draw(st.integers(1, 9), "servers")
    faults = Faults(
        loss=data.draw(st.sampled_from([0.0, 0.0, 0.01, 0.1]), "loss"),
        duplication=data.draw(st.sampled_from([0.0, 0.05]), "duplication"),
        corruption=data.draw(st.sampled_from([0.0, 0.01]), "corruption"),
        lateness=data.draw(st.sampled_from([0.0, 0.1]), "lateness"),
        late_ns=data.draw(st.sampled_from([50_000, 500_000, 20_000_000]), "how late"),
        seed=data.draw(st.integers(0, 1000), "seed"),
    )
    group = ServerGroup(size, servers=servers, faults=faults)
    for _ in range(data.draw(st.integers(1, 2), "rounds")):
        group.complete(
            *data.draw(st.lists(requests(size, servers), min_size=1, max_size=3), "at once")
        )
    group.settled()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_every_type_and_operation(dtype: str, op: str) -> None:
    group = ServerGroup(3, servers=2)
    group.complete(replace(ALLREDUCE, dtype=dtype, op=op, counts=1111))
    group.complete(replace(SCATTER, dtype=dtype, op=op, counts=(50, 0, 333), own={"fan_in": 2}))
    group.settled()


@settings(max_examples=15, derandomize=True)
@given(
    order=st.permutations(range(5)),
    waits=st.lists(st.integers(0, 3_000_000), min_size=5, max_size=5),
    request=st.sampled_from(
        [ALLREDUCE, SCATTER, replace(ALLREDUCE, dtype="bfloat16", own={"fan_in": 2})]
    ),
)
def test_the_order_in_which_ranks_come_changes_no_bit(
    order: list[int], waits: list[int], request: Request
) -> None:
    group = ServerGroup(5, servers=3)
    number = group.prepare(request)
    for rank, wait_ns in zip(order, waits, strict=True):
        until_ns = group.network.now_ns + wait_ns
        group.start_on(rank, number)
        while group.network.now_ns < until_ns and group.network.step():
            pass
    assert all(isinstance(event, Done) for event in group.finish())
    group.verify(number)


@pytest.mark.parametrize("request_", [ALLREDUCE, SCATTER])
def test_many_operations_at_once(request_: Request) -> None:
    group = ServerGroup(4, servers=3)
    group.complete(
        *[
            replace(request_, counts=60 * each, own=own_of("optcast", split=each % 4))
            for each in range(20)
        ]
    )
    group.settled()


@pytest.mark.parametrize("request_", [ALLREDUCE, SCATTER])
def test_ranks_report_how_much_has_come(request_: Request) -> None:
    group = ServerGroup(4, servers=2)
    group.start(request_)
    own = request_.counts * request_.item_bytes
    for event in group.finish():
        assert isinstance(event, Done) and event.report.received_bytes == own


def test_operation_numbers_go_round() -> None:
    """Data packets carry 8 bits of them."""
    group = ServerGroup(2, servers=1)
    for _ in range(300):
        group.complete(replace(ALLREDUCE, counts=3))
    group.settled()


def test_two_jobs_at_once_on_the_same_servers() -> None:
    group = ServerGroup(3, 4, 1, servers=2)
    for team in range(3):
        for request in (ALLREDUCE, SCATTER):
            group.start(request, team)
    for team in range(3):
        events = group.finish(team=team, operations=2)
        assert all(isinstance(event, Done) for event in events)
        for number in (0, 1):
            group.verify(number, team)
    group.settled()


def test_a_request_is_dealt_to_the_servers_in_turn() -> None:
    """Optcast's rule: piece i goes to server (cursor + i) mod S, and the cursor moves on."""
    found = []
    for cursor in (0, 2, 4):
        terms = terms_of(
            "allreduce", "sum", "float32", (4096,), 4, 3, split=2, fan_in=0, block_bytes=0,
            cursor=cursor, packet_bytes=256,
        )  # fmt: skip
        plan = ReductionPlan(terms)
        found.append([plan.server_of(0, piece) for piece in range(2)])
    assert found == [[0, 1], [2, 0], [1, 2]]
    group = ServerGroup(4, servers=3)
    for expected in (2, 4, 6):
        group.complete(replace(ALLREDUCE, own={"split": 2}))
        cursors = {agent.communicator.server_cursor for agent in group.teams[0].agents}
        assert cursors == {expected}


@settings(derandomize=True)
@given(
    shape=st.sampled_from(["allreduce", "reduce-scatter"]),
    counts=st.lists(st.integers(0, 3000), min_size=1, max_size=20),
    servers=st.integers(1, 20),
    split=st.integers(0, 40),
    fan_in=st.integers(2, 6),
    cursor=st.integers(0, (1 << 32) - 1),
)
def test_a_plan_is_whole(
    shape: str, counts: list[int], servers: int, split: int, fan_in: int, cursor: int
) -> None:
    """Chunks cover every byte once; in a piece's tree every rank is heard once, by one root, and no
    server takes from more than fan_in on a level."""
    size = len(counts)
    if -(-size // fan_in) > servers:
        servers = -(-size // fan_in)
    elements = tuple(counts) if shape == "reduce-scatter" else (sum(counts),)
    plan = plan_of(
        terms_of(
            shape,
            "sum",
            "int16",
            elements,
            size,
            servers,
            split=split,
            fan_in=fan_in,
            block_bytes=0,
            cursor=cursor,
            packet_bytes=256,
        )
    )
    covered = np.zeros(2 * sum(counts), np.int64)
    for offset, length in zip(plan.offsets.tolist(), plan.lengths.tolist(), strict=True):
        assert length > 0
        covered[offset : offset + length] += 1
    assert np.all(covered == 1)
    for piece in range(plan.terms.split):
        takers = [plan.server_of(group, piece) for group in range(plan.groups)]
        roots, heard = 0, []
        for server in takers:
            role = plan.role(server, piece)
            heard += [each.member for each in role.levels[0]]
            assert all(len(level) <= fan_in for level in role.levels)
            assert role.levels[-1][0].first < role.levels[-1][-1].end
            if role.parent is None:
                roots += 1
                assert (role.levels[-1][0].first, role.levels[-1][-1].end) == (0, size)
            else:
                above = plan.role(role.parent - size, piece)
                assert size + server in [each.member for each in above.others(role.parent)]
        assert roots == 1 and sorted(heard) == list(range(size))
    assert Terms.decode(plan.terms.encode()) == plan.terms


def test_a_tree_needs_a_server_for_each_group() -> None:
    group = ServerGroup(7, servers=2)
    with pytest.raises(InputError, match=r"7 ranks in groups of 2 need 4 servers; there are 2"):
        group.start(replace(ALLREDUCE, own={"fan_in": 2}))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"own": {"fan_in": 1}}, "fan-in 1 is out of range: a whole number from 2"),
        ({"own": {"split": 5000}}, "split 5000 is out of range: a whole number from 1 to 4096"),
        ({"dtype": "longdouble"}, "reduction servers combine float32"),
    ],
)
def test_requests_that_servers_cannot_do(changes: dict[str, object], why: str) -> None:
    group = ServerGroup(3, servers=2)
    with pytest.raises(InputError, match=why):
        group.start(replace(ALLREDUCE, **changes))  # type: ignore[arg-type]


def test_without_servers_there_is_no_optcast() -> None:
    group = ServerGroup(3, servers=0)
    with pytest.raises(InputError, match="needs reduction servers; the communicator has none"):
        group.start(ALLREDUCE)


def test_jobs_that_make_no_sense() -> None:
    server = ReductionServer(Endpoint(FIRST_SERVER, 256))
    rank = ipv4("10.0.0.1")
    with pytest.raises(InputError, match="server 1: the job has servers 0 to 0"):
        server.add_job(0, 1, [rank], [FIRST_SERVER])
    with pytest.raises(InputError, match=r"server 0 has address 10\.0\.2\.2"):
        server.add_job(0, 0, [rank], [FIRST_SERVER + 1])
    server.add_job(0, 0, [rank], [FIRST_SERVER])
    with pytest.raises(InputError, match="job 0 is served already"):
        server.add_job(0, 0, [rank], [FIRST_SERVER])
    with pytest.raises(InputError, match="server 0: rank 0 said nothing of its queue pair"):
        server.connect(0, {})


def test_with_as_many_servers_as_ranks_the_links_are_full() -> None:
    """Every rank sends and receives its data once: in little more than the time that takes."""
    size, count, rate_bps = 4, 500_000, 1_000_000_000
    group = ServerGroup(size, servers=size, path_mtu=4096, queue_bytes=256 * 1024)
    group.start(replace(ALLREDUCE, counts=count))
    events = group.finish()
    least_ns = count * 4 * 8_000_000_000 // rate_bps
    assert max(event.finished_ns for event in events) < 1.08 * least_ns
    assert group.network.dropped == 0
    group.verify(0)


def test_a_server_needs_no_more_memory_for_more_data() -> None:
    group = ServerGroup(3, servers=1)
    most = 0
    for count in (50_000, 100_000):
        group.start(replace(ALLREDUCE, counts=count, own={"block_bytes": 1024}))
        most = max(most, group.servers[0].used_bytes)
        assert all(isinstance(event, Done) for event in group.finish())
    group.settled()
    assert most < 1 << 20


def test_a_server_is_due_when_the_first_thing_that_waits_is() -> None:
    group = ServerGroup(2, servers=1, rate_bps=10_000_000)
    group.start(ALLREDUCE)
    server = group.servers[0]
    group.network.run(lambda: server.running == 1, 10**9)
    due_ns = server.due_ns
    assert due_ns is not None
    (operation,) = server.jobs[0].operations.values()
    for other_ns in (due_ns - 5, due_ns + 5):
        server._lingering = [(other_ns, operation)]
        assert server.due_ns == min(due_ns, other_ns)
