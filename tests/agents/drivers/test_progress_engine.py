"""The progress engine: worker threads side by side, from memory and from sockets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.progress_engine_support import (
    ADDRESS,
    CHUNK_BYTES,
    GROUPS,
    QKEY,
    SHARD_BYTES,
    packets_of,
)
from tests.support.transport_pair import pattern

from weft.agents.drivers.progress_engine import ProgressEngine, RingSource
from weft.agents.transport import ChunkSink, ReceiveWorker

ROOT = Path(__file__).resolve().parents[3]
SOCKETS = str(ROOT / "tests" / "support" / "progress_sockets.py")


@pytest.mark.parametrize("staged", [False, True])
def test_threads_gather_their_parts_of_one_buffer_side_by_side(staged: bool) -> None:
    size = SHARD_BYTES * len(GROUPS)
    data, buffer = pattern(size), np.zeros(size, np.uint8)
    parts, sinks = [], []
    for index, group in enumerate(GROUPS):
        begin = index * SHARD_BYTES
        worker = ReceiveWorker(ADDRESS, [(group, QKEY)], staged=staged)
        sink = ChunkSink(buffer, 1, CHUNK_BYTES, [SHARD_BYTES], [begin])
        worker.attach(sink)
        ring = packets_of(group, data[begin : begin + SHARD_BYTES])
        parts.append((worker, RingSource(ring, rounds=20, batch=7)))
        sinks.append(sink)
    whole = [0] * len(GROUPS)

    def again(index: int, sink: ChunkSink) -> None:
        assert sink is sinks[index] and sink.missing == 0
        whole[index] += 1
        if whole[index] < 20:
            sink.rearm()

    with ProgressEngine(parts, again) as engine:
        times = engine.wait()
    assert whole == [20, 20, 20]
    assert (buffer == data).all()
    for (worker, _), time in zip(parts, times, strict=True):
        chunks = SHARD_BYTES // CHUNK_BYTES
        assert worker.statistics.chunks_received == 20 * chunks
        assert worker.statistics.duplicate_chunks == 0
        assert time.ended_ns >= time.started_ns and time.cpu_ns > 0


def test_what_goes_wrong_in_a_thread_ends_all_and_is_raised() -> None:
    data = pattern(SHARD_BYTES)
    parts = []
    for group in GROUPS:
        worker = ReceiveWorker(ADDRESS, [(group, QKEY)])
        worker.attach(ChunkSink(np.zeros(SHARD_BYTES, np.uint8), 1, CHUNK_BYTES, [SHARD_BYTES]))
        parts.append((worker, RingSource(packets_of(group, data), rounds=None)))

    def fail(index: int, _sink: ChunkSink) -> None:
        if index == 1:
            raise RuntimeError("worker 1")

    with ProgressEngine(parts, fail) as engine, pytest.raises(RuntimeError, match="worker 1"):
        engine.wait()


def test_leaving_ends_threads_whose_source_never_ends() -> None:
    worker = ReceiveWorker(ADDRESS, [(GROUPS[0], QKEY)])
    source = RingSource(packets_of(GROUPS[0], pattern(SHARD_BYTES)), rounds=None)
    with ProgressEngine([(worker, source)]) as engine:
        engine.stop()
        assert len(engine.wait()) <= 1


def test_a_rearmed_sink_misses_everything_again() -> None:
    sink = ChunkSink(np.zeros(100, np.uint8), 1, 10, [30, 70])
    sink.mark(0, 4)
    sink.feed(sink)
    sink.mark(3, 5)
    sink.rearm()
    fresh = ChunkSink(np.zeros(100, np.uint8), 1, 10, [30, 70])
    assert [sink.missing_in(shard) for shard in range(2)] == [3, 7]
    assert sink.gaps(1) == fresh.gaps(1)
    assert (sink.missing, sink.received, sink.duplicates) == (10, 0, 0)


def test_interrupting_ends_all_threads_at_once() -> None:
    program = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below nohup\n"
        "from weft.agents.drivers.progress_engine import ProgressEngine, RingSource\n"
        "from weft.agents.transport import ReceiveWorker\n"
        "from tests.agents.drivers.test_progress_engine import (\n"
        "    ADDRESS, GROUPS, QKEY, packets_of, pattern)\n"
        "parts = [(ReceiveWorker(ADDRESS, [(group, QKEY)]),\n"
        "          RingSource(packets_of(group, pattern(5000)), rounds=None))\n"
        "         for group in GROUPS]\n"
        "with ProgressEngine(parts) as engine:\n"
        "    try:\n"
        "        print('running', flush=True)\n"
        "        engine.wait()\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
        "print('ended', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "running\n"
        running.send_signal(signal.SIGINT)
        try:
            found, _ = running.communicate(timeout=600)
        finally:
            running.kill()
        assert found == "interrupted\nended\n"
        assert running.returncode == 0


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("ip") is None, reason="not installed: ip")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="not installed: unshare")
def test_sockets_bring_each_worker_its_own_groups_and_stop_at_once() -> None:
    done = subprocess.run(
        [
            "unshare",
            "--net",
            sys.executable,
            str(ROOT / "tests" / "support" / "progress_sockets.py"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["gathered"] and found["stopped"]
    for statistics in found["statistics"]:
        assert statistics["chunks_received"] == SHARD_BYTES // CHUNK_BYTES
        assert statistics["received_packets"] == SHARD_BYTES // CHUNK_BYTES
