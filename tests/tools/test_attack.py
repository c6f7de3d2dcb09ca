"""What makes attacks: trials that can be repeated; failures, hangs and crashes that are told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from weft.base.cache import CHECKOUT
from weft.cli.command_line import COMMANDS, GROUPS, app
from weft.tools.attack import __main__ as command
from weft.tools.attack.kind import Kind, Named, Trial, find_kinds, load_kind
from weft.tools.attack.kinds import (
    clients,
    clusters,
    environments,
    faults,
    floods,
    forks,
    inputs,
    kills,
    outputs,
    packets,
    places,
    replays,
    signals,
    sockets,
    stalls,
    starts,
)
from weft.tools.attack.mutations import mutate_bytes, mutate_text
from weft.tools.attack.processes import marked
from weft.tools.attack.schedule import Attack, Failure, lanes
from weft.tools.attack.summary import closing_line, document, failure_text
from weft.tools.attack.worker import Elsewhere, make_trial

ALL: list[Kind] = [
    clients, clusters, environments, faults, floods, forks, inputs, kills, outputs, packets, places,
    replays, signals, sockets, stalls, starts,
]  # fmt: skip
"""As mypy sees them: each is a kind."""
DEADLINE_S = 120.0

MODULE = '''"""{what}

More of it.
"""
import os, signal, subprocess, sys, threading, time
from weft.tools.attack.kind import MARK, Broken

SHARE = 1.0
DEADLINE_S = {deadline_s}
NEEDS_ROOT = False

def attack(trial):
    number = trial.number
    {body}
'''

Make = Callable[..., Named]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A kind of one's own: a file more."""
    package = f"attacks_{os.getpid()}_{tmp_path.name.replace('-', '_')}"
    (tmp_path / package).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def made(name: str, body: str, what: str = "Something.", deadline_s: float = 60.0) -> Named:
        file = tmp_path / package / f"{name}.py"
        file.write_text(MODULE.format(what=what, body=body, deadline_s=deadline_s))
        return load_kind(f"{package}.{name}")

    return made


def go(attack: Attack) -> None:
    """Attack to the end."""
    for thread in attack.start():
        thread.join()


def test_every_file_among_the_kinds_is_one(make: Make) -> None:
    found = find_kinds()
    assert [named.kind for named in found] == ALL
    for named in found:
        assert named.what.endswith(".") and named.kind.SHARE > 0 and named.kind.DEADLINE_S >= 60
    more = make("another", "return 'well'", "One more.")
    assert more in find_kinds(more.module.rpartition(".")[0])
    assert (more.name, more.what) == ("another", "One more.")


def test_a_failed_trial_is_told_with_the_command_that_repeats_it(make: Make) -> None:
    picky = make("picky", "trial.note('six'); assert number != 3, 'no threes'\n    return 'well'")
    told: list[Failure] = []
    attack = Attack([picky], 7, 1000.0, failed=told.append)
    threads = attack.start()
    while len(told) < 1 and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    attack.stop()
    for thread in threads:
        thread.join()
    (failure,) = told
    assert (failure.kind, failure.trial, failure.notes) == ("picky", 3, ["six"])
    text = failure_text(failure)
    assert "AssertionError: no threes" in text and "drawn: six" in text
    assert "repeat: python -m weft.tools.attack --only picky --seed 7 --trial 3" in text
    again = Attack([picky], 7, 60.0, only_trial=3)
    go(again)
    assert again.tallies["picky"].trials == 1
    assert again.tallies["picky"].failures[0].text.startswith("AssertionError: no threes")


def test_a_trial_that_hangs_is_ended_with_all_that_it_started_and_others_go_on(
    make: Make,
) -> None:
    hangs = make(
        "hangs",
        "subprocess.Popen(['sleep', '600'], env={**os.environ, MARK: trial.mark})\n"
        "    if number == 1: time.sleep(600)\n"
        "    if number == 3: raise Broken('the third')\n"
        "    while number > 3: time.sleep(600)\n"
        "    return 'well'",
        deadline_s=3.0,
    )
    told: list[Failure] = []
    attack = Attack([hangs], 1, 1000.0, failed=told.append)
    threads = attack.start()
    while len(told) < 2 and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    attack.stop()
    for thread in threads:
        thread.join()
    assert [failure.trial for failure in told] == [1, 3]
    assert "it hangs: no end within 3 s" in told[0].text
    assert "hangs.py" in told[0].text  # where it was
    assert told[1].text == "the third"
    assert attack.tallies["hangs"].outcomes == {"well": 2}
    assert marked(attack.mark) == []


def test_a_trial_that_takes_its_process_down_is_a_failure(make: Make) -> None:
    falls = make("falls", "os.kill(os.getpid(), signal.SIGSEGV)")
    attack = Attack([falls], 1, 1000.0, only_trial=5)
    go(attack)
    (failure,) = attack.tallies["falls"].failures
    assert failure.trial == 5 and "ended with SIGSEGV" in failure.text


def test_what_is_raised_in_threads_is_a_failure(make: Make) -> None:
    kind = make(
        "threads",
        "thread = threading.Thread(target=lambda: 1 // number)\n"
        "    thread.start(); thread.join()\n    return 'well'",
    )
    before = sys.unraisablehook
    try:
        elsewhere = Elsewhere()
        outcome = [make_trial(kind.kind, "threads", 1, number, elsewhere) for number in (0, 1)]
    finally:
        sys.unraisablehook = before
    assert "ZeroDivisionError" in outcome[0][1]
    assert outcome[1] == ("well", "", [])


