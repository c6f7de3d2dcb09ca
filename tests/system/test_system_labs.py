"""Network files of other tools, brought up as they are."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.system_support import left_as_it_was, weft

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

TESTS = Path(__file__).resolve().parents[1]
BRIDGE = TESTS / "labs" / "bridge"


def test_a_topology_of_the_tutorials_comes_up_with_its_entries_and_commands(tmp_path: Path) -> None:
    for file in BRIDGE.iterdir():
        shutil.copy(file, tmp_path)
    shutil.copy(TESTS / "stf" / "basic.p4", tmp_path)
    path = tmp_path / "topology.json"
    topology = json.loads(path.read_text())
    topology["hosts"]["h2"]["commands"].append("cat /nowhere")
    path.write_text(json.dumps(topology))
    (tmp_path / "commands.txt").write_text(
        "pingall\ntables s1\nh1 ip -br link show eth0\nh2 ip route\nswitches\n"
    )
    with left_as_it_was():
        done = weft("up", path.name, "--program", "basic.p4", "--script", "commands.txt",
                    cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "0% dropped (2/2 received)" in done.stdout
    assert "hdr.ipv4.dst_addr=10.1.2.0/24 -> TheIngress.ipv4_forward(" in done.stdout
    assert "08:00:00:00:01:01" in done.stdout
    assert "default via 10.1.2.254 dev eth0" in done.stdout
    assert "s1: device 0," in done.stdout
    assert "weft: h2: 'cat /nowhere' ended with status 1: cat: /nowhere" in done.stderr
    written = weft("topology", path.name, "--program", "basic.p4", "-o", "lab.toml", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert f"Network file: {tmp_path / 'lab.toml'}" in written.stdout
    assert 's1 = "basic.p4"' in (tmp_path / "lab.toml").read_text()
    with left_as_it_was():
        refused = weft("up", path.name, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "weft: topology.json:1: switches.s1: the file names no program"
    )
    assert "beside it lie basic.p4" in refused.stderr
