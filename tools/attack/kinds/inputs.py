"""Mutated and endless files, and command lines that make little sense."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from tests.support.p4runtime_mutations import mutate_json
from tests.support.results_samples import sample_results, summarize
from tests.support.workloads_support import FILES, encode, node, trace

from weft.base.cache import CHECKOUT
from weft.base.errors import WeftError
from weft.experiments.families.flows.file_format import FORMATS, FileReading
from weft.experiments.families.flows.formats.chakra_schema import (
    COLLECTIVE,
    COMP,
    MESSAGES,
    RECV,
    SEND,
)
from weft.experiments.report.page import render
from weft.experiments.results.results import Results
from weft.experiments.scenario.sweep import read_file
from weft.switch.commands.stf import load_program
from weft.switch.compiler import compile_program
from weft.switch.stf import read_test, run_test
from weft.tools.attack.kind import Broken, Trial
from weft.tools.attack.mutations import ODD, mutate_bytes, mutate_text
from weft.tools.attack.splices import Splicer
from weft.tools.attack.weft_process import WeftProcess

SHARE = 2.5
DEADLINE_S = 240.0
NEEDS_ROOT = False

MEMORY_BYTES = 8 << 30
"""Of addresses, for a process that reads an input."""
READ_S = 60.0
"""How long a command may read."""
PROCESSES = 0.08
"""How often a trial is a whole command."""
PROGRAMS = [
    path
    for folder in ("tests/stf", "tests/programs", "tests/compiler_programs", "tests/bmv2_programs")
    for path in sorted((CHECKOUT / folder).glob("*.p4"))
] + [CHECKOUT / "p4" / "fabric.p4"]  # fmt: skip
SCENARIOS = sorted((CHECKOUT / "experiments" / "scenarios").glob("*.toml"))
TESTS = sorted((CHECKOUT / "tests" / "stf").glob("*.stf"))


def attack(trial: Trial) -> str:
    """Have an input read."""
    # A worker reads nothing else: what takes all of the memory ends in an error, and not in the
    # end of whoever else is on the machine.
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, most))
    if trial.chance(PROCESSES):
        return trial.random.choice([_file_command, _odd_command, _endless_command])(trial)
    input_ = trial.random.choice(INPUTS)
    path = _written(trial, input_)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return f"{input_.name} {_read(trial, input_, path)}"


def _read(trial: Trial, input_: Input, path: Path) -> str:
    try:
        input_.read(path)
    except WeftError as error:
        if not str(error).strip():
            raise Broken(f"an error without a word: {error!r}") from None
        return "refused"
    except BaseException:
        _keep(trial, path)
        raise
    return "taken"


def _keep(trial: Trial, path: Path) -> None:
    """Show the input, as far as it can be shown."""
    trial.note(f"{path.name}: {path.read_bytes()[:1500]!r}")


def _written(trial: Trial, input_: Input) -> Path:
    path = trial.folder / input_.file
    path.write_bytes(input_.make(trial.random))
    trial.note(f"{input_.name}, {path.stat().st_size} bytes")
    return path


# -- files


@dataclass(frozen=True)
class Input:
    """A kind of file: how one is made, and what reads it."""

    name: str
    file: str
    make: Callable[[Random], bytes]
    read: Callable[[Path], object]
    command: tuple[str, ...] = ()
    """That reads the file, and does little more; {} stands for it."""


@lru_cache(maxsize=1)
def _splicer() -> Splicer:
    return Splicer(PROGRAMS)


def _program(random: Random) -> bytes:
    if random.random() < 0.5:
        return _splicer().splice(random).encode()
    path = random.choice(PROGRAMS)
    text = path.read_text()
    # Includes are looked for beside a file, and a copy is elsewhere.
    text = text.replace('#include "', f'#include "{path.parent}/')
    return mutate_text(random, text).encode(errors="surrogatepass")


def _scenario(random: Random) -> bytes:
    return mutate_text(random, random.choice(SCENARIOS).read_text()).encode()


def _flows(ending: str) -> Callable[[Random], bytes]:
    content = FILES[ending]
    if isinstance(content, bytes):
        return lambda random: mutate_bytes(random, content)
    return lambda random: mutate_text(random, content).encode()


def _read_flows(path: Path) -> None:
    FORMATS[path.suffix].read(path, FileReading("ring", 8, 4096))


def _trace(random: Random) -> bytes:
    good = trace(
        node(1, COMP, micros=5),
        node(2, SEND, [1], comm_src=0, comm_dst=0, comm_size=1000, comm_tag=3),
        node(3, RECV, [1], comm_src=0, comm_dst=0, comm_size=1000, comm_tag=3),
        node(4, COLLECTIVE, [2, 3], comm_type=0, comm_size=4096),
    )
    if random.random() < 0.3:
        nodes = [MESSAGES["Node"](id=random.randrange(4), type=random.randrange(12))
                 for _ in range(random.randrange(6))]  # fmt: skip
        good = encode(MESSAGES["GlobalMetadata"](version="0.0.4"), *nodes)
    return mutate_bytes(random, good)


def _test(random: Random) -> bytes:
    return mutate_text(random, random.choice(TESTS).read_text()).encode()


@lru_cache(maxsize=1)
def _good_results() -> str:
    return json.dumps(sample_results(repeat=2).to_dict())


def _results(random: Random) -> bytes:
    if random.random() < 0.3:
        return mutate_bytes(random, _good_results().encode())
    return json.dumps(mutate_json(json.loads(_good_results()), random)).encode()


def _read_results(path: Path) -> None:
    results = Results.read(path.parent)
    if not render(results).encode() or summarize(results) is None:
        raise Broken("results without a report")


@lru_cache(maxsize=len(PROGRAMS))
def _json_of(program: Path) -> str:
    return load_program(program, [], {})


def _bmv2_json(random: Random) -> bytes:
    text = _json_of(random.choice([test.with_suffix(".p4") for test in TESTS]))
    if random.random() < 0.3:
        return mutate_bytes(random, text.encode())
    return json.dumps(mutate_json(json.loads(text), random)).encode()


def _read_bmv2_json(path: Path) -> None:
    run_test(read_test(TESTS[0]), load_program(path, [], {}))


def _read_test(path: Path) -> None:
    run_test(read_test(path), _json_of(TESTS[0].with_suffix(".p4")))


RUN = ("run", "flows", "--workload", "{}", "--world", "simulated", "--timeout", "2")

INPUTS = (
    Input("P4", "program.p4", _program, compile_program, ("p4c", "{}", "-o", "made")),
    Input("TOML", "scenario.toml", _scenario, read_file),
    *(Input(ending[1:], f"flows{ending}", _flows(ending), _read_flows, RUN) for ending in FILES),
    Input("et", "traces.0.et", _trace, _read_flows, RUN),
    Input("STF", "test.stf", _test, _read_test,
          ("stf", str(CHECKOUT / "tests" / "stf" / "basic.p4"), "{}")),
    Input("results", "results.json", _results, _read_results, ("report", ".")),
    Input("BMv2 JSON", "program.json", _bmv2_json, _read_bmv2_json,
          ("stf", "{}", str(CHECKOUT / "tests" / "stf" / "basic.stf"))),
)  # fmt: skip


# -- whole commands


def _end(weft: WeftProcess, *allowed: int) -> str:
    """Wait for the command's end, and see that it is a proper one."""
    try:
        status = weft.wait("its start", READ_S)
        weft.check_speech()
        if status not in allowed:
            raise Broken(f"status {status}{weft.said()}")
        if status == 2 and not weft.errors.strip():
            raise Broken("status 2 without a word")
        weft.check_nothing_left()
        return f"command: status {status}"
    finally:
        weft.kill()


