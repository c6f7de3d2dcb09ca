"""The ports that have something to do next come in the order of time, then of number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.switch.engine.control.memory import Memory
from weft.switch.engine.dataplane.layout import HEAP_WIDTH, NONE
from weft.switch.engine.dataplane.scheduling import next_deadline, schedule

PORTS = 40
TIMES = st.one_of(st.just(NONE), st.integers(0, 9))


@given(st.lists(st.tuples(st.integers(0, PORTS - 1), TIMES), max_size=200))
def test_whatever_is_set_the_first_comes_first(changes: list[tuple[int, int]]) -> None:
    memory = Memory(1, PORTS, packets=1, buffers=1, frame_bytes=64)
    due: dict[int, int] = {}
    for port, time_ns in changes:
        schedule(memory.context, port, time_ns)
        due.pop(port, None)
        if time_ns != NONE:
            due[port] = time_ns
        assert next_deadline(memory.context) == min(due.values(), default=NONE)
    while due:
        time_ns, port = min((time_ns, port) for port, time_ns in due.items())
        assert memory.heap[0].tolist() == [port, time_ns]
        schedule(memory.context, port, NONE)
        del due[port]
    assert memory.context.heap_length == 0 and (memory.heap_positions == NONE).all()


@pytest.mark.parametrize("position", range(3))
def test_what_is_below_a_port_in_the_heap_shares_a_cache_line(position: int) -> None:
    memory = Memory(1, PORTS, packets=1, buffers=1, frame_bytes=64)
    first = memory.heap[HEAP_WIDTH * position + 1 :].ctypes.data
    assert first % 64 == 0 and HEAP_WIDTH * memory.heap.strides[0] == 64
