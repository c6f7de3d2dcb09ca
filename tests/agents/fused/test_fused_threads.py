"""The threads that compute what operations want computed."""

from __future__ import annotations

import select
import threading
import time
from itertools import pairwise

from weft.agents.collectives.operation import ComputeRequest
from weft.agents.drivers.computing import Computed, Workers

DEADLINE_S = 60.0


def all_done(workers: Workers, count: int) -> list[Computed]:
    """Wait for so many, as who drives a host does: as long as the descriptor cannot be read there
    is nothing."""
    found: list[Computed] = []
    end = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} are done"
        if select.select([workers.fileno()], [], [], 1.0)[0]:
            found += workers.done()
    return found


def test_everything_is_done_once_and_by_no_more_threads_than_there_are() -> None:
    workers, lock = Workers(3), threading.Lock()
    running: list[int] = []
    most = 0

    def compute(wait: int) -> None:
        nonlocal most
        with lock:
            running.append(wait)
            most = max(most, len(running))
        time.sleep(0.001)
        with lock:
            running.remove(wait)

    try:
        for wait in range(30):
            workers.begin(ComputeRequest(7, wait, lambda wait=wait: compute(wait)))  # type: ignore[misc]
        found = all_done(workers, 30)
    finally:
        workers.close()
    assert sorted(each.work.wait for each in found) == list(range(30))
    assert {each.work.operation for each in found} == {7}
    assert not any(each.error for each in found) and most <= 3
    assert all(0 < each.began_ns < each.ended_ns for each in found)
    assert not any(thread.name.startswith("weft-workgroup") for thread in threading.enumerate())


def test_of_one_thread_work_is_done_in_order() -> None:
    workers = Workers(1)
    order: list[int] = []
    try:
        for wait in range(20):
            workers.begin(ComputeRequest(0, wait, lambda wait=wait: order.append(wait)))  # type: ignore[misc]
        found = all_done(workers, 20)
    finally:
        workers.close()
    assert order == [each.work.wait for each in found] == list(range(20))
    assert all(one.ended_ns <= other.began_ns for one, other in pairwise(found))


def test_what_fails_says_why_and_others_go_on() -> None:
    def fail() -> None:
        raise ZeroDivisionError("no number")

    workers = Workers(2)
    try:
        workers.begin(ComputeRequest(0, 0, fail))
        workers.begin(ComputeRequest(0, 1, lambda: None))
        found = {each.work.wait: each.error for each in all_done(workers, 2)}
    finally:
        workers.close()
    assert found == {0: "ZeroDivisionError: no number", 1: ""}


def test_without_anything_done_there_is_nothing_to_read() -> None:
    workers = Workers(1)
    try:
        assert not select.select([workers.fileno()], [], [], 0)[0]
        assert workers.done() == []
        workers.begin(ComputeRequest(0, 0, lambda: None))
        all_done(workers, 1)
        assert not select.select([workers.fileno()], [], [], 0)[0] and workers.done() == []
    finally:
        workers.close()


def test_closing_waits_for_what_is_under_way_and_begins_nothing_more() -> None:
    workers = Workers(1)
    began, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        began.set()
        go_on.wait(DEADLINE_S)
        done.append("first")

    workers.begin(ComputeRequest(0, 0, first))
    workers.begin(ComputeRequest(0, 1, lambda: done.append("second")))
    assert began.wait(DEADLINE_S)
    closing = threading.Thread(target=workers.close)
    closing.start()
    go_on.set()
    closing.join(DEADLINE_S)
    assert not closing.is_alive() and done == ["first"]
