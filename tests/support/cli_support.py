"""What tests of cli share with others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]


WEFT = [sys.executable, "-m", "weft"]


ENVIRONMENT = {
    **os.environ, "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)])
}  # fmt: skip
ENVIRONMENT.pop("DISPLAY", None)  # no test opens windows


def start(*command: str, cwd: Path, **files: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, text=True, check=False, timeout=600,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **files},
    )  # fmt: skip
