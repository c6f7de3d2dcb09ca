"""Which processors a wheel has code for, and which code a processor runs."""

from __future__ import annotations

import platform
from types import SimpleNamespace

import pytest

from weft.base import processors


@pytest.mark.parametrize(
    ("machine", "features", "made", "met"),
    [
        ("x86_64", {"pclmul"}, ["x86-64-v3", "x86-64-v2"], []),
        ("x86_64", processors._V2, ["x86-64-v3", "x86-64-v2"], ["x86-64-v2"]),
        ("x86_64", processors._V3, ["x86-64-v3", "x86-64-v2"], ["x86-64-v3", "x86-64-v2"]),
        ("x86_64", processors._V3 - {"pclmul"}, ["x86-64-v3", "x86-64-v2"], []),
        ("aarch64", {"neon", "fp-armv8"}, ["generic"], ["generic"]),
        ("riscv64", {"m", "a"}, [], []),
    ],
)
def test_a_processor_runs_the_code_whose_instructions_it_has(
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    features: set[str],
    made: list[str],
    met: list[str],
) -> None:
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    known = SimpleNamespace(get_host_cpu_features=lambda: dict.fromkeys(features, True))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(processors, "llvm", lambda: known)
    monkeypatch.setattr(processors, "_settings", lambda: [])
    assert [level.name for level in processors.levels()] == made
    assert [level.name for level in processors.levels_met.__wrapped__()] == met
    assert processors.may_use("pclmul") == ("pclmul" in features)
