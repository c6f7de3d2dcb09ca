"""``weft cli``: commands of BMv2's command line on a switch that serves P4Runtime, by a text and at
a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli_support import WEFT, start
from tests.support.p4runtime_support import BareClient

from weft.cli.switch_prompt import SwitchPrompt
from weft.controller.client import Session
from weft.switch.p4runtime.server import P4RuntimeServer

pytest_plugins = ["tests.support.p4runtime_fixtures"]

TEXT = """
# entries
table_add exact_table send 1 1 => 3
table_add exact_table send 1 1 => 4
register_write cells 2 7
register_read cells 2
mc_node_create 5 1 2
"""


def test_a_text_of_commands_is_carried_out_and_the_first_failure_is_the_status(
    server: P4RuntimeServer,
    client: BareClient,
    tmp_path: Path,
) -> None:
    (tmp_path / "commands.txt").write_text(TEXT)
    command = [*WEFT, "cli", "--grpc-addr", server.address, "--device-id", "1"]
    done = start(*command, "--commands", "commands.txt", cwd=tmp_path)
    assert done.stdout == (
        "RuntimeCmd: Adding entry to exact match table exact_table\n"
        "match key:           EXACT-01\tEXACT-00:01\n"
        "action:              send\n"
        "runtime data:        00:03\n"
        "Entry has been added with handle 0\n"
        "RuntimeCmd: Adding entry to exact match table exact_table\n"
        "match key:           EXACT-01\tEXACT-00:01\n"
        "action:              send\n"
        "runtime data:        00:04\n"
        "RuntimeCmd: RuntimeCmd: cells[2]= 7\n"
        "RuntimeCmd: Creating node with rid 5 , port map 110 and lag map \n"
        "node was created with handle 0\n\n"
    )
    assert done.stderr.startswith(
        "commands.txt:4: table_add: Invalid table operation (DUPLICATE_ENTRY): "
    )
    assert done.returncode == 1
    (tmp_path / "more.txt").write_text("mc_mgrp_create 2\nmc_node_associate 2 0\nmc_dump\n")
    with (tmp_path / "more.txt").open() as more:
        done = start(*command, cwd=tmp_path, stdin=more)
    assert "  -> (L1h=0, rid=5) -> (ports=[1, 2], lags=[])\n" in done.stdout
    assert (done.stderr, done.returncode) == ("", 0)
    (entry,) = client.read("table_entry { table_id: 0 }")[:1]
    assert entry.table_entry.metadata in (b"", b"handle 0")


def test_the_prompt_says_what_is_wrong_and_goes_on(
    server: P4RuntimeServer,
    client: BareClient,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session("leaf0", 1, server.address, election_id=None)
    prompt = SwitchPrompt(session)
    assert not prompt.onecmd("table_ad exact_table")
    assert not prompt.onecmd("table_num_entries exact_table # how many")
    assert not prompt.onecmd("  ")
    assert prompt.onecmd("EOF")
    said = capsys.readouterr().out
    assert said.startswith("*** Unknown syntax: table_ad")
    assert said.endswith("see help\n0\n\n")
    lines = iter(["table_num_entries exact_table", KeyboardInterrupt, "exit"])

    def typed(_: str) -> str:
        if (written := next(lines)) is KeyboardInterrupt:
            raise KeyboardInterrupt
        return str(written)

    monkeypatch.setattr("builtins.input", typed)
    prompt.run()
    assert capsys.readouterr().out.count("Commands of leaf0") == 1
    assert prompt.completenames("table_add") == ["table_add"]
    line = "table_add exact_table "
    assert prompt.completedefault("r", f"{line}r", len(line), len(line) + 1) == ["rewrite"]
    assert prompt.completedefault("sel", "table_dump sel", 11, 14) == ["selector_table"]
    assert prompt.completedefault("", "table_delete exact_table ", 25, 25) == []
    line = "table_add exact_table send 1 "
    assert prompt.completedefault("", line, len(line), len(line)) == []
    line += "1 "
    assert prompt.completedefault("", line, len(line), len(line)) == ["=>"]
    session.close()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["s1", "--run", "none"], "run 'none'"),
        (["--grpc-addr", "nowhere"], "--grpc-addr 'nowhere': write HOST:PORT or unix:PATH"),
        (["s1", "--grpc-addr", "localhost:1"], "leave SWITCH and --run out"),
        (["--device-id", "1"], "--device-id is for --grpc-addr"),
        (["--commands", "none.txt"], "commands 'none.txt'"),
    ],
)
def test_a_wrong_option_is_one_message(words: list[str], why: str, tmp_path: Path) -> None:
    done = start(*WEFT, "cli", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("weft: ")
    assert why in done.stderr


def test_a_switch_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "commands.txt").write_text("mc_dump\nmc_dump\n")
    command = [*WEFT, "cli", "--grpc-addr", f"unix:{tmp_path}/none.sock"]
    done = start(*command, "--commands", "commands.txt", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("commands.txt:")) == (1, 1)
