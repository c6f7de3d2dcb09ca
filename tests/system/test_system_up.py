"""``weft up``, ``weft shell`` and ``weft load`` as a user at two terminals has them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP
from scapy.layers.l2 import ARP
from scapy.utils import rdpcap
from tests.support.emulated_support import is_alive
from tests.support.system_support import (
    ENVIRONMENT,
    WEFT,
    left_as_it_was,
    runs_of,
    wait_until,
    weft,
)
from tests.support.wire import WIRE

from weft.controller.client import LoadableProgram, Session
from weft.switch.compiler import compile_cached
from weft.topo.fabric_program import fabric_program
from weft.topo.worlds.emulated.runs import RUNS, Process, read_record

pytestmark = [
    pytest.mark.system(alone=False),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

SMALL = ("--topology", "single", "--hosts-per-leaf", "2")

HUB = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst_addr; bit<48> src_addr; bit<16> ether_type; }
struct headers_t { ethernet_t ethernet; }
struct meta_t { }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.ethernet); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(8, CounterType.packets_and_bytes) seen;
    action forward(bit<9> port, bit<48> mac) { s.egress_spec = port; h.ethernet.dst_addr = mac; }
    table by_port { key = { s.ingress_port: exact; } actions = { forward; NoAction; } }
    apply { seen.count((bit<32>)s.ingress_port); by_port.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

SHELL = """
table_entries = [entry for entry in table_entry["by_port"].read()]
print("there are", len(table_entries))
te = table_entry["by_port"](action="forward")
te.match["s.ingress_port"] = "1"
te.action["port"] = "2"
te.action["mac"] = "%s"
te.insert()
te.match["s.ingress_port"] = "2"
te.action["port"] = "1"
te.action["mac"] = "%s"
te.insert()
exit()
"""


class Prompt:
    """A testbed's prompt in a process of its own; commands are written, answers read."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*WEFT, "up", *arguments], cwd=folder, env=ENVIRONMENT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    @property
    def run(self) -> tuple[str, str]:
        """What names this testbed beside others that are up on the machine."""
        (run_id,) = runs_of(self.process.pid)
        return "--run", run_id

    def ask(self, command: str) -> str:
        """What a command prints."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(command, "py 'answer' + 'ed'", sep="\n", file=self.process.stdin, flush=True)
        text = ""
        for line in self.process.stdout:
            if line.strip() == "answered":
                return text
            text += line
        raise AssertionError(f"the prompt ended: {text}")


@contextmanager
def standing(folder: Path, *arguments: str, status: int = 0) -> Iterator[Prompt]:
    """A testbed that ends with a status: 1 if commands that are given to it fail."""
    prompt = Prompt(folder, *arguments)
    try:
        yield prompt
    finally:
        assert prompt.process.stdin is not None
        prompt.process.stdin.close()
        prompt.process.wait(300)
    assert prompt.process.returncode == status


def test_a_testbed_stays_up_and_is_worked_with(tmp_path: Path) -> None:
    (tmp_path / "commands.txt").write_text("# a comment\nfoo\n")
    shape = ("--leaves", "2", "--hosts-per-leaf", "1")
    with left_as_it_was(), standing(tmp_path, *shape, status=1) as prompt:
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")
        assert "10.0.1.0/24 -> group 1" in prompt.ask("tables leaf0 ipv4_route")
        assert "0% dropped (2/2 received)" in prompt.ask("pingall")
        assert "port_ingress[1]: " in prompt.ask("counters leaf0")
        for spine in ("spine0", "spine1"):
            said = prompt.ask(f"link leaf0 {spine} down")
            assert f"leaf0-{spine} is down; routes lead around it" in said
            assert f"leaf0-{spine} is down\n" in prompt.ask("links")
            assert "1 received" in prompt.ask("h0 ping -c 1 h1")
            assert "is up; routes lead over it again" in prompt.ask(f"link {spine} leaf0 up")
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")
        ways = prompt.ask("trace h0 h1 ping --all")
        assert "-> leaf0-spine0 to spine0" in ways and "-> leaf0-spine1 to spine1" in ways
        assert "2 ways in all\nh1 gets it in every way\n" in ways
        assert "bits/sec" in prompt.ask("iperf h0 h1")
        prompt.ask("link h1 leaf1 down")
        before = time.monotonic()
        assert "no connection to 10.0.1.1 within 5 s" in prompt.ask("iperf h0 h1")
        assert "100% dropped" in prompt.ask("pingpair")
        assert time.monotonic() - before < 60  # iperf alone tries for two minutes
        assert "h1-leaf1 is up" in prompt.ask("link h1 leaf1 up")
        for wrong, words in (
            ("link leaf0 h7 down", "no node 'h7'"),
            ("tables leaf9", "leaf0, leaf1, spine0, spine1"),
            ("tables leaf0 nothing", "the program of leaf0 has"),
            ("load nothing.p4", "nothing.p4"),
            ("dpctl show", "OpenFlow"),
            ("foo", "there is no such command"),
            ("h0", "write a command behind it"),
            ('h0 echo "half', "unexpected EOF"),
            ("h0 (", "unexpected end of file"),
            ("source nothing.txt", "No such file"),
            ("source commands.txt", "'foo': there is no such command"),
            ("trace leaf0 0", "N is 1 to"),
            ("trace leaf0 -1", "N is 1 to"),
            ("trace leaf0 1.5 h0 true", "N is 1 to"),
            ("trace leaf0 pong", "trace leaf0 pong: there is no command 'pong' (see help)"),
            ("trace h0 h1 pong", "packet 'pong': it is ping, udp"),
            ("trace h0 --all", "trace h0 --all: it is trace HOST HOST [PACKET]"),
            ("tables", "tables: it is tables SWITCH"),
        ):
            answer = prompt.ask(wrong)
            assert words in answer and "Traceback" not in answer


@pytest.mark.slow
def test_a_program_that_is_saved_while_it_is_up_runs_from_then_on(tmp_path: Path) -> None:
    sources = tmp_path / "p4"
    shutil.copytree(fabric_program().parent, sources)
    with left_as_it_was(), standing(tmp_path, "--leaves", "2", "--hosts-per-leaf", "1") as prompt:
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")  # it is up
        # The fabric's own program, with one counter more (and fewer values in a packet, which
        # compiles faster).
        how = ("-D", "AGGREGATION_VALUES=16", *prompt.run)
        source = sources / "fabric.p4"
        text = source.read_text().replace(
            "    IngressFault() fault;", "    counter(1, CounterType.packets) all;\n"
            "    IngressFault() fault;", 1
        ).replace("    apply {\n", "    apply {\n        all.count(0);\n", 1)  # fmt: skip
        source.write_text(text)
        done = weft("load", str(source), *how, cwd=tmp_path)
        assert done.returncode == 0 and "leaf0: the program runs, with " in done.stdout, done.stderr
        assert "1 received" in prompt.ask("h0 ping -c 1 h1"), done.stdout
        assert "FabricIngress.all[0]: " in prompt.ask("counters leaf0")
        # At the prompt: entries stay, and so do routes; a program with none of them is left alone.
        source.write_text("#define AGGREGATION_VALUES 16\n" + text)
        assert "leaf0: the program runs" in prompt.ask("load p4/fabric.p4 leaf0")
        assert "routes lead around it\n" in prompt.ask("link leaf0 spine0 down")
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")
        (tmp_path / "hub.p4").write_text(HUB)
        assert "with 0 entries" in prompt.ask("load hub.p4 spine0")
        (tmp_path / "unused.p4").write_text(HUB.replace("action ", "action never() { } action ", 1))
        assert "warning: action 'never' is not used" in prompt.ask("load unused.p4 spine0")
        assert "it again (not those of spine0," in prompt.ask("link leaf0 spine0 up")
        assert "routes lead around it (not" in prompt.ask("link leaf0 spine0 down")
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")
        source.write_text(text.replace("all.count(0)", "all.count(0"))
        done = weft("load", str(source), *how, "--switch", "leaf0", cwd=tmp_path)
        assert done.returncode == 2 and "fabric.p4" in done.stderr and "^" in done.stderr
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")


def test_p4runtime_shell_programs_a_switch_of_a_testbed(tmp_path: Path) -> None:
    (tmp_path / "hub.p4").write_text(HUB)
    arguments = ("--topology", "single", "--hosts-per-leaf", "2", "--program", "hub.p4")
    with left_as_it_was(), standing(tmp_path, *arguments, status=1) as prompt:
        assert "the program runs" in prompt.ask("load hub.p4")
        for one, other in (0, 1), (1, 0):  # what is counted below is no ARP
            prompt.ask(
                f"h{one} ip neighbour replace 10.0.0.{other + 1} lladdr "
                f"02:00:0a:00:00:0{other + 1} dev h{one}-eth0 nud permanent"
            )
        assert prompt.ask("h0 ping -c 1 -W 1 h1").count("100% packet loss") == 1
        assert len(runs_of(prompt.process.pid)) == 1
        assert (RUNS / runs_of(prompt.process.pid)[0] / "testbed.json").is_file()
        (name,) = (word for word in prompt.ask("nodes").split() if word.startswith(("leaf", "s")))
        address = "/sys/class/net/{0}-eth0/address"
        told = [prompt.ask(f"{host} cat {address.format(host)}") for host in ("h1", "h0")]
        macs = [re.search("(..:){5}..", text) for text in told]
        lines = SHELL % tuple(mac.group() for mac in macs if mac)
        done = subprocess.run(
            [*WEFT, "shell", name, *prompt.run], cwd=tmp_path, env=ENVIRONMENT, input=lines,
            text=True, capture_output=True, timeout=600, check=False,
        )  # fmt: skip
        assert "there are 0" in done.stdout, done.stderr
        assert "1 received" in prompt.ask("h0 ping -c 1 h1"), done.stdout + done.stderr
        entries = prompt.ask(f"tables {name}")
        assert "s.ingress_port=1 -> I.forward(port=2" in entries
        assert "I.seen[1]: 2 packets" in prompt.ask(f"counters {name}")


def test_a_node_whose_name_begins_like_a_command_is_a_node(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(
        'hosts = ["sh.a", "py.b"]\nswitches = ["s"]\n'
        '[[links]]\nends = ["sh.a", "s"]\n[[links]]\nends = ["py.b", "s"]\n'
    )
    own = f"{os.readlink('/proc/self/ns/net')}"
    with standing(tmp_path, "--topology", "lab.toml") as prompt:
        said = prompt.ask("sh.a readlink /proc/self/ns/net")
        assert "net:[" in said
        assert own not in said
        assert own in prompt.ask("sh readlink /proc/self/ns/net")
        assert "1 received" in prompt.ask("py.b ping -c 1 -W 60 sh.a")


def test_hosts_of_a_switch_with_a_program_of_its_own_are_ordinary_and_captures_are_whole(
    tmp_path: Path,
) -> None:
    (tmp_path / "wire.p4").write_text(WIRE)
    (tmp_path / "commands").write_text("h0 ping -c 1 h1\nh0 ip route\nh0 ip neighbour\n")
    arguments = ("--topology", "single", "--hosts-per-leaf", "2", "--program", "wire.p4")
    with left_as_it_was():
        done = weft("up", *arguments, "--pcap", "c", "--script", "commands", cwd=tmp_path)
    assert done.returncode == 0 and "1 received" in done.stdout, done.stderr
    assert re.search(r"^10\.0\.0\.0/24 dev h0-eth0 ", done.stdout, re.M)
    assert "10.0.0.2 dev h0-eth0 lladdr 02:00:0a:00:00:02" in done.stdout
    assert "default" not in done.stdout and "PERMANENT" not in done.stdout
    assert "fabric" not in done.stdout + done.stderr
    assert f"Captures: {tmp_path / 'c'}" in done.stdout
    for end in ("h0-leaf0", "leaf0-h0", "leaf0-h1", "h1-leaf0"):
        packets = rdpcap(str(tmp_path / "c" / f"{end}.pcap"))
        echoes = [packet[ICMP].type for packet in packets if ICMP in packet]
        asked = [packet[ARP].op for packet in packets if ARP in packet]
        assert echoes == [8, 0] and asked[:2] == [1, 2], end


def test_a_priority_without_a_queue_is_said_at_the_prompt_and_served_with_one(
    tmp_path: Path,
) -> None:
    text = WIRE.replace("apply { if", "apply { s.priority = 3; if")
    assert text != WIRE
    (tmp_path / "wire.p4").write_text(text)
    (tmp_path / "commands").write_text("h0 ping -c 1 -W 60 h1\nswitches\n")
    arguments = (*SMALL, "--program", "wire.p4", "--script", "commands")
    with left_as_it_was():
        dropped = weft("up", *arguments, cwd=tmp_path)
        assert dropped.returncode == 1
        assert (
            "leaf0 drops packets of priority 3: a port has one queue, of priority 0 "
            "(--priority-queues 4)"
        ) in dropped.stdout
        served = weft("up", *arguments, "--priority-queues", "4", cwd=tmp_path)
    assert served.returncode == 0 and "1 received" in served.stdout, served.stderr
    assert "drops packets" not in served.stdout


@pytest.mark.system  # its port is to be free still when the switch takes it
def test_a_controller_of_ones_own_owns_the_switches_and_load_works_after_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "wire.p4").write_text(WIRE)
    program = LoadableProgram.read(compile_cached(tmp_path / "wire.p4"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--no-controller", "--grpc-port", str(port))
    with left_as_it_was(), standing(tmp_path, *SMALL, *options, status=1) as prompt:
        said = prompt.ask("switches")
        assert "No controller: leaf0 runs no program yet. Tables are empty" in said
        assert "fabric" not in said
        assert re.search(rf"leaf0: device 1, unix:/\S+/leaf0.sock, 127.0.0.1:{port}\n", said)
        mine = Session("leaf0", 1, f"127.0.0.1:{port}", election_id=(0, 1))  # the tutorials' id
        with closing(mine):
            mine.connect()
            mine.push_program(program)
            assert "1 received" in prompt.ask("h0 ping -c 1 h1")
            refused = prompt.ask("load wire.p4")
            assert "another controller, with election id 1, owns the switch; end that" in refused
            mine.push_program(program)  # it owns it still
        assert "leaf0: the program runs" in prompt.ask("load wire.p4")
        assert "there is no controller" in prompt.ask("link h0 leaf0 down")
        again = Session("leaf0", 1, f"127.0.0.1:{port}", election_id=(0, 1))
        with closing(again):
            again.connect()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_what_is_not_up_is_said(tmp_path: Path) -> None:
    done = weft("shell", "leaf0", "--run", "0", cwd=tmp_path)
    assert done.returncode == 2 and "run '0'" in done.stderr and "Traceback" not in done.stderr
    done = weft("up", "--program", "nothing.p4", cwd=tmp_path)
    assert done.returncode == 2 and "nothing.p4" in done.stderr
    done = weft("up", "--script", "nothing.txt", cwd=tmp_path)
    assert done.returncode == 2 and "nothing.txt" in done.stderr


@pytest.mark.system  # what it leaves is to be cleaned up by itself
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_hides_whose_it_is_ends_with_the_testbed(
    end: signal.Signals, tmp_path: Path
) -> None:
    seconds = str(10_000_000 + 10 * os.getpid() + end)
    prompt = Prompt(tmp_path, "--topology", "single", "--hosts-per-leaf", "2")
    try:
        for node in ("h0", "leaf0"):
            prompt.ask(f"{node} env -i setsid -f sleep {seconds}")
        assert f"sleep {seconds}" in prompt.ask("h1 ps ax")
        hidden = _running("sleep", seconds)
        assert len(hidden) == 2
        (run_id,) = runs_of(prompt.process.pid)
    finally:
        prompt.process.send_signal(end)
        prompt.process.communicate(timeout=300)
    wait_until(lambda: not any(map(is_alive, hidden)), "the kernel kills what is in the namespace")
    if end == signal.SIGKILL:
        assert f"removed run {run_id}: " in weft("clean", cwd=tmp_path).stdout
    assert not (RUNS / run_id).exists()


def _running(*command: str) -> list[int]:
    """The processes of a command, whoever started them."""
    wanted = b"".join(word.encode() + b"\0" for word in command)
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == wanted:
                found.append(int(file.parent.name))
    return found


def test_ctrl_c_ends_a_command_and_sigterm_the_testbed(tmp_path: Path) -> None:
    with left_as_it_was():
        prompt = Prompt(tmp_path, "--topology", "single", "--hosts-per-leaf", "2")
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")
        assert prompt.process.stdin is not None and prompt.process.stdout is not None
        print("h0 ping -i 0.2 h1", file=prompt.process.stdin, flush=True)
        while "icmp_seq=2" not in prompt.process.stdout.readline():
            continue
        prompt.process.send_signal(signal.SIGINT)
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")
        prompt.process.terminate()
        prompt.process.communicate(timeout=300)
        assert prompt.process.returncode == 128 + signal.SIGTERM


SWITCHES = r"the switch process \(pid {}\) was killed by signal 9 \(SIGKILL\)"
H1 = r"the shell that holds the namespace of h1 \(pid {}\) was killed by signal 9 \(SIGKILL\)"
KILLED = pytest.mark.parametrize(
    ("what", "message"), [("the switch process", SWITCHES), ("shell of h1", H1)]
)


def process_of(prompt: Prompt, what: str) -> Process:
    """A process of the testbed's, by what it is on record as."""
    (run_id,) = runs_of(prompt.process.pid)
    _, processes = read_record(RUNS / run_id)
    (found,) = (process for process in processes if process.what == what)
    return found


