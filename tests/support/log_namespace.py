"""Run by test_switch_log.py in a network namespace of its own: ``weft switch`` with a log at
some level, and packets for its program.

Prints the log.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from tests.support.realtime_namespace import make_links
from tests.support.switch_namespace import start

from weft.switch.realtime.packet_sockets import open_port

DEADLINE_S = 120.0


def main(program: str, level: str, log: str) -> None:
    make_links()
    arguments = f"-i 1@s1 -L {level} --log-file {log} --grpc-server-addr 127.0.0.1:50051"
    switch, _ = start(f"{arguments} {program}")
    host = open_port("h1")
    end = time.monotonic() + DEADLINE_S
    # The traced form of the program is compiled beside the switch: packets before pass unlogged.
    while "reflects" not in Path(f"{log}.txt").read_text() and time.monotonic() < end:
        host.send(bytes.fromhex("000000000002 000000000001 88b5") + bytes(46))
        time.sleep(0.1)
    switch.send_signal(signal.SIGINT)
    switch.communicate(timeout=60)
    print(Path(f"{log}.txt").read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
