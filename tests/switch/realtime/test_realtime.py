"""The switch process: its configuration, and the whole on veth pairs in a namespace of its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.emulated_support import wait_until
from tests.support.realtime_support import ROOT, needs_namespaces

from weft.base.errors import InputError
from weft.switch.engine.control.memory import rows
from weft.switch.realtime.config import config_of, read_config
from weft.switch.realtime.durations import HISTOGRAM, Durations, count_duration, lateness
from weft.switch.realtime.process import SwitchProcess


def switch(**more: Any) -> dict[str, Any]:
    return {"name": "leaf0", "device_id": 1, "address": "unix:/x", "ports": [], **more}


def port(number: int, **more: Any) -> dict[str, Any]:
    return {"port": number, "interface": f"s{number}", **more}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "no configuration"),
        ({"switches": [switch(), switch()]}, "switch name given twice: leaf0"),
        ({"switches": [switch(ports=[port(1), port(1)])]}, "interface given twice|each once"),
        ({"switches": [switch(ports=[port(511)])]}, "0 to 510"),
        ({"switches": [switch(ports=[{"port": 1}])]}, "port 1: it has no interface"),
        ({"switches": [switch(device_id="one")]}, r"no configuration of switches: .*device_id"),
        ({"switches": [switch(ports=[port(1, rate_bps=-1)])]}, "negative"),
        ({"switches": [], "drop_port": 600}, "9 bits"),
        ({"switches": [switch(cpu_port=511)]}, "1 to 510"),
        ({"switches": [switch(cpu_port=9)], "drop_port": 9}, "means drop"),
        ({"switches": [switch(ports=[port(7)], cpu_port=7)]}, "port 7 is the CPU port"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, document: Any, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        read_config(path)


def test_lateness_quantiles_are_right_within_a_sixteenth() -> None:
    durations = rows(Durations, 1)[0]
    histogram = durations.counts
    values = [0, 1, 31, 32, 33, 100, 5_000, 77_777, 10**6, 10**9]
    for position, value in enumerate(values):
        count_duration(durations, value)
        measured = lateness(histogram, 1.0)
        assert value <= measured <= value * 17 / 16 + 1
        assert histogram.sum() == position + 1
    assert lateness(np.zeros(HISTOGRAM, np.int64), 0.5) == 0


@pytest.mark.parametrize("attempt", range(5))
def test_what_other_threads_ask_of_a_process_is_done_also_while_it_stops(attempt: int) -> None:
    process = SwitchProcess(config_of({"switches": [switch()], "buffers": 64}, "the test"))
    process.start()
    ended = threading.Event()
    asked, done = [0] * 3, [0] * 3

    def ask(thread: int) -> None:
        def count() -> None:
            done[thread] += 1

        while not ended.is_set():
            asked[thread] += 1
            process.at_once(count)

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask, thread) for thread in range(3)]
        try:
            wait_until(lambda: min(done) > 10, "all threads ask")
            process.stop()
        finally:
            ended.set()
        for one in asking:
            one.result()
    assert done == asked


def test_what_goes_wrong_between_batches_is_raised_to_who_asked_and_the_loop_goes_on() -> None:
    failed = threading.Event()
    config = config_of({"switches": [switch()], "buffers": 64}, "the test")
    process = SwitchProcess(config, on_failure=failed.set)
    process.start()
    try:
        with pytest.raises(IndexError):
            process.at_once(lambda: [].pop())
        done: list[bool] = []
        process.at_once(lambda: done.append(True))
        assert done and process.failure is None and not failed.is_set()
    finally:
        process.stop()


@needs_namespaces
def test_frames_cross_the_switch_at_the_rate_of_its_link(tmp_path: Path) -> None:
    answer = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "tests.support.realtime_namespace", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout)
    assert seen["sizes"] == [1250] * 20
    assert seen["order"] == list(range(20))
    # 1250 bytes at 10 Mbit/s are 1 ms, and the link's delay is 1 ms. A machine may be later.
    assert seen["first_s"] >= 0.002
    assert seen["last_s"] >= 0.021
    assert seen["jumbo"] == [9214]
    assert seen["copies"] == [1, 1]
    assert seen["links"] == [[3, False], [3, True]]
    assert "port 1 of 'leaf0': it is no patch link" in seen["refused"]
    (leaf,) = seen["statistics"]["switches"]
    assert leaf["drops"]["no_program"] == 1
    assert leaf["ports"][0]["rx_packets"] == 23
    assert leaf["ports"][1]["tx_packets"] == 22
    assert leaf["ports"][1]["queue_peak_packets"] == 19  # behind the first
    assert sum(entry["kernel_drops"] for entry in leaf["ports"]) == 0
    assert seen["statistics"]["lateness_ns"]["count"] == 23


@needs_namespaces
@pytest.mark.parametrize("way", ["stdin", "SIGTERM"])
def test_the_process_says_ready_answers_and_ends(tmp_path: Path, way: str) -> None:
    path = tmp_path / "config.json"
    statistics = str(tmp_path / "s.sock")
    address = f"unix:{tmp_path / 'p4.sock'}"
    path.write_text(json.dumps({"switches": [switch(address=address)], "stats_socket": statistics}))
    process = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-m", "weft.switch.realtime", str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    for request in (b"", b"reset\n"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(statistics)
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            data = b""
            while part := client.recv(65536):
                data += part
        assert json.loads(data)["switches"][0]["program_loaded"] is False
    if way == "stdin":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    assert not Path(statistics).exists()


@needs_namespaces
def test_an_interface_that_is_not_there_ends_the_process_with_2(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"switches": [switch(ports=[port(1)])]}))
    answer = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "weft.switch.realtime", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert answer.returncode == 2
    assert "interface 's1' cannot be a switch port" in answer.stderr
    assert "Traceback" not in answer.stderr