def ends_with_one_error(prompt: Prompt, message: str) -> None:
    """Without anything more that is typed."""
    assert prompt.process.stdout is not None
    said = prompt.process.stdout.read()
    assert prompt.process.wait(300) == 1
    (line,) = (line for line in said.splitlines() if line.startswith("weft: "))
    assert re.match(f"weft: {message}", line), said
    assert "Traceback" not in said


@KILLED
def test_a_prompt_that_waits_notices_that_a_process_of_its_network_has_ended(
    what: str, message: str, tmp_path: Path
) -> None:
    with left_as_it_was():
        prompt = Prompt(tmp_path, *SMALL)
        assert "1 received" in prompt.ask("h0 ping -c 1 h1")
        killed = process_of(prompt, what)
        os.kill(killed.pid, signal.SIGKILL)
        ends_with_one_error(prompt, message.format(killed.pid))


@KILLED
def test_a_command_that_has_no_end_ends_when_a_process_of_its_network_has(
    what: str, message: str, tmp_path: Path
) -> None:
    with left_as_it_was():
        prompt = Prompt(tmp_path, *SMALL)
        assert prompt.process.stdin is not None and prompt.process.stdout is not None
        print("h0 ping -i 0.2 h1", file=prompt.process.stdin, flush=True)
        while "icmp_seq=2" not in prompt.process.stdout.readline():
            continue
        killed = process_of(prompt, what)
        os.kill(killed.pid, signal.SIGKILL)
        ends_with_one_error(prompt, message.format(killed.pid))


