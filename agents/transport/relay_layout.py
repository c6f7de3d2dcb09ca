"""The records of relays: RDMA WRITEs that compiled code posts by itself."""

from weft.base.jit import Record, record


@record
class RelayState(Record):
    """RDMA WRITEs that compiled code posts by itself, each as soon as the block has arrived that
    lets it go."""

    operation: int
    """The operation's number, 8 bits: with it the immediates of its RDMA WRITEs begin."""
    next_relay: int
    """Address of the next one of the endpoint, in the order of their numbers; 0 for none."""
    next_alike: int
    """Address of the next one whose operation has the same number, on other queue pairs; 0 for
    none."""
    blocks: int
    """Address of rows of `RelayBlock`: one for each block by its number, and behind them one for
    what can be posted at once."""
    block_count: int
    writes: int
    """Address of rows of `RelayWrite`: what one block lets go is together."""
    peers: int
    """Address of rows of `RelayPeer`."""
    is_open: int
    """Whether all peers have said where they may be written to."""
    told: int
    """Whether there has been an event of its end."""
    tells_peers: int
    """Whether there is an event, too, each time that all blocks of a peer have arrived."""
    first_due: int
    """The rows of the first and the last block whose RDMA WRITEs are to be posted, or NOTHING; and
    how many of the first one's are."""
    last_due: int
    posted: int
    missing: int
    """How many blocks have not arrived."""
    received_bytes: int
    open_writes: int
    """How many RDMA WRITEs are posted and not acknowledged, and how many bytes these have."""
    writing_bytes: int
    most_open_writes: int
    """No more is posted while there are so many, or more bytes than this of its own, or of all."""
    most_own_bytes: int
    most_bytes: int


NOTHING = -1


@record
class RelayBlock(Record):
    """A block that arrives, and what it lets go."""

    peer: int
    """The row of the peer that writes it, or NOTHING: no such block comes."""
    length: int
    arrived: int
    first_write: int
    writes: int
    next_due: int
    """The row of the block whose RDMA WRITEs come behind those of this one, or NOTHING."""


@record
class RelayWrite(Record):
    """An RDMA WRITE with immediate."""

    peer: int
    block: int
    """The peer's number for it: the lower 24 bits of the immediate."""
    address: int
    """The address of local memory."""
    length: int
    target: int
    """Where the peer has it, counted from what it named."""


@record
class RelayPeer(Record):
    """A peer of a relay."""

    missing: int
    """How many of its blocks have not arrived."""
    home: int
    """The row of the queue pair to it; of several, the first."""
    lanes: int
    """Address of rows of `Lane`, and how many."""
    lane_count: int
    used: int
    """A bit for each of these that an RDMA WRITE has left by."""
    address: int
    """The virtual address, and the key, of the memory that it has named."""
    rkey: int


@record
class Lane(Record):
    """A queue pair among several to one peer."""

    queue_pair: int
    given_bytes: int
    """How many bytes of RDMA WRITEs have been posted to it."""
