"""Which peers of an endpoint acknowledge nothing."""

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.endpoint import Endpoint


def silent_peers(endpoint: Endpoint, since_ns: int) -> set[int]:
    """Return the addresses of the peers that have acknowledged nothing since a time, of what
    was sent to them more than once."""
    return {int(each) for each in endpoint.rows["peer_address"][_silent(endpoint, since_ns)]}


def spare(endpoint: Endpoint, address: int, since_ns: int) -> None:
    """Take note that a peer is there, though it acknowledges nothing: it counts as silent only
    since a time."""
    silent = _silent(endpoint, since_ns) & (endpoint.rows["peer_address"] == address)
    endpoint.rows["last_progress"][silent] = since_ns


def _silent(endpoint: Endpoint, since_ns: int) -> npt.NDArray[np.bool_]:
    """Return which rows are of connections whose peers have been silent since a time."""
    rows = endpoint.rows
    silent: npt.NDArray[np.bool_] = (
        (rows["kind"] == at.RC) & (rows["state"] == at.READY)
        & (rows["retries"] > 0) & (rows["last_progress"] <= since_ns)
    )  # fmt: skip
    return silent
