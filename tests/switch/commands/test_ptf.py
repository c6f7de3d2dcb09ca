"""``weft ptf``: PTF's tests run against the switch as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.realtime_support import ROOT, needs_namespaces
from tests.support.wire import WIRE

from weft.base.errors import InputError, MachineError
from weft.switch.commands import ptf

TESTS = """
import os

import ptf
from ptf import testutils
from ptf.base_tests import BaseTest


class Wire(BaseTest):
    def setUp(self):
        BaseTest.setUp(self)
        self.dataplane = ptf.dataplane_instance

    def passes(self, port):
        packet = testutils.simple_udp_packet()
        testutils.send_packet(self, 1, packet)
        testutils.verify_packet(self, packet, port)


class Right(Wire):
    def runTest(self):
        self.passes(2)
        for name in ("p4info", "config"):
            assert os.path.isfile(testutils.test_param_get(name))
        assert testutils.test_param_get("own") == 7


class Wrong(Wire):
    def runTest(self):
        self.passes(3)
"""


def has_ptf() -> bool:
    try:
        ptf.find_ptf()
    except MachineError:
        return False
    return True


@needs_namespaces
@pytest.mark.system
@pytest.mark.skipif(not has_ptf(), reason="PTF is not installed")
def test_ptfs_tests_pass_or_fail_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "wire.p4").write_text(WIRE)
    (folder := tmp_path / "tests").mkdir()
    (folder / "wire.py").write_text(TESTS)
    (there := tmp_path / "there").mkdir()
    for name, status in (("Right", 0), ("Wrong", 1)):
        done = subprocess.run(
            [sys.executable, "-m", "weft", "ptf", str(tmp_path / "wire.p4"), str(folder),
             "--ports", "4", "--", "--test-params", "own=7", f"wire.{name}"],
            cwd=there, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{os.environ.get('PYTHONPATH', '')}",
                 "TMPDIR": str(there)},
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        assert not list(there.iterdir())


def test_test_parameters_are_told_from_other_options() -> None:
    given = ["--test-params=a=1;b=2", "-t", "c=3", "wire.Right", "--xunit"]
    assert ptf._test_params(given) == (["a=1;b=2", "c=3"], ["wire.Right", "--xunit"])


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "wire.p4"
    with pytest.raises(InputError, match=r"wire\.p4': there is no such file"):
        ptf.run_tests(program, tmp_path, [], ports=4, cpu_port=None)
    program.write_text(WIRE)
    with pytest.raises(InputError, match="there is no such folder of PTF tests"):
        ptf.run_tests(program, tmp_path / "none", [], ports=4, cpu_port=None)
    with pytest.raises(InputError, match="--ports 0: 1 to 256"):
        ptf.run_tests(program, tmp_path, [], ports=0, cpu_port=None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="with 'pip install ptf'"):
        ptf.run_tests(program, tmp_path, [], ports=4, cpu_port=None)
