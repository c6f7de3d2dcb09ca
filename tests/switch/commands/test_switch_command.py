"""``weft switch``: simple_switch_grpc's command lines, and the whole in a namespace of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.realtime_support import ROOT, needs_namespaces

import weft
from weft.base.errors import InputError, MachineError, WeftError
from weft.switch.commands.switch import run_switch
from weft.switch.commands.switch_options import (
    SwitchOptions,
    TlsFiles,
    parse_options,
    parse_switches,
)
from weft.switch.compiler import compile_cached

PROGRAM = ROOT / "tests" / "stf" / "basic.p4"


def options(line: str) -> SwitchOptions:
    return parse_options(shlex.split(line))


def test_a_command_line_of_bmv2_means_what_it_means_there(tmp_path: Path) -> None:
    program = tmp_path / "prog.json"
    program.touch()
    found = options(
        f"-i 1@s1-eth1 --interface 2@s1-eth2 --pcap {tmp_path} --nanolog ipc:///tmp/x.ipc "
        f"--device-id 3 {program} --log-console --thrift-port 9091 -L debug -- "
        "--grpc-server-addr 0.0.0.0:50053 --cpu-port 255"
    )
    assert found.interfaces == ((1, "s1-eth1"), (2, "s1-eth2"))
    assert (found.device_id, found.address) == (3, "0.0.0.0:50053")
    assert (found.cpu_port, found.drop_port) == (255, 511)
    assert (found.pcap, found.program) == (tmp_path, program)
    assert (found.log_console, found.log_level) == (True, "debug")
    assert [note.split()[0] for note in found.notes] == ["--thrift-port", "--nanolog"]


def test_what_is_not_given_is_as_little_as_possible() -> None:
    found = options("--no-p4")
    assert (found.device_id, found.address, found.program) == (0, "127.0.0.1:9559", None)
    assert (found.cpu_port, found.pcap, found.log_file) == (None, None, None)
    assert found.queue(1) == {}


def test_all_options_that_scripts_give_bmv2_are_known(tmp_path: Path) -> None:
    """Those that the P4 tutorials, ONOS, p4-utils or PTF tests give simple_switch_grpc 1.15.5."""
    program = tmp_path / "bmv2-program"
    program.touch()
    found = options(
        f"{program} --log-file x --log-file-max-size 9 --log-file-max-files 2 --log-flush "
        "--max-port-count 600 --notifications-addr ipc:///tmp/n --dump-packet-data 64 --debugger "
        "--debugger-addr ipc:///tmp/d -- --enable-swap --grpc-server-ssl "
        "--grpc-server-cert c.pem --grpc-server-key k.pem --grpc-server-cacert ca.pem "
        "--grpc-server-with-client-auth"
    )
    assert (found.program, found.log_file_bytes, found.log_files) == (program, 9, 2)
    assert found.tls == TlsFiles(Path("c.pem"), Path("k.pem"), Path("ca.pem"), True)
    assert [note.split()[0] for note in found.notes] == [
        "--notifications-addr", "--dump-packet-data", "--debugger", "--debugger-addr",
        "--max-port-count",
    ]  # fmt: skip
    assert all(" does nothing: " in note for note in found.notes)
    assert options("--no-p4").tls is None


@pytest.mark.parametrize("text", ["0", "33", "-1", "x"])
def test_priority_queues_are_as_many_as_bmv2_can_have(text: str) -> None:
    assert options("--no-p4 -- --priority-queues 8").priority_queues == 8
    assert options("--no-p4").priority_queues == 1
    with pytest.raises(InputError, match=f"--priority-queues '{text}'"):
        options(f"--no-p4 --priority-queues={text}")


@pytest.mark.parametrize("flag", ["--version", "-v", "--json-version"])
def test_versions_are_told(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options(flag)
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith("2.24" if "json" in flag else f"weft {weft.__version__}\n")


def test_queues_are_of_one_port_or_of_all() -> None:
    found = options("--no-p4 -i 1@a -i 2@b --queue rate=1Mbit --queue 2:delay=5ms,bytes=3KiB")
    assert found.queue(1) == {"rate_bps": 1_000_000}
    assert found.queue(2) == {"delay_ns": 5_000_000, "queue_bytes": 3072}


def test_pcap_may_stand_alone(tmp_path: Path) -> None:
    program = tmp_path / "prog.json"
    program.touch()
    assert options(f"--pcap {program}").pcap == Path()
    assert options(f"--pcap=/tmp {program}").pcap == Path("/tmp")
    assert options("--no-p4 --pcap").pcap == Path()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "name a program, PROGRAM.p4 or PROGRAM.json, or say --no-p4"),
        ("a.json b.json", "one program, not 2: a.json, b.json"),
        ("nowhere.json", "'nowhere.json': there is no such file"),
        ("prog.txt", "'prog.txt': there is no such file"),
        ("--no-p4 --frob", "unrecognized arguments: --frob"),
        ("--no-p4 -i veth1", "write PORT@IFACE, like 1@veth1"),
        ("--no-p4 -i 511@veth1", "write a whole number, 0 to 510"),
        ("--no-p4 -i 1@a -i 1@b", "port 1 is given twice: 1@a, 1@b"),
        ("--no-p4 -i 1@a -i 2@a", "interface a is given twice: 1@a, 2@a"),
        ("--no-p4 -i 9@a --cpu-port 9", "the CPU port leads to the controller alone"),
        ("--no-p4 --device-id x", "--device-id 'x': write a whole number"),
        ("--no-p4 --grpc-server-addr 50051", "write HOST:PORT"),
        ("--no-p4 --queue 4:rate=1", "there is no port 4; ports are: none"),
        ("--no-p4 --queue rat=1", "'rat=1' is none of rate=10Mbit"),
        ("--no-p4 --queue rate=fast", "rate 'fast' is not understood"),
        ("--no-p4 --queue rate=1 --queue rate=2", "given twice"),
        ("--no-p4 --use-files 0", "'weft stf' tests programs without them"),
        ("--no-p4 --grpc-server-ssl", "--grpc-server-ssl needs --grpc-server-cert PEM"),
        ("--no-p4 --grpc-server-ssl --grpc-server-cert a", "needs --grpc-server-key PEM"),
        (
            "--no-p4 --grpc-server-ssl --grpc-server-cert a --grpc-server-key b "
            "--grpc-server-with-client-auth",
            "needs --grpc-server-cacert PEM",
        ),
        ("--no-p4 --grpc-server-key b", "say --grpc-server-ssl as well"),
        ("--no-p4 --grpc-server-with-client-auth", "say --grpc-server-ssl as well"),
        ("--no-p4 --dp-grpc-server-addr 0.0.0.0:50052", "not from gRPC"),
        ("--no-p4 --packet-in ipc:///tmp/x", "not from nanomsg"),
        ("--no-p4 --restore-state x", "--restore-state: a state of BMv2's cannot be restored"),
        ("--no-p4 --load-modules a.so", "--load-modules: modules of BMv2's cannot be loaded"),
        ("--no-p4 --log-file-max-size big", "--log-file-max-size 'big': write a whole number"),
        ("--no-p4 -L loud", "invalid choice: 'loud'"),
    ],
)
def test_a_wrong_command_line_is_refused(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        options(line)
    assert message in str(caught.value)


def test_several_switches_have_options_of_their_own_and_some_for_all() -> None:
    line = (
        "--log-console -L info --cpu-port 255 --switch s1 -i 1@a -i 2@b --no-p4 "
        "-- --grpc-server-addr 127.0.0.1:50051 --switch=s2 -i 1@c --no-p4 --device-id 2 -L off "
        "--grpc-server-addr unix:/tmp/s2.sock"
    )
    first, second = parse_switches(line.split())
    assert (first.name, first.interfaces, first.device_id) == ("s1", ((1, "a"), (2, "b")), 0)
    assert (second.name, second.interfaces, second.device_id) == ("s2", ((1, "c"),), 2)
    assert (first.log_level, second.log_level) == ("info", "off")
    assert first.cpu_port == second.cpu_port == 255
    (alone,) = parse_switches(["--no-p4", "--device-id", "7"])
    assert alone.name == "switch 7"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--switch s1 --switch s2 --no-p4", "--switch s1: name a program"),
        ("--switch s1 -i 1@a -i 1@b", "--switch s1: port 1 is given twice"),
        (
            "--no-p4 --switch s1 --switch s2",
            "--switch s2: --grpc-server-addr 127.0.0.1:9559 is that of switch s1; each has its own",
        ),
        (
            "--no-p4 --switch s1 --switch s1 --grpc-server-addr unix:/a",
            "--switch s1: the name s1 is that of switch s1; each has its own",
        ),
        (
            "--no-p4 --switch s1 --switch s2 --grpc-server-addr unix:/a --priority-queues 2",
            "--priority-queues is the same for all switches of a process: say it before the first",
        ),
        ("--no-p4 --switch=", "a switch has a name, like s1"),
    ],
)
def test_what_switches_may_not_share_is_refused(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_switches(line.split())
    assert message in str(caught.value)


def test_a_missing_interface_is_named_with_those_that_there_are() -> None:
    with pytest.raises(MachineError, match=r"port 7: there is no interface 'nosuch0' .* lo"):
        run_switch(["--no-p4", "-i", "7@nosuch0"])


@given(
    st.lists(
        st.sampled_from(["--no-p4", "-i", "1@a", "--pcap", "--queue", "--", "-L", "--device-id"])
        | st.text(max_size=6),
        max_size=6,
    )
)
def test_any_command_line_is_read_or_refused(arguments: list[str]) -> None:
    if not {"-h", "--help", "-v", "--version", "--json-version"} & set(arguments):
        try:
            parse_options(["--no-p4", *arguments])
        except WeftError as error:
            assert str(error)


@pytest.mark.slow
@needs_namespaces
def test_a_script_that_starts_bmv2_can_start_weft_switch(tmp_path: Path) -> None:
    files = compile_cached(PROGRAM)
    answer = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "tests.support.switch_namespace",
         str(files.json), str(files.p4info), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout.splitlines()[-1])
    assert seen["said"][:4] == [
        "P4Runtime: device 0 on 127.0.0.1:50051",
        "port 1: s1",
        "port 2: s2",
        "port 3: s3, 10 Mbit/s, delay 2 ms, queue of 8 packets",
    ]
    assert seen["said"][4].startswith(f"program: {files.json}, loaded in ")
    assert [frame[:12] for frame in seen["frames"]] == ["080000000222"]
    length = len(seen["frames"][0]) // 2
    assert seen["captures"] == {
        f"s{port}_{way}.pcap": 24 + (16 + length) * ((port, way) in ((1, "in"), (2, "out")))
        for port in (1, 2, 3)
        for way in ("in", "out")
    }
    traced = {event["event"]: event for event in seen["trace"] if event["packet"] == 1}
    assert traced["received"]["port"] == 1
    assert traced["action"]["arguments"] == {"dst_addr": "0x80000000222", "port": "0x2"}
    assert (traced["sent"]["port"], traced["sent"]["bytes"]) == (2, length)
    assert seen["occupied"][0] == 2
    assert "cannot listen on 127.0.0.1:50051" in seen["occupied"][1]
    assert "already in use" in seen["occupied"][1]
    assert seen["ended"] == [0, "ended\n"]
    assert "--thrift-port does nothing" in seen["errors"]
