"""p4runtime-shell, driven by a test from the process of another environment."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from weft.base.errors import MachineError
from weft.cli.shell_environment import shell_python


class ShellError(Exception):
    """What the shell's code raised: the exception's name, and its text."""


class Shell:
    """p4runtime-shell as the primary of a switch, which it gives a program.

    Skips the test where p4runtime-shell is not installed and cannot be.
    """

    def __init__(self, address: str, device_id: int, p4info: str, json_file: str) -> None:
        try:
            python = shell_python()
        except MachineError as error:
            pytest.skip(str(error))
        self._process = subprocess.Popen(
            [python, "-I", Path(__file__).with_name("shell_side.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self(f"""
            config = FwdPipeConfig({p4info!r}, {json_file!r})
            setup({device_id}, {address!r}, (0, 1), config=config, verbose=False)
        """)

    def __call__(self, code: str) -> Any:
        """Run lines of Python; what the last of them comes to, which is plain data."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(dedent(code)), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ShellError(answer["error"])
        return ast.literal_eval(answer["value"])

    def close(self) -> None:
        """Leave the switch, and end the process."""
        self("teardown()")
        self._process.communicate(timeout=120)
