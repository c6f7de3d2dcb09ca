"""``weft ptf``: p4lang's Packet Test Framework against one switch, in a network namespace of their
own, of which nothing stays."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.base.children import DIE_WITH_PARENT, last_words, run_tool
from weft.base.command_line import macros
from weft.base.errors import InputError, MachineError, RunError
from weft.base.libc import CLONE_NEWNET, check_call, libc
from weft.switch.commands.switch_group import SwitchGroup, end
from weft.switch.commands.switch_options import check_program
from weft.switch.compiler import compile_cached

ADDRESS = "127.0.0.1:9559"
SWITCH = "ptf"
MOST_PORTS = 256
MTU = 9500
TEST_PARAMS = ("--test-params", "-t")


def run_tests(
    program: Path,
    tests: Path,
    given: Sequence[str],
    *,
    ports: int,
    cpu_port: int | None,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
) -> int:
    """Run PTF's tests of a folder against a program on the built-in switch; return its status.

    Port n of the switch is veth2n, and PTF's is veth2n+1, as in p4lang's scripts. ``given`` are
    options of PTF's. Raises `WeftError`.
    """
    check_program(program)
    if not tests.is_dir():
        raise InputError(f"{str(tests)!r}: there is no such folder of PTF tests")
    if not 1 <= ports <= MOST_PORTS:
        raise InputError(f"--ports {ports}: 1 to {MOST_PORTS}")
    command = find_ptf()
    config, p4info = _compiled(program, include_dirs, defines)
    _enter_namespace()
    _make_links(ports)
    with tempfile.TemporaryDirectory(prefix="weft-ptf-") as folder:
        options = ["--console-file", f"{folder}/switch.log", "--grpc-server-addr", ADDRESS]
        for port in range(ports):
            options += ["-i", f"{port}@veth{2 * port}"]
        if cpu_port is not None:
            options += ["--cpu-port", str(cpu_port)]
        options += [f"-I{each}" for each in include_dirs]
        options += [f"-D{macro}" for macro in defines]
        group = SwitchGroup({SWITCH: [*options, str(program)]}, None)
        try:
            group.wait_until_ready()
            params = f"grpcaddr='{ADDRESS}';p4info='{p4info}';config='{config}'"
            own, others = _test_params(given)
            for port in range(ports):
                command += ["-i", f"{port}@veth{2 * port + 1}"]
            command += ["--test-dir", str(tests), "--log-dir", folder]
            return _run([*command, f"{TEST_PARAMS[0]}={';'.join([params, *own])}", *others])
        finally:
            group.stop(SWITCH)


def find_ptf() -> list[str]:
    """Return the command that is PTF: beside this Python, or on PATH. Raises MachineError.

    The one beside this Python gets P4Runtime's messages as Weft has them, since the package
    p4runtime does not import under Weft's protobuf.
    """
    beside = Path(sys.executable).with_name("ptf")
    if beside.is_file():
        return [sys.executable, "-m", "weft.compat.p4runtime", str(beside)]
    found = shutil.which("ptf")
    if found is None:
        raise MachineError(
            "PTF is not installed: there is no program ptf on PATH. Install it, in an environment "
            "of its own or in that of Weft, with 'pip install ptf'"
        )
    return [found]


def _compiled(
    program: Path, include_dirs: Sequence[Path], defines: Sequence[str]
) -> tuple[Path, Path]:
    """Return a program's JSON and P4Info, which tests load themselves: of a .json those that are
    there."""
    if program.suffix != ".p4":
        return program, program.with_name(f"{program.stem}.p4info.txtpb")
    made = compile_cached(program, include_dirs=include_dirs, defines=macros(defines))
    return made.json, made.p4info


def _test_params(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the test parameters among PTF's options, which it takes once, and the other ones."""
    own, others = [], []
    words = iter(given)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in TEST_PARAMS:
            others.append(word)
        elif equals or (value := next(words, "")):
            own.append(value)
    return own, others


def _enter_namespace() -> None:
    """Leave the network namespace of the machine for a new one."""
    try:
        check_call(libc.unshare(CLONE_NEWNET))
    except PermissionError:
        raise MachineError("a network namespace of its own needs root: use sudo") from None


def _make_links(ports: int) -> None:
    """Make the pairs of interfaces, which send nothing by themselves."""
    lines = ["link set dev lo up"]
    for port in range(ports):
        near, far = f"veth{2 * port}", f"veth{2 * port + 1}"
        lines.append(f"link add name {near} mtu {MTU} type veth peer name {far} mtu {MTU}")
        lines += [f"link set dev {name} addrgenmode none up" for name in (near, far)]
    done = run_tool(["ip", "-batch", "-"], input="\n".join(lines))
    if done.returncode != 0:
        raise RunError(f"interfaces cannot be made: {last_words(done)}")


def _run(command: Sequence[str]) -> int:
    """Run PTF to its end, and return its status; whatever ends this ends it, too."""
    environment = dict(os.environ)
    environment.pop("PYTHONSAFEPATH", None)  # the modules beside tests are their own
    with subprocess.Popen([*DIE_WITH_PARENT, *command], env=environment) as ptf:
        try:
            return ptf.wait()
        except BaseException:
            ptf.terminate()
            end(ptf)
            raise
