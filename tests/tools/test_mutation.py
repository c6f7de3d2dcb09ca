"""The tool that plants mutants: which it finds, that tests kill them, that what is kept is so."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import tempfile
import textwrap
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import FunctionType

import pytest
from msgspec import structs

from weft.base.errors import InputError
from weft.tools.mutation import ending, recording, report, running, subjects, trial
from weft.tools.mutation.__main__ import main
from weft.tools.mutation.children import Job, end_child, run_all
from weft.tools.mutation.operators import mutants_of
from weft.tools.mutation.subjects import GROUPS, Group, groups_of
from weft.tools.mutation.trial import KILLED, NOT_REACHED, SURVIVED, Subject, all_subjects, drawn


@pytest.fixture(scope="module")
def every() -> list[Subject]:
    return all_subjects(GROUPS)


def changes(source: str) -> set[str]:
    """What mutants make of a function's body, in words."""
    text = "def f(a, b):\n" + textwrap.indent(textwrap.dedent(source), "    ")
    return {mutant.key.removeprefix("m.py:f: ") for mutant in mutants_of("m.py", text)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if a < b: g()", {"a < b -> a <= b", "a < b -> a >= b", "g() -> pass"}),
        ("return a", {"return a -> return None"}),
        ("a.x = b", {"a.x = b -> pass"}),
        ("c = a", set()),
        ("c = a + b", {"a + b -> a - b"}),
        ("c = a - b * a", {"a - b * a -> a + b * a", "b * a -> b // a"}),
        ("a += b", {"a += b -> pass", "a += b -> a -= b"}),
        ("c = 7", {"7 -> 8", "7 -> 6"}),
        ("c = 0", {"0 -> 1", "0 -> -1"}),
        ("c = -a", {"-a -> a"}),
        ("c = not a", {"not a -> a"}),
        ("c = a and b", {"a and b -> a or b"}),
        ("c = min(a, b)", {"min -> max"}),
        ("c = np.minimum(a, b)", {"np.minimum -> np.maximum"}),
        ("c = a[b:]", {"b: -> :"}),
        ("c = True", {"True -> False"}),
        ("c = a is None", {"a is None -> a is not None"}),
        ("while a: break", {"a -> not a", "break -> continue"}),
        ("for c in a: continue", {"continue -> break"}),
        ("c = a if b else 'text 1'", {"b -> not b"}),
        ("raise E(f'{a + 1}')", {"raise E(f'{a + 1}') -> pass"}),
        ("'A docstring of 5.'\nc: int | None = a", set()),
        ("def g(c=3): return c", {"return c -> return None", "3 -> 4", "3 -> 2"}),
    ],
)
def test_each_kind_of_change_is_found(source: str, expected: set[str]) -> None:
    found = {change.removeprefix("m.py:f.g: ") for change in changes(source)}
    assert found == expected


def test_decorators_annotations_and_what_type_checkers_see_are_left_alone() -> None:
    source = """
        @cache(maxsize=3)
        def f(a: Literal[1]) -> Literal[2]:
            pass

        if TYPE_CHECKING:
            X = 1

        class P(Protocol):
            x: int = 1
    """
    assert mutants_of("m.py", textwrap.dedent(source)) == []


def test_a_mutant_is_the_source_with_one_change_and_as_many_lines() -> None:
    source = "def f(a):\n    a.append(\n        1,\n    )\n    return a\n"
    made = {mutant.key: mutant.applied(source) for mutant in mutants_of("m.py", source)}
    assert made["m.py:f: 1 -> 2"] == source.replace("1", "2")
    removed = made["m.py:f: a.append(1) -> pass"]
    assert removed.count("\n") == source.count("\n")
    names: dict[str, object] = {}
    exec(removed, names)
    assert names["f"]([3]) == [3]  # type: ignore[operator]


def test_the_same_changes_to_a_function_are_told_apart() -> None:
    keys = [each.key for each in mutants_of("m.py", "def f(a):\n    a[1] = a[1]\n")]
    assert "m.py:f: 1 -> 2" in keys
    assert "m.py:f: 1 -> 2 #2" in keys
    assert len(set(keys)) == len(keys)


def test_a_seed_draws_the_same_mutants_and_another_seed_others() -> None:
    found = all_subjects(groups_of(["theory"]))
    keys = [[each.mutant.key for each in drawn(found, 50, seed)] for seed in (1, 1, 2)]
    assert keys[0] == keys[1] != keys[2]
    assert len(set(keys[0])) == 50


