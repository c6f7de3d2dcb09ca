"""What the shell offers for a word of ``weft run``, asked as the shell asks."""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.support.cli_support import WEFT

from weft.experiments.scenario.asked import OPTIONS, is_used
from weft.experiments.scenario.families import choices

OTHERS = {"--out", "--json", "--events", "--on", "--resume", "--help", "-h"}


def offered(*words: str) -> set[str]:
    """What bash is offered for the last of the words behind ``weft``."""
    asked = {
        "_WEFT_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["weft", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        WEFT, env={**os.environ, **asked}, capture_output=True, text=True, timeout=120, check=False
    )
    assert not done.stderr
    return set(done.stdout.split())


def named(options: set[str]) -> set[str]:
    """The options by their names; one that can be switched off is offered both ways."""
    names = {each.removeprefix("--") for each in options}
    return {name if name in OPTIONS else name.removeprefix("no-") for name in names}


@pytest.mark.parametrize("collective", choices())
def test_after_a_collective_the_options_that_it_heeds_are_offered_and_no_others(
    collective: str,
) -> None:
    found = offered("run", collective, "--")
    assert OTHERS - {"-h"} <= found
    used = {name for name, row in OPTIONS.items() if is_used(row, collective)}
    assert named(found - OTHERS) == used - {"collective"}


def test_only_options_that_allreduce_heeds_are_offered_after_it() -> None:
    assert offered("run", "allreduce", "--ra") == {"--rate"}
    assert offered("run", "broadcast", "--ra") == {"--rate", "--radix"}
    assert offered("run", "allreduce", "--no") == {"--notice", "--notice-after", "--no-pcap",
                                                   "--no-predict"}  # fmt: skip


def test_without_a_collective_all_options_are_offered() -> None:
    found = named(offered("run", "ranks.toml", "--") - OTHERS)
    assert found == OPTIONS.keys() - {"collective"}


def test_values_are_those_of_the_collective() -> None:
    assert offered("run", "alltoall", "--algorithm", "") == {"direct"}
    assert offered("run", "alltoall", "--paths", "sp") == {"spray", "spray-round-robin"}
    assert offered("run", "all") == {"allgather", "allreduce", "alltoall"}
