"""A process that takes the place of the built-in switch where a test needs no forwarding.

Once it is told of its namespace, it reads its configuration, says ``ready``, answers at the
statistics socket, and ends with its stdin, as ``python -m weft.switch.realtime --when-told`` does.
What it does wrong on request comes in the environment: ``STAND_IN=fail``, ``STAND_IN=mute``, or
``STAND_IN=hang-up`` (at whoever asks).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path

from weft.base.libc import enter_network_namespace


def main() -> None:
    """Play the switch process."""
    namespace = os.read(0, 4096).decode().strip()
    if not namespace:
        return
    enter_network_namespace(namespace)
    config = json.loads(Path(sys.argv[1]).read_text())
    wrong = os.environ.get("STAND_IN")
    if wrong == "fail":
        sys.exit("the port leaf0-eth9 is not there")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(config["stats_socket"])
    listener.listen()

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                if wrong == "hang-up":
                    continue
                connection.sendall(json.dumps({"switches": len(config["switches"])}).encode())

    threading.Thread(target=answer, daemon=True).start()
    if wrong != "mute":
        print("ready", flush=True)
    sys.stdin.read()


main()