def test_a_draw_that_was_kept_finds_its_mutants_again_where_their_module_has_moved(
    every: list[Subject], tmp_path: Path
) -> None:
    chosen = drawn(every, 40, 3)
    keys = [each.mutant.key for each in chosen]
    report.Draw(3, len(every), keys).write(tmp_path / "draw.json")
    draw = report.Draw.read(tmp_path / "draw.json")
    assert draw.among(every) == chosen
    moved = replace(chosen[0], mutant=replace(chosen[0].mutant, path="moved.py"))
    assert draw.among([moved]) == [moved]
    with pytest.raises(InputError, match="holds no draw"):
        report.Draw.read(report.KEPT / "seed-1.json")


def test_every_mutant_of_every_module_that_is_named_compiles_under_a_key_of_its_own(
    every: list[Subject],
) -> None:
    assert len({each.mutant.key for each in every}) == len(every) > 10_000
    for each in drawn(every, 300, 1):
        changed = each.mutant.applied(each.source)
        compile(changed, each.mutant.path, "exec")
        assert changed != each.source


def test_equivalent_mutants_are_listed_with_reasons_and_are_there(every: list[Subject]) -> None:
    listed = report.read_equivalents()
    assert set(listed) <= {each.mutant.key for each in every}
    assert all(len(reason) > 20 for reason in listed.values())


def test_a_mutant_without_a_reason_is_not_equivalent(tmp_path: Path) -> None:
    file = tmp_path / "equivalents.toml"
    file.write_text("[[equivalent]]\nmutant = 'm.py:f: 1 -> 2'\n")
    with pytest.raises(InputError, match="needs a reason"):
        report.read_equivalents(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[equivalent", "is not valid TOML"),
        ("equivalent = 5", r"equivalent is 5: write tables \[\[equivalent\]\]"),
    ],
)
def test_a_list_of_equivalents_that_is_none_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "equivalents.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        report.read_equivalents(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"text"', "holds no score"),
        ("5", "holds no score"),
        ('{"survivors": 3}', "holds no score"),
        ('{"schema": "weft.mutants", "survivors": 3}', "is damaged: seed is missing"),
        ("[" * 100_000, "is not valid JSON"),
        ("{", "is not valid JSON"),
    ],
)
def test_what_is_no_score_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file = tmp_path / "score.json"
    file.write_text(text)
    assert main(["--again", str(file)]) == 2
    told = capsys.readouterr().err
    assert str(file) in told
    assert message in told


def test_a_score_is_not_read_from_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--again", "/dev/zero"]) == 2
    assert "'/dev/zero' cannot be read: it is a device" in capsys.readouterr().err