def test_a_script_goes_no_further_once_a_process_of_its_network_has_ended(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("h1 exit\npy 'source ' + 'went on'\n")
    (tmp_path / "commands.txt").write_text("source more.txt\npy 'script ' + 'went on'\n")
    with left_as_it_was():
        done = weft("up", *SMALL, "--script", "commands.txt", cwd=tmp_path)
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("weft: "))
    assert re.match(
        r"weft: the shell that holds the namespace of h1 \(pid \d+\) ended with status 0", line
    )
    assert "went on" not in done.stdout and "Traceback" not in done.stderr


FAILING = (
    ("h0 false", "h0 false: status 1"),
    ("h0 sh -c 'exit 7'", "h0 sh -c 'exit 7': status 7"),
    ("h0 kill -9 $$x 2>&1", "status 1"),
    ("foo", "'foo': there is no such command"),
    ("h0 (", "syntax error"),
    ("py 1 / 0", "py 1 / 0: division by zero"),
    ("px raise ValueError('why')", "why"),
    ("sh exit 3", "sh exit 3: ended with status 3"),
    ("time h1 false", "time h1 false: status 1"),
    ("noecho h1 false", "noecho h1 false: status 1"),
    ("tables leaf9", "leaf9"),
    ("xterm h9", "xterm h9: node 'h9' not in network"),
    ("terminal h9", "terminal h9: node 'h9' not in network"),
    ("x h0 xclock", "x h0 xclock: there is no display for a window (DISPLAY is not set)"),
    ("source nothing.txt", "No such file"),
    ("link h0 leaf0 up down", "link ONE OTHER up|down"),
)
GOING = (
    "", "# a comment", "h0 true", "h0 false || true", "h0 sleep 60 &", "py 0", "px one = 1",
    "sh true", "pingall", "time h1 true", "nodes", "net", "links", "help", "tables leaf0",
    "source good.txt",
)  # fmt: skip


