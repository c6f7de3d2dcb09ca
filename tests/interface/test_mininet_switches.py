"""Mininet scripts that exist run with the built-in switch: `weft.mininet`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.realtime_support import ROOT, needs_namespaces
from tests.support.wire import WIRE

DEADLINE_S = 60.0


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@needs_namespaces
@pytest.mark.system
def test_a_mininet_scripts_switches_are_one_process_that_dies_with_it(tmp_path: Path) -> None:
    (tmp_path / "wire.p4").write_text(WIRE)
    command = ["unshare", "-n", sys.executable, "-m", "tests.support.mininet_script"]
    with subprocess.Popen(
        [*command, f"{tmp_path}/wire.p4", str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    ) as script:  # fmt: skip
        assert script.stdout is not None
        try:
            lines = [line for line in script.stdout.readline().splitlines() if line]
        finally:
            script.kill()
    seen = json.loads(lines[-1])
    assert seen["numbers"] == [[0, 50051], [1, 50052], [2, 50053]]
    assert seen["host"] == "eth0"
    assert (seen["lost"], seen["processes"]) == (0.0, 1)
    assert (seen["lost_stopped"], seen["lost_started"]) == (100.0, 0.0)
    assert seen["processes_then"] == 2
    unknown = seen["refused"].pop()
    assert unknown.startswith("switch s9: there is no argument 'progam' (did you mean program?)")
    assert seen["refused"] == [
        "switch s9: program 'nowhere.p4': there is no such file",
        "switch s9: switch='ovs' is none of: weft, bmv2",
        "switch s9: grpc_port=1048576: a whole number, 0 to 65535",
    ]
    own = f"h1: eth0\t10.0.0.1\t{seen['mac']}\n"
    assert seen["described"] == f"{own}{own}h1: gateway\t10.0.0.254\t02:00:00:00:00:fe\n"
    assert "cannot listen on 127.0.0.1:50051" in seen["occupied"]
    for number, log in enumerate(seen["logs"]):
        assert f"P4Runtime: device {number} on 127.0.0.1:5005{number + 1}\n" in log
        assert f"program: {tmp_path}/wire.p4, loaded in " in log
    assert (tmp_path / "s1-eth1_in.pcap").stat().st_size > 24
    end = time.monotonic() + DEADLINE_S
    while any(map(is_running, seen["left"])) and time.monotonic() < end:
        time.sleep(0.05)
    assert seen["left"] and not any(map(is_running, seen["left"]))
