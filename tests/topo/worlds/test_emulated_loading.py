"""What is started before its network: the network takes it over, or nothing is left of it."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.support.emulated_support import is_alive, needs_machine, quiet_world, run_folders

from weft.topo.clos import single
from weft.topo.worlds.emulated import loading
from weft.topo.worlds.emulated.loading import Loading, begun_early
from weft.topo.worlds.emulated.runs import RUNS
from weft.topo.worlds.emulated.world import EmulatedWorld

pytestmark = [needs_machine, pytest.mark.system]


def _started() -> tuple[Loading, list[int]]:
    """What has been started early, and its processes."""
    (early,) = loading._early
    assert early.launcher is not None and early.switches is not None
    assert early.record.pid_namespace is not None
    return early, [early.launcher.pid, early.switches.pid, early.record.pid_namespace.pid]


def test_a_network_takes_over_what_has_been_started_for_it() -> None:
    with begun_early(("ring",)):
        early, started = _started()
        with EmulatedWorld(single(2), algorithms=("ring",)) as world:
            assert world.record is early.record
            assert [each.pid for each in world.switch_processes] == [started[1]]
            world.make_ready()
            assert "h1" in world.mininet["h0"].cmd("getent hosts h1")
        assert not (RUNS / early.record.id).exists()
        assert not any(map(is_alive, started))


def test_another_network_starts_its_own_and_the_block_ends_what_nobody_has_taken() -> None:
    before = run_folders()
    with begun_early(("ring",)):
        early, started = _started()
        with quiet_world(single(2)) as world:
            assert world.record is not early.record
        assert all(map(is_alive, started)) and (RUNS / early.record.id).exists()
    assert not any(map(is_alive, started)) and run_folders() <= before


def test_a_ctrl_c_while_it_is_started_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    start = loading._start
    started = []

    def start_interrupted(*asked: Any) -> Any:
        started.append(start(*asked))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    before = run_folders()
    monkeypatch.setattr(loading, "_start", start_interrupted)
    # A shell has what it starts in the background ignore SIGINT.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), begun_early(("ring",)):
            raise AssertionError("the block is not entered")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not is_alive(started[0].pid) and run_folders() <= before


def test_what_cannot_be_started_early_is_left_to_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(*_: object) -> None:
        raise OSError("no more processes")

    before = run_folders()
    monkeypatch.setattr(loading, "_start", start)
    with begun_early(("ring",)):
        assert not loading._early
        assert run_folders() <= before
