"""``python -m weft.switch.realtime CONFIG.json``: the built-in switches of a testbed, in real time.

With ``--when-told`` behind it, the process loads its compiled code and then waits for a line on its
stdin before it reads the configuration: the path of the network namespace in which it is to open
its ports. Whoever starts it can make all of these meanwhile.
``python -m weft.switch.realtime --prepare`` only compiles the packet loop into the cache.

Prints one line, ``ready``, when all P4Runtime servers listen. Ends with status 0 on SIGTERM,
SIGINT, or when its stdin closes; with 2 if the configuration or the machine does not do.
"""

import gc
import os
import queue
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from weft.base.errors import RunError, WeftError
from weft.base.garbage import uncollected
from weft.base.libc import enter_network_namespace
from weft.base.limits import shortage

with uncollected():
    from weft.switch.p4runtime.server import serve
    from weft.switch.realtime.config import ProcessConfig, read_config
    from weft.switch.realtime.link_states import LinkStates
    from weft.switch.realtime.process import SwitchProcess, prepare, to_stderr
    from weft.switch.realtime.statistics import StatisticsSocket

WHEN_TOLD = "--when-told"


def main(arguments: list[str]) -> int:
    """Run until told to end, and return the exit status."""
    if arguments == ["--prepare"]:
        prepare()
        return 0
    when_told = arguments[1:] == [WHEN_TOLD]
    if len(arguments) != 1 and not when_told:
        print(
            f"usage: python -m weft.switch.realtime CONFIG.json [{WHEN_TOLD}] | --prepare",
            file=sys.stderr,
        )
        return 2
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()  # which a signal's handler may put into
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.put(None))
    try:
        if when_told:
            with uncollected():
                prepare()
                gc.freeze()  # all of it stays until the end
            namespace = os.read(0, 4096).decode().strip()
            if not namespace:
                return 0
            enter_network_namespace(namespace)
        run(read_config(Path(arguments[0])), ended)
    except (WeftError, MemoryError, RuntimeError, OSError) as error:
        told = error if isinstance(error, WeftError) else shortage(error)
        if told is None:
            raise
        print(f"switch: {told}", file=sys.stderr)
        return told.exit_status
    return 0


def run(config: ProcessConfig, ended: queue.SimpleQueue[None]) -> None:
    """Bring everything up, say ``ready``, wait for the end, and take everything down."""
    failures: list[BaseException] = []

    def fail(thread: threading.ExceptHookArgs) -> None:
        """End the process with a thread of it: it would not answer any more, and say nothing."""
        if thread.exc_value is not None:
            failures.append(thread.exc_value)
        sys.__excepthook__(
            thread.exc_type, thread.exc_value or thread.exc_type(), thread.exc_traceback
        )
        ended.put(None)

    threading.excepthook = fail
    process = SwitchProcess(config, on_failure=lambda: ended.put(None))
    process.note = to_stderr
    process.start()
    with ExitStack() as at_end:
        at_end.callback(process.stop)
        servers = []
        for switch, control in zip(config.switches, process.controls, strict=True):
            servers.append(serve(control, switch.device_id, switch.address))
            at_end.callback(servers[-1].stop)
        links = LinkStates(process, [server.device.set_port_up for server in servers])
        at_end.callback(links.close)
        if config.stats_socket is not None:
            at_end.callback(StatisticsSocket(process, config.stats_socket).close)
        print("ready", flush=True)
        threading.Thread(target=_wait_for_stdin, args=(ended,), daemon=True).start()
        ended.get()
        for server in servers:
            server.stop_calls()
        if process.failure is not None:
            raise RunError(f"the packet loop failed: {process.failure!r}")
        if failures:
            raise shortage(failures[0]) or RunError(f"a thread failed: {failures[0]!r}")


def _wait_for_stdin(ended: queue.SimpleQueue[None]) -> None:
    """Say so once stdin is closed. The descriptor itself is read, not Python's buffer."""
    while os.read(0, 4096):
        continue
    ended.put(None)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # Python would take a quarter of a second to free what the kernel frees
