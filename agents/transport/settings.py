"""What the options of a transport set in an endpoint's state."""

import random

from weft.agents.congestion import CONTROLS
from weft.agents.transport import layout as at
from weft.agents.transport.congestion.control import (
    CongestionControl,
    control_of,
    set_options,
)
from weft.agents.transport.types import (
    ENTROPIES,
    TransportMisuse,
    TransportOptions,
    check_options,
)
from weft.base.errors import refuse

PATH_MTUS = (256, 512, 1024, 2048, 4096)
"""What the InfiniBand specification allows, in bytes of payload."""

_NUMBERS = (0x100, 0x800000)
"""The range of first QP numbers."""
_NUMBER_STEP = 0x4F1B57


def check_endpoint(path_mtu: int, rate_bps: int, epoch: int) -> None:
    """Raise TransportMisuse for what no endpoint is made with."""
    refuse(epoch < 1, f"epoch {epoch}: it is 1 or more", TransportMisuse)
    refuse(
        path_mtu not in PATH_MTUS,
        f"path MTU {path_mtu}: it is one of 256, 512, 1024, 2048, 4096",
        TransportMisuse,
    )
    refuse(
        rate_bps < 0,
        f"a rate of {rate_bps} bit/s: it is positive, or 0 for no limit",
        TransportMisuse,
    )


def first_number(draw: random.Random, epoch: int) -> int:
    """Return the QP number of the first queue pair: what was drawn for the first epoch, and for
    each one more a step further, which is the golden ratio of all. It keeps those of n epochs apart
    by more than a third of an n-th of all."""
    low, high = _NUMBERS
    drawn = draw.randrange(low, high)
    return low + (drawn - low + (epoch - 1) * _NUMBER_STEP) % (high - low)


def set_times(state: at.EndpointState, options: TransportOptions) -> None:
    """Set windows and times, by the address, the path MTU and the rate that the state has."""
    window = max(4, options.window_bytes // state.path_mtu)
    window_ns = packet_ns = 0
    if state.rate_bps:
        window_ns = options.window_bytes * 8_000_000_000 // state.rate_bps
        packet_ns = state.path_mtu * 8_000_000_000 // state.rate_bps
    # None of these options is 0.
    least_ns = min(max(window_ns, 5_000_000), max(25_000_000, 32 * packet_ns))
    first_ns = options.first_timeout_ns or 10_000_000 + window_ns
    minimum_ns = options.minimum_timeout_ns or least_ns
    control_ns = options.control_timeout_ns or max(5_000_000, 6 * packet_ns)
    state.fill(
        maximum_window=window,
        read_segment=max(1, min(options.read_segment_packets, window)),
        acknowledge_every=options.acknowledge_every,
        acknowledge_interval=options.acknowledge_interval_ns,
        initial_timeout=first_ns,
        minimum_timeout=minimum_ns,
        control_timeout=control_ns,
        maximum_timeout=options.maximum_timeout_ns,
        retry_limit=options.retries,
        give_up=options.give_up_ns,
        pacing_credit=options.pacing_credit_ns,
        burst=options.burst_ns,
    )


def set_control(state: at.EndpointState, options: TransportOptions, seed: int) -> CongestionControl:
    """Set what the options say of congestion, recovery and entropy; return the congestion control.

    Raises TransportMisuse for options that make no sense.
    """
    check_options(options)
    control = control_of(options.congestion)
    set_options(state, control, dict(options.congestion_options))
    selective = options.recovery == "selective"
    entropy = ENTROPIES.index(options.entropy)
    explore = options.explore_packets
    state.fill(
        congestion=[*CONTROLS].index(control.name),
        repeats_early=not control.reacts_to_marks,
        recovery=at.SELECTIVE if selective else at.GO_BACK_N,
        reorder=options.reorder_packets,
        entropy=entropy,
        entropies=options.entropies,
        explore_packets=state.maximum_window if explore is None else explore,
        freeze=options.freeze_ns,
        random=random.Random(f"{seed} {state.address} entropy").getrandbits(63),
    )
    if control.reacts_to_marks or entropy != at.FIXED:
        every = min(options.acknowledge_every, 4)
        state.fill(ect=2, echo=at.ECHO_CHANGES, acknowledge_every=every)
    if selective or entropy == at.REPS:
        state.fill(echo=at.ECHO_EVERY, acknowledge_every=1)
    if selective:
        window = max(state.maximum_window, 2 * state.read_segment)
        state.board_room = 1 << (window - 1).bit_length()
    return control
