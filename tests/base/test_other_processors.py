"""What kernels say to LLVM is of no processor: the CRC, which has the only instruction that Weft
names, is made for aarch64 here, too, where that instruction is not to be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

IN_A_PROCESS = """
import zlib

import llvmlite.binding as llvm
from weft.agents.wire import crc
from weft.base import numba_code

said = []
finalize = numba_code._Part.finalize
numba_code._Part.finalize = lambda part: (said.append(str(part._final_module)), finalize(part))
assert crc.crc32(bytes(range(256))) == zlib.crc32(bytes(range(256)))

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine()
for each in said:
    lines = [line for line in each.splitlines() if not line.startswith("target ")]
    assert "x86" not in "".join(lines)
    made = machine.emit_object(llvm.parse_assembly("\\n".join(lines)))
    print(int.from_bytes(made[18:20], "little"))
"""
EM_AARCH64 = 183
"""What stands for aarch64 in the head of an ELF file."""


def test_the_crc_is_made_for_aarch64_where_no_instructions_are_named(tmp_path: Path) -> None:
    told = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "WEFT_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS],
        env={**os.environ, **told}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert set(done.stdout.split()) == {str(EM_AARCH64)}, done.stderr
