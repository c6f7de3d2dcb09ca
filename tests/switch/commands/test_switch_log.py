"""The log of ``weft switch`` takes the place of what was there, and follows no link."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.reflector import REFLECTOR

from weft.base.cache import CHECKOUT
from weft.switch.commands.switch_log import ProcessLog, SwitchLog, _log_file
from weft.switch.commands.switch_options import parse_options


def written(path: Path, lines: int, *options: str) -> None:
    handler = _log_file(path, parse_options(["--no-p4", *options]))
    for number in range(lines):
        handler.emit(logging.makeLogRecord({"msg": f"line {number} {'x' * 80}"}))
    handler.close()


@pytest.mark.parametrize("there", ["precious", None])
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path, there: str | None) -> None:
    target = tmp_path / "target"
    if there is not None:
        target.write_text(there)
    (tmp_path / "log.txt").symlink_to(target)
    written(tmp_path / "log.txt", 1)
    assert (target.read_text() if target.exists() else None) == there
    assert not (tmp_path / "log.txt").is_symlink()
    assert (tmp_path / "log.txt").read_text().startswith("line 0")


def test_with_an_open_umask_nobody_else_may_write_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        written(tmp_path / "log.txt", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "log.txt").stat().st_mode & 0o022 == 0


def test_a_full_log_goes_on_in_a_new_file_and_replaces_links_there_too(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "log.1.txt").symlink_to(tmp_path / "precious")
    written(tmp_path / "log.txt", 30, "--log-file-max-size", "1")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "log.1.txt").is_symlink()


def test_what_the_server_and_packets_say_goes_to_console_and_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = logging.getLogger("weft.switch")
    try:
        options = parse_options(["--no-p4", "--log-console", "--log-file", f"{tmp_path}/log"])
        ProcessLog([log := SwitchLog(options)])
        logging.getLogger("weft.switch.p4runtime.server").warning("from p4runtime.server")
        log.packets.warning("from packets")
    finally:
        servers.handlers.clear()
        servers.propagate = True
        servers.setLevel(logging.NOTSET)
    for text in (capsys.readouterr().out, (tmp_path / "log.txt").read_text()):
        assert [line.split()[-1] for line in text.splitlines()] == ["p4runtime.server", "packets"]


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.parametrize(
    ("level", "steps", "words"), [("info", False, "[bmv2] [I] "), ("debug", True, "[bmv2] [D] ")]
)
def test_the_log_has_what_a_program_says_from_level_info_and_packets_ways_from_debug(
    tmp_path: Path, level: str, steps: bool, words: str
) -> None:
    said = 'log_msg("port {} reflects", {s.ingress_port});'
    (tmp_path / "told.p4").write_text(REFLECTOR.replace("away.apply();", f"away.apply(); {said}"))
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "tests.support.log_namespace",
         f"{tmp_path}/told.p4", level, f"{tmp_path}/log"],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "[cxt 0] port 1 reflects" in done.stdout
    for line in (
        "Processing packet received on port 1", "Parser 'parser' entering state 'start'",
        "Table 'I.away': ", "Action entry is ", "Transmitting packet of size 60 out of port 1",
    ):  # fmt: skip
        assert (line in done.stdout) == steps, line
    assert words in done.stdout
