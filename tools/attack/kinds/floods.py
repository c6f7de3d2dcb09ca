"""Floods of output by commands on hosts: of both streams, for ever, by those that they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from weft.base.cache import CHECKOUT
from weft.tools.attack.kind import MARK, Broken, Trial
from weft.tools.attack.processes import marked, wait_until

SHARE = 0.5
DEADLINE_S = 900.0
NEEDS_ROOT = True

MOST_BYTES = 1 << 30
SLACK_S = 30.0
"""How much later than its time-out a command may end, on a machine that has much else to do."""
COMMANDS = (
    "yes", "yes >&2", "yes & yes >&2", "cat /dev/zero", "setsid yes", "yes | cat & sleep 600",
    "while echo x; do sleep 0.01; done", "trap '' TERM INT; yes", "yes | head -c 50000000",
)  # fmt: skip
SCRIPT = """
import json, resource, sys, time
import weft
from weft.base.errors import RunError
asked = json.loads(sys.argv[1])
with weft.up(weft.single(hosts=2)) as net:
    for command, limit_s, most in asked:
        before, ended = time.monotonic(), "by itself"
        try:
            done = net["h0"].run("sh -c", command, timeout=limit_s, most_output=most)
            assert len(done.output) + len(done.errors) <= most
        except RunError as error:
            ended = str(error)[:300]
        print(json.dumps([command, limit_s, time.monotonic() - before, ended]), flush=True)
    assert net["h1"].run("echo", "on").output == "on\\n"
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024), flush=True)
"""


def attack(trial: Trial) -> str:
    """Run some such commands on a host."""
    random = trial.random
    asked = [
        (random.choice(COMMANDS), random.choice([0.1, 1.0, 3.0]), random.choice([1000, 64 << 20]))
        for _ in range(random.randint(1, 4))
    ]
    trial.note(json.dumps(asked))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(asked)], cwd=trial.folder, text=True,
        capture_output=True, timeout=DEADLINE_S / 2,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), MARK: trial.mark},
    )  # fmt: skip
    if done.returncode:
        raise Broken(f"status {done.returncode}: {done.stderr[-2000:]}")
    *ends, peak_bytes = map(json.loads, done.stdout.splitlines())
    for command, limit_s, took_s, ended in ends:
        if took_s > limit_s + SLACK_S:
            raise Broken(f"{command!r} with a time-out of {limit_s:g} s took {took_s:.1f} s")
        if ended != "by itself" and "took longer than" not in ended and "printed more" not in ended:
            raise Broken(f"{command!r}: {ended}")
    if peak_bytes > MOST_BYTES:
        raise Broken(f"{peak_bytes >> 20} MiB of memory were used")
    wait_until(lambda: not marked(trial.mark), "all that the commands have started to end")
    return f"{len(asked)} commands"