def _limited(trial: Trial, arguments: list[str], memory_bytes: int = MEMORY_BYTES) -> WeftProcess:
    return WeftProcess(trial, *arguments, before=("prlimit", f"--as={memory_bytes}", "--"))


def _file_command(trial: Trial) -> str:
    input_ = trial.random.choice([each for each in INPUTS if each.command])
    path = _written(trial, input_)
    _keep(trial, path)
    arguments = [str(path) if word == "{}" else word for word in input_.command]
    return _end(_limited(trial, arguments), 0, 1, 2)


COMMANDS = (
    ("run", "allgather", "--world", "simulated", "--leaves", "2", "--size", "1KiB", "--seed", "1",
     "--fault", "h0>leaf0:lose=3", "--loss", "0", "--algorithm", "ring", "--rate", "100Mbit"),
    ("run", "allreduce", "--world", "simulated", "--topology", "single", "--dtype", "int32", "--op",
     "max", "--size", "64", "--mtu", "1024", "--paths", "ecmp", "--hosts-per-leaf", "3"),
    ("topology", "--topology", "fat-tree", "--k", "4", "--tiers", "3"),
    ("paths", "alltoall", "--leaves", "4", "--spines", "2", "--hosts-per-leaf", "2"),
    ("p4c", str(CHECKOUT / "tests/stf/basic.p4"), "-o", "made", "--p4v", "16", "--Wdisable", "all"),
    ("stf", str(CHECKOUT / "tests/stf/basic.p4"), str(CHECKOUT / "tests/stf/basic.stf")),
    ("report", "nowhere"), ("plot", "nowhere"), ("bench", "nothing"), ("shell", "leaf0"),
    ("load", "nothing.p4"), ("switch", "-i", "1@nowhere", "program.p4"), ("doctor",),
    ("up", "--script", "nothing.txt", "--leaves", "2"),
)  # fmt: skip