def test_the_status_tells_whether_a_command_of_a_script_has_failed(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("h0 true\n")
    (tmp_path / "bad.txt").write_text("h0 true\nh0 false\n")
    lines = [line for line, _ in FAILING]
    (tmp_path / "all.txt").write_text(
        "\n".join(
            [*GOING, *lines, "source bad.txt", "link h0 leaf0 down", "pingpair", "py 'e' + 'nd'"]
        )
    )
    (tmp_path / "right.txt").write_text("\n".join(GOING))
    with left_as_it_was():
        done = weft("up", *SMALL, "--script", "all.txt", cwd=tmp_path)
        right = weft("up", *SMALL, "--script", "right.txt", cwd=tmp_path)
    assert (right.returncode, right.stderr.count("weft: ")) == (0, 0), right.stderr
    assert done.returncode == 1
    assert "\nend\n" in done.stdout  # a command that fails is not the last
    assert "Traceback" not in done.stdout + done.stderr
    head, *told = done.stderr[done.stderr.index("weft: ") :].splitlines()
    assert head == f"weft: {len(FAILING) + 2} commands failed:"
    for number, (line, (_, words)) in enumerate(zip(told, FAILING, strict=False), len(GOING) + 1):
        assert line.startswith(f"  all.txt:{number}: ") and words in line
    assert told[len(FAILING) :] == [
        "  bad.txt:2: h0 false: status 1",
        f"  all.txt:{len(GOING) + len(FAILING) + 3}: pingpair: 100 % of the pings were lost",
    ]


def test_the_status_tells_of_commands_of_a_pipe_too(tmp_path: Path) -> None:
    with left_as_it_was():
        prompt = Prompt(tmp_path, *SMALL)
        said, _ = prompt.process.communicate("h0 true\nh0 false\nexit\n", timeout=300)
    assert prompt.process.returncode == 1
    assert "1 command failed:\n  standard input:2: h0 false: status 1\n" in said


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prompt]:
    """A network of a plain switch, at whose hosts commands are run from another terminal."""
    with left_as_it_was():
        prompt = Prompt(tmp_path_factory.mktemp("elsewhere"), *SMALL)
        prompt.ask("nodes")  # it is up
        yield prompt
        prompt.process.communicate("exit\n", timeout=300)


