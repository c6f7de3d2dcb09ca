"""What acknowledgements tell beside that packets arrived: their congestion marks, and for REPS the
UDP source ports that they came from.

Acknowledgements that each packet has, or each change of its mark, wait in a ring of the endpoint,
since a queue pair's row has room for one alone. DCTCP's rule (RFC 8257, 3.2): what one
acknowledgement tells of are packets that were all marked, or packets that were not.
"""

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.frames import finish_from, row_address
from weft.agents.transport.kernels.memory import pair_at
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import PSN_MASK, SYNDROME_ACK
from weft.agents.wire.packets import put_bth, put_word, set_congested

ACKNOWLEDGE = 0x11


@internal
def push_echo(
    endpoint: at.EndpointState, index: int, psn: int, aeth: int, mark: int, source_port: int
) -> bool:
    """Line up an acknowledgement, and return False if the ring is full."""
    if endpoint.echoes - endpoint.echoes_sent >= at.ECHO_ROOM:
        return False
    row = at.Echo(endpoint.echo_table, endpoint.echoes & (at.ECHO_ROOM - 1))
    row.pair = index
    row.psn = psn
    row.aeth = aeth
    row.mark = mark
    row.source_port = source_port
    endpoint.echoes += 1
    return True


@internal
def push_acknowledgement(
    endpoint: at.EndpointState,
    pair: at.PairState,
    index: int,
    end: int,
    mark: int,
    source_port: int,
) -> bool:
    """Line up an ACK of everything before `end`, and return False if the ring is full."""
    aeth = (SYNDROME_ACK << 24) | (pair.messages & PSN_MASK)
    if not push_echo(endpoint, index, end - 1, aeth, mark, source_port):
        return False
    pair.acknowledge_pending = pair.since_acknowledge = 0
    return True


@internal
def echo_arrival(
    endpoint: at.EndpointState,
    pair: at.PairState,
    fields: wire.Fields,
    index: int,
    before: int,
    unacknowledged: int,
) -> None:
    """Acknowledge a request that has come, in its turn or again; before it `before` was expected,
    and `unacknowledged` packets had no acknowledgement yet.

    While READs wait to be answered nothing behind them is acknowledged, but with selective repeat,
    where the requester knows how to take it.
    """
    mark = fields.marked
    if endpoint.echo == at.ECHO_EVERY:
        if pair.acknowledge_pending and (pair.reads == 0 or endpoint.recovery == at.SELECTIVE):
            push_acknowledgement(endpoint, pair, index, pair.expected, mark, fields.source_port)
    elif mark != pair.ce_state and unacknowledged and pair.reads == 0:
        waits = pair.acknowledge_pending
        if push_acknowledgement(endpoint, pair, index, before, pair.ce_state, pair.echo_port):
            pair.acknowledge_pending = waits
            pair.since_acknowledge = pair.expected - before
    pair.ce_state = mark
    pair.echo_port = fields.source_port


@internal
def put_acknowledgement(
    endpoint: at.EndpointState,
    pair: at.PairState,
    batch: at.Batch,
    count: int,
    psn: int,
    aeth: int,
    mark: int,
    source_port: int,
    now: int,
) -> int:
    """Write an acknowledgement into row `count` of a batch; returns its frame bytes.

    It leaves from the source port of what it acknowledges where that is of interest; else from that
    of the data, or from another where that way seems to be dead.
    """
    row = row_address(batch, count)
    used = put_bth(row, ACKNOWLEDGE, 0, 0, pair.peer_number, psn)
    used = put_word(row, used, aeth)
    if mark:
        set_congested(row)
        endpoint.statistics.marks_echoed += 1
    if endpoint.entropy == at.FIXED or source_port == 0:
        source_port = pair.acknowledge_port if pair.acknowledge_port else pair.source_port
    return finish_from(endpoint, pair, batch, count, used, now, source_port, pair.tos)


@internal
def send_echo(endpoint: at.EndpointState, batch: at.Batch, count: int, now: int) -> int:
    """Send the acknowledgement that has waited longest; return its frame bytes, or 0 if its queue
    pair has failed."""
    row = at.Echo(endpoint.echo_table, endpoint.echoes_sent & (at.ECHO_ROOM - 1))
    endpoint.echoes_sent += 1
    pair = pair_at(endpoint, row.pair)
    if pair.state != at.READY:
        return 0
    if row.aeth >> 24 == SYNDROME_ACK:
        endpoint.statistics.acknowledgements_sent += 1
    else:
        endpoint.statistics.naks_sent += 1
    return put_acknowledgement(
        endpoint,
        pair,
        batch,
        count,
        row.psn,
        row.aeth,
        row.mark,
        row.source_port,
        now,
    )
