"""Flows whose packets are left out where all of them have been steady (``fast_forward``).

Time is cut into windows of a declared number of round trips. Where every connection had as many
packets acknowledged in two windows, kept as many under way, its congestion control let it have as
many or more than it used, and nothing was sent again, the next windows would be like these. So
their packets are taken off what each flow has yet to send, and their time is added to the clock:
what queues, links and transports hold stays as it is. Packets go on before the next event: a flow
that ends, as its last messages are never left out, or one that begins. After each leap a window of
packets tells how far off it was.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.agents.transport import CompletionKind
from weft.agents.transport.posting import Completion
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.runs.inputs import own_programs
from weft.experiments.scenario.kinds import scheme_in
from weft.experiments.scenario.scenario import Scenario
from weft.interface.flows.network import MESSAGE_BYTES, CarriedFlow, FlowNetwork, Sender

TOLERANCE = 0.02
"""How far windows may differ that are alike, in parts of a connection's packets..."""
TOGETHER = 16
"""... or by so many of them, as acknowledgements are of several."""
LEAST_PACKETS = 800
"""Of each connection in a window: of fewer these would be too much, so it becomes longer."""
MOST_WINDOWS = 128
"""The longest leap; a window of packets follows."""
FIRST_NS = 100_000
"""A window where no round trip has been measured yet."""

ROUND_TRIPS = 2, 10_000
"""The least and the most that may be asked for."""
_CHANGED = ("register_arrays", "meter_arrays")
"""What a program keeps from packet to packet, in its JSON, and may decide by."""

Sample = npt.NDArray[np.int64]
"""int64[connections, 4]: packets acknowledged and under way, the congestion control's window in
1/256 packets, and packets sent again."""


@dataclass
class Skipped:
    """What has been left out of a simulation, and what that did where it was looked at."""

    skipped_ns: int = 0
    sampled_windows: int = 0
    """Windows of packets behind leaps, by which their error is known."""
    largest_error: float = 0.0
    """Of any connection in one of these: by how much its packets differed from those assumed, in
    parts of them."""
    mean_error: float = 0.0


@dataclass(eq=False)
class _Posting:
    """What a connection has yet to send."""

    pair: RcQueuePair
    source: Sender
    target: Sender
    left_bytes: int
    """Those that have not been posted."""


def check_fast_forward(scenario: Scenario) -> None:
    """Raise InputError where nothing can be steady, or packets change what programs keep."""
    scheme, topology = scheme_in(scenario), scenario.network()
    if scheme.reorders or scheme.entropy != "fixed":
        raise InputError(
            f"fast_forward with paths {shown(scenario.paths)}: packets of a flow take paths of "
            "their own, so that no window is like another; choose paths of one path for a "
            "connection, such as ecmp, destination or ethereal"
        )
    by_chance = (each.ends for each in topology.links if each.loss or each.jitter_ns)
    refuse(
        scenario.loss or any(by_chance),
        "fast_forward: where links lose packets at random, or have jitter, no window is like "
        "another",
    )
    for name, files in own_programs(topology).items():
        program = json.loads(files.json.read_bytes())
        changed = [each["name"] for kind in _CHANGED for each in program.get(kind, ())]
        if changed:
            raise InputError(
                f"fast_forward: packets change {', '.join(changed[:3])} in the program of {name}, "
                "so that none may be left out"
            )


def is_steady(samples: Sequence[Sample]) -> bool:
    """Return whether two windows, the last between three samples, were alike for all connections,
    and had enough packets of each."""
    if len(samples) < 3 or not len(samples[-1]):
        return False
    before, middle, now = samples[-3:]
    first, second = middle[:, 0] - before[:, 0], now[:, 0] - middle[:, 0]
    if min(first.min(), second.min()) < LEAST_PACKETS or (now[:, 3] != before[:, 3]).any():
        return False
    three = np.stack([before, middle, now])
    flights, windows = three[:, :, 1], three[:, :, 2] / 256
    unlimited = (flights + TOGETHER < windows).all(0)
    return bool(
        _alike(np.stack([first, second])).all()
        and _alike(flights).all()
        and (_alike(windows) | unlimited).all()
    )