def executed(prompt: Prompt, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """What ``weft exec`` comes to on a testbed."""
    return subprocess.run(
        [*WEFT, "exec", *prompt.run, *words],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False, input=input,
    )  # fmt: skip


def test_a_command_at_a_host_has_the_callers_streams_and_gives_its_status(
    elsewhere: Prompt,
) -> None:
    done = executed(elsewhere, "h0", "sh", "-c", "cat; echo two >&2; exit 7", input="one\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "one\n", "two\n")
    assert executed(elsewhere, "h0", "sh", "-c", "kill -KILL $$").returncode == 128 + 9
    assert executed(elsewhere, "h0", "--", "echo", "--").stdout == "--\n"
    assert "write a COMMAND behind the host" in executed(elsewhere, "h0", "--").stderr
    assert executed(elsewhere, "h0", "no-such-command").returncode == 127
    unknown = executed(elsewhere, "h9", "true")
    assert unknown.returncode == 2
    assert re.search("weft: node 'h9': testbed .* has h0, h1 and leaf0", unknown.stderr)


def test_hosts_know_one_another_by_name(elsewhere: Prompt) -> None:
    before = Path("/etc/hosts").read_text()
    assert executed(elsewhere, "h0", "getent", "hosts", "h1").stdout.split() == ["10.0.0.2", "h1"]
    assert executed(elsewhere, "h0", "ping", "-c", "1", "-W", "60", "h1").returncode == 0
    assert "10.0.0.2" in elsewhere.ask("h0 getent ahosts 'h1'")
    assert Path("/etc/hosts").read_text() == before


def round_trip_ms(prompt: Prompt) -> float:
    """The least of some round trips between the hosts, in ms: others wait for processors, too."""
    done = executed(prompt, "h0", "ping", "-c", "9", "-i", "0.1", "-W", "60", "h1")
    times = [float(time) for time in re.findall(r"time=([\d.]+) ms", done.stdout)]
    assert len(times) == 9
    return min(times)


@pytest.mark.system  # it measures round trips
def test_links_go_on_with_another_delay_and_loss(elsewhere: Prompt) -> None:
    before = round_trip_ms(elsewhere)
    said = elsewhere.ask("link h0 leaf0 delay=200ms jitter=1ms")
    assert "h0-leaf0: delay 200 ms, jitter 1 ms, rate 100 Mbit/s" in said
    assert round_trip_ms(elsewhere) - before == pytest.approx(400, rel=0.05)
    elsewhere.ask("link h0 leaf0 delay=0 jitter=0 loss=100%")
    lost = executed(elsewhere, "h0", "ping", "-c", "2", "-i", "0.1", "-W", "1", "h1")
    assert "100% packet loss" in lost.stdout
    assert "h0-leaf0 is up; loss 100 %, rate 100 Mbit/s" in elsewhere.ask("links")
    assert re.search(r"h0>leaf0: .*, \d+ packets lost", elsewhere.ask("loads"))
    elsewhere.ask("link h0 leaf0 loss=0")
    assert round_trip_ms(elsewhere) < 200
    refused = elsewhere.ask("link h0 leaf0 delay=fast")
    assert "link h0-leaf0: delay 'fast' is not understood" in refused


def test_what_links_carry_is_shown_in_another_terminal(elsewhere: Prompt, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*WEFT, "exec", *elsewhere.run, "h0", "ping", "-i", "0.01", "h1"],
        env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
    ) as pinging:  # fmt: skip
        assert pinging.stdout is not None
        while "time=" not in pinging.stdout.readline():
            assert pinging.poll() is None
        shown = weft("top", *elsewhere.run, "--json", "--interval", "2", cwd=tmp_path)
        table = weft("top", *elsewhere.run, "--interval", "0.1", cwd=tmp_path)  # no terminal
        pinging.terminate()
    directions = {each["link"]: each for each in json.loads(shown.stdout)}
    assert [*directions] == ["h0>leaf0", "leaf0>h0", "h1>leaf0", "leaf0>h1"]
    for each in directions.values():
        assert each["packets_per_s"] > 0
        assert each["bits_per_s"] == pytest.approx(each["load"] * 100e6, abs=10_000)
    assert table.returncode == 0 and "leaf0>h1" in table.stdout
    for arguments, words in (
        (("--sort", "x"), "--sort 'x': it is link, load, queue or drops"),
        (("--interval", "0"), "--interval 0: it is 0.1 to 3600 s"),
    ):
        refused = weft("top", *arguments, cwd=tmp_path)
        assert (refused.returncode, refused.stderr) == (2, f"weft: {words}\n")


def test_a_signal_goes_to_the_command_at_a_host(elsewhere: Prompt) -> None:
    trap = "trap 'echo trapped; exit 5' INT; echo ready; while :; do read -r line; done"
    with subprocess.Popen(
        [*WEFT, "exec", *elsewhere.run, "h1", "bash", "-c", trap],
        env=ENVIRONMENT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "trapped\n"
        assert process.wait(300) == 5


def test_a_terminals_prompt_notices_it_too(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with left_as_it_was(), os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [*WEFT, "up", *SMALL], cwd=tmp_path, env=ENVIRONMENT, start_new_session=True,
            stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        said = b""
        while b"weft> " not in said:
            said += terminal.read(4096)
        (run_id,) = runs_of(process.pid)
        _, processes = read_record(RUNS / run_id)
        (killed,) = (each for each in processes if each.what == "the switch process")
        os.kill(killed.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):  # that a terminal gives when nobody has it open
            while part := terminal.read(4096):
                said += part
        assert process.wait(300) == 1
    assert re.search(f"weft: {SWITCHES.format(killed.pid)}", said.decode())