def test_where_a_score_cannot_be_written_is_said_before_anything_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (tmp_path / "nowhere" / "score.json", tmp_path, tmp_path / ("x" * 300)):
        assert main(["--out", str(out)]) == 2
        assert f"--out {str(out)!r} cannot be written" in capsys.readouterr().err
    report.check_places(tmp_path / "score.json", kept=True)
    report.check_places(Path("/dev/null"), kept=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--again", "x", "--module", "theory"], "--again: those that lived"),
        (["--again", "x", "--mutants", "3"], "--again: those that lived"),
        (["--keep", "--mutants", "5"], "--mutants 5: a score that is kept is of at least 500"),
        (["--keep", "--module", "theory"], "--keep: what is kept is drawn of all modules"),
        (["--mutants", "0"], "--mutants 0: at least 1"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_module_that_is_named_twice_is_mutated_once() -> None:
    path = "experiments/theory/bounds.py"
    assert groups_of(["theory", path, "theory"]) == groups_of(["theory"])
    (single,) = groups_of([path, path])
    assert (single.name, single.files()) == ("theory", [path])


def test_what_is_no_module_that_is_mutated_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--module", "nobody"]) == 2
    assert "--module 'nobody': name a group, transport, kernels" in capsys.readouterr().err


def test_a_record_is_made_anew_when_anything_that_tests_read_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "mutation" / "attack"  # a checkout may be anywhere
    digests = set()
    monkeypatch.setattr(recording, "ROOT", root)
    monkeypatch.setattr(recording, "_digest", recording._digest.__wrapped__)
    names = ("switch/a.py", "switch/compiler/b.lark", "p4/c.p4", "experiments/scenarios/d.toml",
             "tests/support.py", "tests/golden/e.json")  # fmt: skip
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
        digests.add(recording.digest_of())
    (root / "p4" / "c.p4").write_text("2")
    digests.add(recording.digest_of())
    assert len(digests) == len(names) + 1
    for name in ("tests/test_a.py", "tools/mutation/a.py", "tools/attack/a.py", "switch/a.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
        digests.add(recording.digest_of())
    assert len(digests) == len(names) + 1


def test_the_page_has_the_score_that_is_kept() -> None:
    page = report.PAGE.read_text("utf-8")
    assert report.with_table(page, report.kept_scores()) == page


def test_work_that_hangs_or_crashes_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    told = tmp_path / "started"

    def hang(_: Path) -> None:
        pid = os.fork()
        if pid:
            told.write_text(str(pid))
        time.sleep(600)

    def crash(_: Path) -> None:
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)

    jobs = [
        Job("hangs", hang, 1.0, 60),
        Job("spins", lambda _: exec("while True: pass"), 60, 1),
        Job("crashes", crash, 60, 60),
        Job("fails", lambda _: 1 // 0, 60, 60),
        Job("works", lambda folder: Path.cwd() == folder, 60, 60),
    ]
    jobs.append(Job("leaves", lambda _: os._exit(3), 60, 60))
    outcomes = {each.name: each for each in run_all(jobs, 3)}
    assert outcomes["leaves"].status == "ended with status 3"
    assert outcomes["hangs"].status == outcomes["spins"].status == "out of time"
    assert outcomes["crashes"].status == "crashed (SIGSEGV)"
    assert "ZeroDivisionError" in outcomes["fails"].status
    assert (outcomes["works"].status, outcomes["works"].value) == ("done", True)
    end = time.monotonic() + 20
    while Path(f"/proc/{told.read_text()}/environ").exists() and time.monotonic() < end:
        if Path(f"/proc/{told.read_text()}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.02)
    assert time.monotonic() < end


TOY = """
LIMIT = 5


def larger(a, b):
    if a > b:
        return a
    return b


def limited(a):
    return min(a, LIMIT)


def never_called(a):
    return -a


def endless(count):
    while count > 0:
        count -= 1
    return count
"""

TOY_TESTS = """
import toy


def test_the_larger_is_found():
    assert toy.larger(3, 2) == 3
    assert toy.larger(2, 3) == 3


def test_a_limit_is_kept():
    assert toy.limited(9) == 5


def test_it_counts_down():
    assert toy.endless(3) == 0


def test_this_one_fails_anyway():
    assert toy.never_called(1) == 1
"""


CRASH = """

def test_crash():
    import faulthandler, os
    faulthandler.disable()
    os.kill(os.getpid(), 11)
"""


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    """The only group of a checkout of its own."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "tests" / "test_toy.py").write_text(TOY_TESTS)
    (tmp_path / "tests" / "conftest.py").write_text(
        "import hypothesis\nhypothesis.settings.register_profile('weft')\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\nmarkers = ['system: of networks']\n"
    )
    for module in (recording, running, subjects, trial):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    for name in ("_imports", "_digest"):
        monkeypatch.setattr(recording, name, getattr(recording, name).__wrapped__)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    group = Group("toys", ("toy.py",))
    monkeypatch.setattr(subjects, "GROUPS", (group,))
    monkeypatch.setattr(trial, "limit_s", lambda _: 0.4)
    return group


@pytest.mark.slow
@pytest.mark.system  # it forks, and limits tests by the clock, so that nothing is to run beside it
def test_tests_kill_the_mutants_that_they_notice(tmp_path: Path, toys: Group) -> None:
    said: list[str] = []
    records = recording.record([toys], 2, said.append)
    assert len(said) == 1
    assert "3 of 4 tests usable" in said[0]
    assert recording.record([toys], 2, said.append) == records
    assert len(said) == 1  # it is known by now

    found = all_subjects([toys])
    results, failing = trial.try_all(found, records, 2, 4, lambda _: None)
    assert not failing
    told = {each.subject.mutant.key.removeprefix("toy.py"): each for each in results}
    assert told[":larger: a > b -> a <= b"].status == KILLED
    assert told[":larger: a > b -> a <= b"].how.endswith("::test_the_larger_is_found")
    assert told[":larger: a > b -> a >= b"].status == SURVIVED
    assert told[":limited: min -> max"].status == KILLED
    assert told[": 5 -> 6"].status == KILLED
    assert told[":never_called: -a -> a"].status == NOT_REACHED
    assert told[":endless: count -= 1 -> pass"].status == KILLED
    assert told[":endless: count -= 1 -> pass"].how.startswith("out of time: tests/test_toy.py::")
    again, _ = trial.try_all(found, records, 2, 0, lambda _: None)
    assert [each.how for each in again if each.killed] == [e.how for e in results if e.killed]
    history = recording.history_at().read_text().splitlines()
    assert all(json.loads(line)["how"].startswith("tests/test_toy.py::") for line in history)
    assert len(history) == sum(each.how.startswith("tests/") for each in results if each.killed)
    score = report.score(1, results, len(found), {":": "no such mutant"})
    assert score.killed == sum(each.killed for each in results)
    assert not score.passes
    score.write(tmp_path / "score.json")
    assert report.Score.read(tmp_path / "score.json") == score
    living = [each for each in results if not each.killed]
    first, *others = living
    assert report.joined(score, report.score(9, living, 99, {})) == structs.replace(
        score, equivalent=[]
    )
    caught = replace(first, status=KILLED, how="tests/test_toy.py::test_that_is_new")
    both = report.joined(score, report.score(9, [caught, *others], 99, {}))
    assert (both.seed, both.drawn, both.every) == (1, len(found), len(found))
    assert both.killed == score.killed + 1 == sum(count.killed for count in both.modules)
    with pytest.raises(InputError, match="the score is of 'no commit', and a module has changed"):
        report.check_same(score)


@pytest.mark.slow
@pytest.mark.system  # as above
def test_what_is_kept_damaged_or_of_tests_that_did_not_end_well_is_found_anew(
    tmp_path: Path, toys: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with (tmp_path / "tests" / "test_toy.py").open("a") as file:
        file.write(CRASH)
    for count in (1, 2):
        (made,) = recording.record([toys], 1, said.append)[False]
        assert len(said) == count
        assert "3 of 4 tests usable" in said[-1]
        assert "(crashed (SIGSEGV))" in said[-1]
        assert len(made.tests) == 4

    (tmp_path / "tests" / "test_toy.py").write_text(TOY_TESTS)
    folder = tmp_path / "cache" / "mutation"
    old, recent, history = (
        folder / name for name in ("test_a.json", "test_b.json", "killed.jsonl")
    )
    for path in (old, recent, history):
        path.write_text("{}")
    for path in (old, history):
        os.utime(path, (0, 0))
    records = recording.record([toys], 1, said.append)
    assert not old.exists()
    assert not history.exists()
    assert recent.exists()
    (kept,) = folder.glob("test_toy-*.json")
    text = kept.read_text()
    for damaged in (text[:40], "5", "{}"):
        kept.write_text(damaged)
        found = recording.record([toys], 1, said.append)
        assert [test.test for test in found[False][0].tests] == [
            test.test for test in records[False][0].tests
        ]
    assert len(said) == 6

    monkeypatch.setattr(recording, "LONGEST_FILE_S", 0.0)
    kept.unlink()
    (made,) = recording.record([toys], 1, said.append)[False]
    assert len(made.tests) == 1
    assert "the others not within 0 s" in said[-1]
    assert recording.record([toys], 1, said.append)[False] == [made]
    assert len(said) == 7  # that is as it would be another time


@pytest.mark.slow
@pytest.mark.system  # as above
def test_a_mutant_that_cannot_be_put_in_place_is_imported(
    toys: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_place(_functions: list[FunctionType], path: str, _source: str) -> None:
        raise LookupError(path)

    records = recording.record([toys], 1, lambda _: None)
    found = [each for each in all_subjects([toys]) if ":larger: a > b" in each.mutant.key]
    recording.history_at().write_text('{"mutant": "half a li')
    monkeypatch.setattr(trial, "put_in_place", no_place)
    results, failing = trial.try_all(found, records, 1, 1, lambda _: None)
    assert not failing
    assert {each.status for each in results} == {KILLED, SURVIVED}
    killed = [each for each in results if each.killed]
    assert [trial.History().killer_of(each.subject) for each in killed] == [
        each.how for each in killed
    ]


@pytest.mark.system  # as above
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_processes_and_leaves_no_folder(
    tmp_path: Path, toys: Group, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Of a mutant whose test does not end; the server that has imported the tests ends, too."""
    records: Mapping[bool, list[recording.FileRecord]]
    records = recording.record([toys], 1, lambda _: None)
    found = [each for each in all_subjects([toys]) if "count -= 1 -> pass" in each.mutant.key]
    assert len(found) == 1
    monkeypatch.setattr(trial, "limit_s", lambda _: 600.0)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            signal.signal(number, signal.SIG_DFL)  # whatever these tests were started with
            with ending.ending_on_signals():
                trial.try_all(found, records, 1, 0, lambda _: None)
        except ending.Ended as ended:
            os._exit(ended.status)
        finally:
            os._exit(1)
    try:
        until = time.monotonic() + 60
        while not [*folder.glob("weft-mutate-*/notes")] and time.monotonic() < until:
            time.sleep(0.02)
        marks = processes_below(pid)
        assert len(marks) == 2
        os.killpg(pid, number) if number == signal.SIGINT else os.kill(pid, number)
        while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + number
    except BaseException:
        end_child(pid)
        raise
    assert [*folder.glob("*")] == []
    assert not any(Path(f"/proc/{each}").exists() for each in marks)


def processes_below(pid: int) -> list[int]:
    """The numbers of a process's children, and of theirs."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    children = [int(each) for each in text.split()]
    return children + [each for child in children for each in processes_below(child)]