def test_the_same_seed_draws_the_same_trials(tmp_path: Path) -> None:
    def drawn(seed: int, kind: str, number: int) -> list[float]:
        random = Trial(kind, seed, number, tmp_path).random
        return [random.random() for _ in range(3)]

    different = [drawn(1, "a", 1), drawn(2, "a", 1), drawn(1, "b", 1), drawn(1, "a", 2)]
    assert drawn(1, "a", 1) == different[0]
    assert len({tuple(one) for one in different}) == 4
    scenarios = [faults._draw(Trial("faults", 3, 5, tmp_path).random) for _ in range(2)]
    assert scenarios[0] == scenarios[1]
    for mutate in (mutate_text, lambda random, text: mutate_bytes(random, text.encode())):
        texts = [mutate(Trial("a", 3, 5, tmp_path).random, "a { b 12; }" * 9) for _ in range(2)]
        assert texts[0] == texts[1] != "a { b 12; }" * 9


def test_the_summary_counts_all(make: Make) -> None:
    kinds = [
        make("good", "return 'well' if number else 'first'"),
        make("bad", "assert number % 2, 'even'\n    return 'odd'"),
    ]
    attack = Attack(kinds, 9, 1.0, at_once=2)
    go(attack)
    tallies = list(attack.tallies.values())
    found = document(9, tallies)
    assert found["seed"] == 9
    assert found["trials"] == sum(kind["trials"] for kind in found["kinds"]) > 2
    good, bad = found["kinds"]
    assert good["outcomes"] == {"first": 1, "well": good["trials"] - 1} and not good["failures"]
    assert len(bad["failures"]) == found["failed"] == (bad["trials"] + 1) // 2
    assert closing_line(tallies) == f"{found['trials']:,} trials, {found['failed']:,} failed"


def test_kinds_share_the_time_and_all_have_their_turn(make: Make) -> None:
    dealt = lanes(find_kinds(), 2)
    shares = [sum(named.kind.SHARE for named in lane) for lane in dealt]
    assert sorted(named.name for lane in dealt for named in lane) == sorted(
        named.name for named in find_kinds()
    )
    assert max(shares) <= 1.5 * min(shares)
    slow = [make(name, "time.sleep(0.05)\n    return 'well'") for name in ("one", "two", "three")]
    attack = Attack(slow, 1, 0.01)
    go(attack)
    assert [tally.trials for tally in attack.tallies.values()] == [1, 1, 1]


def run(*arguments: str, ci: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    return subprocess.run(
        [sys.executable, "-m", "weft.tools.attack", *arguments],
        cwd=CHECKOUT, env=environment | ({"CI": ci} if ci else {}), text=True,
        capture_output=True, check=False,
    )  # fmt: skip


def test_the_command_prints_its_seed_and_a_summary_as_json() -> None:
    done = run("--only", "packets", "--trial", "2", "--json", ci="true")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seed"] == command.CI_SEED and f"seed {command.CI_SEED}" in done.stderr
    assert [kind["kind"] for kind in found["kinds"]] == ["packets"]
    assert (found["trials"], found["failed"]) == (1, 0)
    listed = run("--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == [named.name for named in find_kinds()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--only", "kicks"],
            "'kicks': there is no such kind; there are clients, clusters, environments, faults",
        ),
        (["--trial", "3"], "--trial 3 is one of which kind"),
        (["--only", "faults", "--trial", "-3"], "trials count from 0"),
        (["--seconds", "0"], "--seconds 0: more than 0"),
        (["--at-once", "0"], "--at-once 0: at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2 and words in capsys.readouterr().err


def test_without_root_kinds_that_need_it_are_skipped_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command.main(["--only", "kills", "--seconds", "1"]) == 0
    said = capsys.readouterr().out
    assert "kills is skipped: it needs root" in said and "0 trials, 0 failed" in said


def test_a_kind_whose_module_is_not_installed_is_skipped_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(clusters, "NEEDS_MODULE", "distributed_by_nobody")
    assert command.main(["--only", "clusters", "--seconds", "1"]) == 0
    said = capsys.readouterr().out
    assert "clusters is skipped: distributed_by_nobody is not installed" in said


def test_whatever_an_option_says_is_written_to_is_attacked() -> None:
    def named(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
        for more, one in getattr(command, "commands", {}).items():
            yield from named(one, f"{name} {more}".strip())
        for each in command.params:
            if {"FILE", "DIR"} & set(re.split(r"\W", each.metavar or "")):
                yield name, each.opts  # of an argument, its name in the code

    for home, _ in (*COMMANDS.values(), *GROUPS.values()):
        import_module(home)
    every: Any = typer.main.get_command(app)
    every.commands = every.imported
    found = list(named(every, ""))
    assert ("topology", ["-o", "--out"]) in found and ("run", ["--events"]) in found
    missing = []
    for name, options in found:
        attacked = [each.words for each in outputs.COMMANDS if each.words[0] == name]
        is_attacked = any(
            not options[0].startswith("-") or set(options) & set(words) for words in attacked
        )
        if not is_attacked and not {f"{name} {option}" for option in options} & outputs.READ:
            missing.append((name, options))
    assert not missing


def test_ctrl_c_ends_an_attack_with_its_summary_and_leaves_nothing() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "weft.tools.attack", "--only", "signals,faults", "--seconds", "600"],
        cwd=CHECKOUT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert "seed" in process.stdout.readline()

        def children() -> list[str]:
            task = Path(f"/proc/{process.pid}/task")
            return [
                pid for each in task.iterdir() for pid in (each / "children").read_text().split()
            ]

        end = time.monotonic() + DEADLINE_S
        while len(children()) < 2:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.01)
        workers = children()
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, said
    assert "trials" in said and "Traceback" not in said
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
