"""``weft trace``: a packet's way through a network that is not up."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli_support import WEFT, start

LAB = """
hosts = ["a", "b"]
switches = ["s1", "s2"]
links = [{ ends = ["a", "s1"] }, { ends = ["b", "s2"] }, { ends = ["s1", "s2"], loss = "1%" }]
"""


def test_a_packets_ways_are_shown_and_what_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(LAB)

    def trace(*words: str) -> tuple[int, str, str]:
        done = start(*WEFT, "trace", *words, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    status, shown, _ = trace("lab.toml", "a", "b", "udp", "53", "--all")
    assert (status, shown.splitlines()[-2:]) == (0, ["2 ways in all", "b gets it in some ways"])
    assert "s1-s2 to s2 port 2, 98 bytes (the link loses 0.01 of all): see 2" in shown
    status, shown, _ = trace("lab.toml", "a", "b", "--html", "way.html")
    assert status == 0 and "b gets it" in (tmp_path / "way.html").read_text()
    status, shown, _ = trace("lab.toml", "a", "b", "--json")
    assert json.loads(shown)["summary"]["always"] == ["b"]
    for words, said in (
        (("none.toml", "a", "b"), "'none.toml': there is no such file"),
        (("lab.toml", "a", "c"), "no host 'c'"),
        (("lab.toml", "a", "b", "pong"), "packet 'pong': it is ping"),
    ):
        status, shown, errors = trace(*words)
        assert (status, shown) == (2, "") and said in errors
