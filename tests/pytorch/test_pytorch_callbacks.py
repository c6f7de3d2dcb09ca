"""Futures of operations: in which order their callbacks run, and what these may wait for."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from weakref import ref

import pytest

torch = pytest.importorskip("torch")

from weft.pytorch.callbacks import Callbacks, in_callback  # noqa: E402
from weft.pytorch.timeline import Timeline  # noqa: E402
from weft.pytorch.work import WeftWork  # noqa: E402


@pytest.fixture
def callbacks() -> Iterator[Callbacks]:
    with ThreadPoolExecutor(64) as pool:
        yield Callbacks(pool)


def begin(callbacks: Callbacks, name: str = "allreduce") -> WeftWork:
    """A collective that has been begun, with a result of one element."""
    work = WeftWork(
        name, timedelta(seconds=20), [torch.ones(1)], Timeline(0, "h0"), callbacks
    )  # fmt: skip
    callbacks.begun(work)
    return work


def test_callbacks_run_in_the_order_of_beginnings_not_of_ends(callbacks: Callbacks) -> None:
    works = [begin(callbacks) for _ in range(20)]
    said: list[int] = []
    hung = [
        work.get_future().then(lambda _, n=number: said.append(n))
        for number, work in enumerate(works)
        if number != 3  # nobody asks for this one
    ]
    for work in reversed(works):
        assert not said
        work.end()
    for each in hung:
        each.wait()
    assert said == [number for number in range(20) if number != 3]


def test_callbacks_wait_for_what_they_begin_and_for_what_was_begun_later(
    callbacks: Callbacks,
) -> None:
    """Each of many, and two deep."""
    works = [begin(callbacks) for _ in range(40)]
    last = works[-1].get_future()

    def inner(_: object) -> float:
        within = begin(callbacks)
        threading.Timer(0.01, within.end).start()
        return float(within.get_future().wait()[0]) + float(last.wait()[0])

    def outer(_: object) -> float:
        within = begin(callbacks)
        threading.Timer(0.01, within.end).start()
        return float(within.get_future().then(inner).wait())

    hung = [work.get_future().then(outer) for work in works[:-1]]
    for work in works:
        work.end()
    assert [each.wait() for each in hung] == [2.0] * 39


def test_a_callback_is_known_as_one_even_if_it_runs_at_once(callbacks: Callbacks) -> None:
    work = begin(callbacks)
    work.end()
    seen: list[tuple[bool, threading.Thread]] = []

    def see(_: object) -> None:
        seen.append((in_callback(), threading.current_thread()))

    work.get_future().then(see).then(see)
    assert seen == [(True, threading.current_thread())] * 2
    assert not in_callback()


def test_errors_reach_those_who_wait_and_later_callbacks_run(callbacks: Callbacks) -> None:
    failing, good = begin(callbacks, "broadcast"), begin(callbacks)
    heard: list[str] = []
    failing.when_over(heard.append)
    hung = failing.get_future().then(lambda future: future.value())
    after = good.get_future().then(lambda future: float(future.value()[0]))
    good.end()
    assert not after.done()
    failing.end("lost rank 2")
    for each in (failing, failing.get_future(), hung):
        with pytest.raises(RuntimeError, match="broadcast: lost rank 2"):
            each.wait()
    assert after.wait() == 1.0
    failing.when_over(heard.append)
    assert heard == ["lost rank 2"] * 2


def test_torch_itself_sees_that_a_future_has_failed(callbacks: Callbacks) -> None:
    """DDP and others read futures in C++, where what a program sees of them does not count."""
    work, good = begin(callbacks), begin(callbacks)
    futures = [good.get_future(), work.get_future(), work.get_future().then(lambda _: 1 / 0)]
    work.end("lost rank 2")
    good.end()
    late = begin(callbacks)
    late.end("lost rank 3")
    futures.append(late.get_future())
    for future, why in zip(
        futures, ("", "allreduce: lost rank 2", "ZeroDivision", "allreduce: lost rank 3"),
        strict=True,
    ):  # fmt: skip
        together = torch.futures.collect_all([future])
        if why:
            with pytest.raises(RuntimeError, match=why) as caught:
                together.wait()
            assert ("At:" in str(caught.value)) == (why == "ZeroDivision"), "lines of our own code"
        else:
            (ended,) = together.wait()
            assert ended.value()[0] == 1.0


def test_futures_of_others_are_as_torch_has_them(callbacks: Callbacks) -> None:
    future = torch.futures.Future()
    seen: list[bool] = []
    following = future.then(lambda _: seen.append(in_callback()))
    assert not future.done() and not following.done()
    future.set_result(3)
    following.wait()
    assert (future.value(), future.wait(), seen) == (3, 3, [False])


def wait_until(holds: Callable[[], bool]) -> None:
    """Threads let go of what they had to do a moment after they have done it."""
    end_s = time.monotonic() + 60
    while not holds():
        gc.collect()
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_nothing_is_kept_of_an_operation_that_nobody_asks_for_any_more(
    callbacks: Callbacks,
) -> None:
    works = [begin(callbacks), begin(callbacks)]
    for work in works:
        work.get_future().then(lambda _: None)
    works[0].end()
    works[1].end("lost rank 2")
    kept = [*map(ref, works), *(ref(work.result()[0]) for work in works[:1])]
    future = works[0].get_future()
    future.then(lambda _: None).wait()
    del work, works
    wait_until(lambda: kept[0]() is None and kept[1]() is None)
    assert future.done() and future.wait()[0] == 1.0
    del future
    wait_until(lambda: kept[2]() is None)
