"""What compiled code makes of every datagram of a batch."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import Datagrams
from weft.agents.wire.compiled import compiled
from weft.agents.wire.packets import Fields, parse


@compiled
def _decode(
    data: npt.NDArray[np.uint8],
    length: npt.NDArray[np.int32],
    source: npt.NDArray[np.uint32],
    destination: npt.NDArray[np.uint32],
    source_port: npt.NDArray[np.uint16],
    count: int,
    status: npt.NDArray[np.uint8],
    fields: int,
) -> None:
    for index in range(count):
        status[index] = parse(
            data.ctypes.data + index * data.shape[1],
            np.int64(length[index]),
            np.int64(source[index]),
            np.int64(destination[index]),
            np.int64(source_port[index]),
            False,
            Fields(fields, index),
        )


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a batch holds: `status` uint8[n] (GOOD, TRUNCATED, BAD_ICRC, UNKNOWN_OPCODE), `fields`
    `Fields.dtype`[n].

    A column of `fields` is one header field of all packets, for example `fields["psn"]`; it means
    nothing in rows whose status is not GOOD.
    """

    status: npt.NDArray[np.uint8]
    fields: npt.NDArray[np.void]


def decode(batch: Datagrams) -> Decoded:
    """Check and take apart every datagram of a batch."""
    status = np.zeros(batch.count, np.uint8)
    fields: npt.NDArray[np.void] = np.zeros(batch.count, Fields.dtype)
    _decode(
        batch.data,
        batch.length,
        batch.source,
        batch.destination,
        batch.source_port,
        batch.count,
        status,
        fields.ctypes.data,
    )
    return Decoded(status, fields)