def _odd_command(trial: Trial) -> str:
    random = trial.random
    words = list(random.choice(COMMANDS))
    for _ in range(random.choice([1, 1, 2, 3])):
        place = random.randrange(1, len(words)) if len(words) > 1 else 0
        value = random.choice([word for word in ODD if "\0" not in word])
        match random.randrange(5):
            case 0 | 1:
                words[place] = value
            case 2:
                words.insert(place, value)
            case 3:
                del words[place]
            case _:
                words[place] = mutate_text(random, words[place]).replace("\0", "")
    if words[:1] == ["run"]:
        # Whatever it says now, it is small, and stays off the machine.
        words += ["--world", "simulated", "--repeat", "1"]
        words += ["--size", "1KiB"] if "--size" not in words else []
    return _end(_limited(trial, words), 0, 1, 2)


ENDLESS: tuple[tuple[str, ...], ...] = (
    ("run", "{}.toml"), ("p4c", "{}.p4", "-o", "made"),
    *(("run", "flows", "--workload", f"{{}}{each}", "--world", "simulated") for each in FILES),
    ("run", "flows", "--workload", "{}.0.et", "--world", "simulated"),
    ("stf", str(CHECKOUT / "tests/stf/basic.p4"), "{}.stf"), ("stf", "{}.json"),
    ("stf", "{}.p4", str(CHECKOUT / "tests/stf/basic.stf")),
    ("report", "{}"), ("plot", "{}"),
)  # fmt: skip


def _endless_command(trial: Trial) -> str:
    """A file that has no end, or is none."""
    random = trial.random
    words = list(random.choice(ENDLESS))
    place = next(index for index, word in enumerate(words) if "{}" in word)
    path = trial.folder / words[place].format("input")
    if words[place] == "{}":
        path.mkdir()
        words[place], path = str(path), path / "results.json"
    else:
        words[place] = str(path)
    what = random.choice(["zero", "zero", "pipe", "folder", "sparse", "memory", "null"])
    trial.note(f"{path.name} is: {what}")
    match what:
        case "zero":
            path.symlink_to("/dev/zero")
        case "null":
            path.symlink_to("/dev/null")
        case "memory":
            path.symlink_to("/proc/self/mem")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "sparse":
            with path.open("wb") as file:
                file.truncate(6 << 30)
    return _end(_limited(trial, words, MEMORY_BYTES // 2), 1, 2)
