"""The tool that plants mutants: which it finds, that tests kill them, that what is kept is so."""

from __future__ import annotations

import faulthandler
import os
import signal
import textwrap
import time
from pathlib import Path

import pytest

from base.errors import InputError
from tests.mutation import recording, report, running, subjects, trial
from tests.mutation.__main__ import main
from tests.mutation.children import Job, run_all
from tests.mutation.operators import mutants_of
from tests.mutation.subjects import GROUPS, Group, groups_of
from tests.mutation.trial import KILLED, NOT_REACHED, SURVIVED, Subject, all_subjects, drawn


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


def test_what_is_no_module_that_is_mutated_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--module", "nobody"]) == 2
    assert "--module 'nobody': name a group, transport, kernels" in capsys.readouterr().err


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
    outcomes = {each.name: each for each in run_all(jobs, 3)}
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


@pytest.mark.system  # it forks, and once one of its processes did not answer beside others
def test_tests_kill_the_mutants_that_they_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(recording, "_imports", recording._imports.__wrapped__)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    group = Group("toys", ("toy.py",))
    monkeypatch.setattr(subjects, "GROUPS", (group,))
    monkeypatch.setattr(trial, "limit_s", lambda _: 0.4)

    said: list[str] = []
    records = recording.record([group], 2, said.append)
    assert len(said) == 1
    assert "3 of 4 tests usable" in said[0]
    assert recording.record([group], 2, said.append) == records
    assert len(said) == 1  # it is known by now

    found = all_subjects([group])
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
    score = report.score(1, results, len(found), {":": "no such mutant"})
    assert score.killed == sum(each.killed for each in results)
    assert not score.passes
    score.write(tmp_path / "score.json")
    assert report.Score.read(tmp_path / "score.json") == score
