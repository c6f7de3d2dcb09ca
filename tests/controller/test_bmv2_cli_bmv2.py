"""The same commands on Weft's switch and on BMv2, by BMv2's own command line, answer alike.

Not compared are refusals behind the words of BMv2, and bits of a prefix behind its length, which
P4Runtime keeps as 0.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.bmv2_cli_support import local_session
from tests.support.p4runtime_support import EVERY_ENTITY, compiled

from weft.controller.bmv2_cli.run import run_commands

COMMANDS = """table_add exact_table send 1 2 => 3
table_add exact_table rewrite 5 0x10 => 00:00:00:00:00:07 0x1
table_add exact_table drop 1 2 =>
table_add lpm_table send 10.0.1.0/24 => 3
table_add TheIngress.lpm_table mark 0/0 => 0
table_add priority_table mark 1&&&0xf 1->0xfff 3&&&0xf 10.0.0.1 => 9 10
table_info exact_table
table_dump priority_table
table_dump const_table
table_dump lpm_table
table_modify exact_table rewrite 1 00:00:00:00:00:08 0x2
table_dump_entry exact_table 1
table_dump_entry exact_table 7
table_dump_entry_from_key exact_table 5 0x10
table_set_default lpm_table send 9
table_num_entries exact_table
act_prof_create_member selector_profile send 3
act_prof_create_group selector_profile
act_prof_add_member_to_group selector_profile 0 0
act_prof_add_member_to_group selector_profile 0 0
table_indirect_add_with_group selector_table 1 => 0
table_indirect_add selector_table 2 => 9
act_prof_dump selector_profile
act_prof_delete_group selector_profile 0
mc_mgrp_create 5
mc_mgrp_create 5
mc_node_create 7 1 2 3
mc_node_create 8 4
mc_node_associate 5 0
mc_node_associate 5 1
mc_node_associate 9 0
mc_node_associate 5 9
mc_node_update 1 5 6
mc_node_dissociate 5 0
mc_dump
mc_node_create 9 1 | 2
mc_set_lag_membership 2 6 7
mc_node_associate 5 2
mc_node_update 2 3 | 2
greet
set_crc32_parameters nothing 0x1 0 0 true false
mirroring_add 5 7
mirroring_get 5
mirroring_delete 5
mirroring_get 5
counter_write TheIngress.seen 3 10 100
counter_read TheIngress.seen 3
counter_read seen 99
counter_write hits 0 5 6
counter_read hits 0
register_write cells 2 77
register_read cells 2
register_read cells
register_write cells 99 1
table_add lpm_table send 10.0.0.0 => 2
table_delete exact_table 0
table_set_timeout exact_table 1 100
table_clear exact_table
table_num_entries exact_table
"""


@pytest.fixture
def bmv2_port(tmp_path: Path) -> Iterator[int]:
    found = [shutil.which(name) for name in ("simple_switch", "simple_switch_CLI")]
    probe = ["python3", "-c", "import thrift"]
    if None in found or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("BMv2, its command line or Python's thrift is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    program = str(compiled(EVERY_ENTITY).json)
    command = ["simple_switch", "--thrift-port", str(port), program]
    switch = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < end
                assert switch.poll() is None
                time.sleep(0.05)
        yield port
    finally:
        switch.kill()
        switch.wait()


def test_commands_are_answered_as_bmv2_answers_them(bmv2_port: int) -> None:
    told = subprocess.run(
        ["python3", str(shutil.which("simple_switch_CLI")), "--thrift-port", str(bmv2_port)],
        input=COMMANDS, text=True, check=True, stdout=subprocess.PIPE, timeout=120,
    ).stdout  # fmt: skip
    theirs = told.partition("RuntimeCmd: ")[2].rstrip("\n")
    ours: list[str] = []
    run_commands(
        COMMANDS,
        local_session(EVERY_ENTITY),
        say=lambda line: ours.append(f"{line}\n"),
        begin=lambda: ours.append("RuntimeCmd: "),
        fail=lambda failure: ours.append(f"{failure.error}\n"),
    )
    mine = "".join(ours).partition("RuntimeCmd: ")[2] + "RuntimeCmd: "
    compared = zip(mine.splitlines(), theirs.splitlines(), strict=True)
    differ = [(one, other) for one, other in compared if not _alike(one, other)]
    print(*differ, sep="\n", file=sys.stderr)
    assert not differ


def _alike(mine: str, theirs: str) -> bool:
    """Whether lines are alike, refusals up to what Weft adds to them."""
    words = theirs.rpartition("RuntimeCmd: ")[2]
    refused = words.startswith(("Invalid ", "Error: "))
    begins = mine.startswith(theirs.partition(", use")[0].partition(" exact_table does")[0])
    return mine == theirs or (refused and begins)