def _alike(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return, by column, whether values are the same but for what is tolerated."""
    least, most = values.min(0), values.max(0)
    found: npt.NDArray[np.bool_] = most - least <= np.maximum(TOGETHER, TOLERANCE * least)
    return found


class FastForwardNetwork(FlowNetwork):
    """A network whose packets are left out while all flows are steady; see the module."""

    def __init__(
        self, scenario: Scenario, steps: Sequence[Sequence[CarriedFlow]], round_trips: int
    ) -> None:
        """Bring it up; ``round_trips`` is how many of the longest ones a window has, and the rest
        is as of `FlowNetwork`."""
        super().__init__(scenario, steps)
        self._round_trips = round_trips
        self.skipped = Skipped()
        self._postings: dict[RcQueuePair, _Posting] = {}
        self._samples: list[Sample] = []
        self._window_ns = FIRST_NS
        self._assumed: npt.NDArray[np.float64] | None = None
        """The packets of each connection in a window, as the last leap had them."""

    @property
    def now_ns(self) -> int:
        """The virtual time, with that of packets that were left out."""
        return self._fabric.now_ns + self.skipped.skipped_ns

    def begin(self, flow: CarriedFlow) -> None:
        super().begin(flow)
        self._forget()

    def _post(self, pair: RcQueuePair, size_bytes: int, source: Sender, target: Sender) -> None:
        posting = self._postings[pair] = _Posting(pair, source, target, size_bytes)
        window_bytes = source.endpoint.maximum_window * self._scenario.mtu
        for _ in range(2 - -window_bytes // MESSAGE_BYTES):
            self._post_next(posting)

    def _post_next(self, posting: _Posting) -> None:
        length = min(MESSAGE_BYTES, posting.left_bytes)
        posting.left_bytes -= length
        if length:
            self._write(
                posting.pair, length, not posting.left_bytes, posting.source, posting.target
            )

    def _take(self, completion: Completion) -> None:
        super()._take(completion)
        if completion.kind is CompletionKind.SENT and completion.qp in self._postings:
            posting = self._postings[completion.qp]
            self._post_next(posting)
            if not posting.pair.outstanding:
                del self._postings[completion.qp]
                self._forget()

    def _run_to(self, until_ns: int, before: bool) -> bool:
        """Go on as `FlowNetwork` does, window by window."""
        fabric = self._fabric
        while not self._ended:
            left_ns = until_ns - self.now_ns
            if left_ns <= self._window_ns:
                return super()._run_to(until_ns, before)
            stop_ns = fabric.now_ns + self._window_ns
            fabric.landings.forget()
            if not fabric.run(stop_ns=stop_ns, until=lambda: bool(self._ended)):
                return super()._run_to(until_ns, before)
            if not self._ended:
                self._look(left_ns - self._window_ns)
        return True

    def _forget(self) -> None:
        """Take note that windows to come have other flows than those before."""
        self._samples, self._assumed = [], None

    def _look(self, left_ns: int) -> None:
        """Look at the window that has passed, and leave out some that are to come, of so much
        time."""
        if not self._postings:
            return
        self._samples = [*self._samples[-2:], self._sample()]
        if len(self._samples) > 1 and self._assumed is not None:
            self._compare(self._samples[-1][:, 0] - self._samples[-2][:, 0])
        if is_steady(self._samples):
            self._leap(left_ns)
        elif len(self._samples) != 2:
            self._window_ns = self._next_window_ns()
            self._samples = self._samples[-1:]

    def _next_window_ns(self) -> int:
        """Return how long windows are from now on: as many round trips as are asked for, and enough
        for the slowest connection's packets."""
        rows = (each.source.endpoint.row_of(each.pair.row) for each in self._postings.values())
        asked_ns = self._round_trips * max(row.smoothed_rtt for row in rows) or FIRST_NS
        if len(self._samples) < 3:
            return asked_ns
        fewest = int((self._samples[-1][:, 0] - self._samples[-2][:, 0]).min())
        enough_ns = -(-LEAST_PACKETS * self._window_ns * 9 // (8 * max(fewest, 1)))
        return max(asked_ns, min(enough_ns, 8 * self._window_ns))

    def _sample(self) -> Sample:
        rows = (each.source.endpoint.row_of(each.pair.row) for each in self._postings.values())
        return np.array(
            [
                (
                    row.unacknowledged, row.send_next - row.unacknowledged, row.window,
                    row.retransmitted_packets,
                )
                for row in rows
            ],
            np.int64,
        )  # fmt: skip

    def _leap(self, left_ns: int) -> None:
        packets = (self._samples[-1][:, 0] - self._samples[-3][:, 0]) / 2
        mtu = self._scenario.mtu
        unposted = np.array([each.left_bytes for each in self._postings.values()])
        windows = int(min(((unposted - 1) // mtu / packets).min(), left_ns // self._window_ns))
        windows = min(windows, MOST_WINDOWS)
        if windows < 1:
            return
        taken = np.floor(packets * windows).astype(np.int64) * mtu
        for posting, size in zip(self._postings.values(), taken.tolist(), strict=True):
            posting.left_bytes -= size
        self.skipped.skipped_ns += windows * self._window_ns
        self._assumed = packets

    def _compare(self, packets: npt.NDArray[np.int64]) -> None:
        """Take note of how far a window of packets was from what was assumed."""
        assert self._assumed is not None
        errors = np.abs(packets - self._assumed) / self._assumed
        told = self.skipped
        told.largest_error = max(told.largest_error, float(errors.max()))
        told.sampled_windows += 1
        told.mean_error += (float(errors.mean()) - told.mean_error) / told.sampled_windows
        self._assumed = None
