"""p4runtime-shell in a process of its own: what runs in its environment, for shell_process.py.

Reads pieces of Python as JSON, a line each, runs them where p4runtime-shell's names are, and says
what the last line of each comes to, or what it raised. Imports nothing of Weft.
"""

from __future__ import annotations

import ast
import json
import sys
from typing import Any

from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeClient


def be_patient() -> None:
    """Let p4runtime-shell wait for its switch: it ends the process 2 s after its greeting, which
    says nothing of a switch on a machine that has much to do."""
    get = P4RuntimeClient.get_stream_packet
    P4RuntimeClient.get_stream_packet = lambda client, kind, timeout=1: get(
        client, kind, max(timeout, 120)
    )


def run(code: str, names: dict[str, Any]) -> Any:
    """Run a piece of code; the value of its last line, if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "shell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "shell", "eval"), names)
    return None


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    be_patient()
    for line in sys.stdin:
        try:
            answer = {"value": repr(run(json.loads(line), vars(shell)))}
        except (Exception, SystemExit) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


main()
