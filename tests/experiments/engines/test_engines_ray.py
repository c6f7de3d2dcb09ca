"""Ray as an engine, where it is installed: a cluster in a network namespace, since its processes
listen on all interfaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.engines_support import SWEEP

from weft.base.cache import CHECKOUT

pytest.importorskip("ray", reason="Ray is not installed: pip install 'weft[ray]'")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
PORT = 10001
CLUSTER = f"""
ip link set lo up
{sys.executable} -m ray.scripts.scripts start --head --num-cpus 2 --node-ip-address 127.0.0.1 \
    --ray-client-server-port {PORT} --include-dashboard false --disable-usage-stats >ray.log 2>&1
for on in local:1 ray://127.0.0.1:{PORT}; do
    {sys.executable} -m weft run s.toml --on $on --out ${{on%%:*}} || exit
done
"""
"""All that it starts ends with its PID namespace."""


def digests(folder: Path) -> list[str]:
    document = json.loads((folder / "results.json").read_text())
    assert document["verified"]
    return [run["digest"] for run in document["runs"]]


def test_results_are_the_same_on_ray(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    apart = ("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
    paths = os.pathsep.join([str(CHECKOUT / "src"), *sys.path])
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 32}
    done = subprocess.run(
        [*apart, "bash", "-c", CLUSTER], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, **token, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + (tmp_path / "ray.log").read_text()
    assert digests(tmp_path / "local") == digests(tmp_path / "ray")
