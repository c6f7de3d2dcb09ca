"""Clusters of a sweep, at whose every port another user of the machine asks to run code as root."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import pickle
import shutil
import socket
import ssl
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from weft.tools.attack.kind import Broken, Trial, draw
from weft.tools.attack.weft_process import WeftProcess

SHARE = 0.8
DEADLINE_S = 420.0
NEEDS_ROOT = True
NEEDS_MODULE = "distributed"

NOBODY = 65534
LISTENS_S = 120.0
"""How long a sweep may take until something of it listens."""
ANSWER_S = 2.0
"""How long an attacker waits for an answer."""
STRIKES_S = 60.0
MOST_HELD = 40
"""Connections that an attacker holds open, at each port."""
SWEEP = """collective = "allgather"
world = "simulated"
topology = "single"
hosts-per-leaf = 2
algorithm = ["ring", "multicast"]
[sweep]
seed = [1, 2, 3, 4]
size = ["2MiB", "3MiB", "1KiB", "2KiB", "300KiB", "4KiB"]
"""
PATHS = ("/", "/status", "/health", "/metrics", "/info/main/workers.html", "/json/identity.json",
         "/sitemap.json", "/api/v1/retire_workers")  # fmt: skip
WAYS = ("asks", "asks by TLS", "asks by TLS with a certificate", "browses", "babbles", "holds")
PLANTED = ("global.lock", "html.py", "purge.lock", "secrets.py", "weft.py")
"""Files that Dask would open in a folder of another user, and modules that would be imported."""
ALERT = b"\x15\x03"
"""How what TLS says of who does not speak it begins: it tells nothing else."""
Strike = Callable[[int, Path, Random], Awaitable[str]]


def attack(trial: Trial) -> str:
    """Start a sweep, and strike at what of it listens, as a user who has no part in it."""
    random = trial.random
    ways = draw(random, WAYS, 0.6) or ["asks"]
    later_s = random.choice([0.0, 0.0, random.uniform(0.0, 3.0)])
    trial.note(f"another user, {later_s:.1f} s after something listens: {', '.join(ways)}")
    made = trial.folder / "made"
    made.mkdir()
    made.chmod(0o1777)  # whoever is made to run the attacker's code can do so here
    trial.folder.chmod(0o755)
    (trial.folder / "sweep.toml").write_text(SWEEP)
    planted = _planted(trial, made) if trial.chance(0.5) else None
    weft = WeftProcess(trial, "run", "sweep.toml", "--on", "dask:local:2", "--out", "out")
    try:
        end = time.monotonic() + LISTENS_S
        while not _ports(weft) and weft.runs():
            if time.monotonic() > end:
                raise Broken(f"nothing listens within {LISTENS_S:g} s{weft.said()}")
            time.sleep(0.05)
        time.sleep(later_s)
        struck: set[int] = set()
        heard: list[str] = []
        with contextlib.ExitStack() as held:
            end = time.monotonic() + STRIKES_S
            while weft.runs() and time.monotonic() < end:
                new = _ports(weft) - struck  # workers begin to listen after their scheduler has
                struck |= new
                if new:
                    seed = random.randrange(1 << 32)
                    heard += held.enter_context(_newcomer(sorted(new), ways, made, seed))
                time.sleep(0.1)
            status = weft.wait("its start, with connections that nobody closes")
        weft.check_speech()
        if ran := sorted(path.name for path in made.iterdir()):
            raise Broken(f"a newcomer's code has run: {', '.join(ran)}{weft.said()}")
        if heard:
            raise Broken(f"a newcomer was answered: {'; '.join(heard[:5])}{weft.said()}")
        if status not in (0, 1, 2) or (status and "weft: " not in weft.errors):
            raise Broken(f"status {status}{weft.said()}")
        if status == 0 and not (trial.folder / "out" / "results.json").exists():
            raise Broken(f"status 0, and no results{weft.said()}")
        if planted is not None:
            if (found := sorted(path.name for path in planted.iterdir())) != list(PLANTED):
                raise Broken(f"{planted}, which is another user's, has {found}{weft.said()}")
            shutil.rmtree(planted)
        weft.check_nothing_left()
        return f"{len(struck)} ports, status {status}"
    finally:
        weft.kill()


def _planted(trial: Trial, made: Path) -> Path:
    """The folder that Dask has by default, made first by the attacker: modules are imported from
    there, and files are opened."""
    folder = trial.folder / "tmp" / "dask-scratch-space"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    for name in PLANTED:
        if name.endswith(".py"):
            (folder / name).write_text(f"import os; os.mkdir({str(made / name)!r})\n")
        else:
            (folder / name).symlink_to(made / name)
    os.chown(folder, NOBODY, NOBODY)
    trial.note(f"{folder.name} in TMPDIR is the attacker's: {', '.join(PLANTED)}")
    return folder


def _ports(weft: WeftProcess) -> set[int]:
    """The ports at which the command's processes listen to TCP."""
    sockets = set()
    for process in weft.look():
        with contextlib.suppress(OSError):  # it has ended
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(os.readlink(descriptor).removeprefix("socket:[").rstrip("]"))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:  # LISTEN
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


@contextlib.contextmanager
def _newcomer(ports: Sequence[int], ways: Sequence[str], made: Path, seed: int) -> Iterator[Any]:
    """What a process of another user hears at ports; within the block it holds connections."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_be_stranger, args=(there, ports, ways, made, seed))
    child.start()
    there.close()
    try:
        if not here.poll(STRIKES_S):
            raise Broken(f"a newcomer has not ended with ports {ports} within {STRIKES_S:g} s")
        told = here.recv()
        if isinstance(told, str):
            raise Broken(f"the attacker itself failed: {told}")
        yield told
    finally:
        here.close()  # which lets it go
        child.join(ANSWER_S)
        child.kill()
        child.join()


def _be_stranger(
    pipe: Connection, ports: Sequence[int], ways: Sequence[str], made: Path, seed: int
) -> None:
    held: list[socket.socket] = []
    try:
        strikes = _strikes()  # of modules that another user may not be able to read
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        pipe.send(asyncio.run(_strike(strikes, ports, ways, made, Random(seed), held)))
    except Exception:
        pipe.send(traceback.format_exc())
    with contextlib.suppress(EOFError):
        pipe.recv()  # until the other end closes


async def _strike(
    strikes: Mapping[str, Strike],
    ports: Sequence[int],
    ways: Sequence[str],
    made: Path,
    random: Random,
    held: list[socket.socket],
) -> list[str]:
    """Try all ways at all ports; what was heard that a newcomer must not."""
    if "holds" in ways:
        for port in ports:
            for _ in range(random.randint(1, MOST_HELD)):
                with contextlib.suppress(OSError):  # the sweep has ended
                    held.append(socket.create_connection(("127.0.0.1", port), ANSWER_S))
    tries = [(port, way) for port in ports for way in ways if way in strikes]
    heard = await asyncio.gather(*(strikes[way](port, made, random) for port, way in tries))
    return [
        f"port {port}, which was asked by {way}, said {said[:200]!r}"
        for (port, way), said in zip(tries, heard, strict=True)
        if said
    ]


def _requests(made: Path) -> Iterator[Mapping[str, Any]]:
    """What asks a node of Dask who it is, and to run code; each would make a folder."""
    yield {"op": "identity", "reply": True}
    for operation in ("run_function", "run"):  # of schedulers, and of workers and nannies
        yield {
            "op": operation, "function": pickle.dumps(os.mkdir), "kwargs": None, "wait": True,
            "args": pickle.dumps((str(made / operation),)), "reply": True,
        }  # fmt: skip


async def _ask(
    connect: Callable[..., Awaitable[Any]],
    scheme: str,
    told: Mapping[str, Any],
    port: int,
    made: Path,
    _random: Random,
) -> str:
    """Speak Dask, and tell it who one is, or nothing."""
    address = f"{scheme}://127.0.0.1:{port}"
    heard = []
    for request in _requests(made):
        with contextlib.suppress(OSError, asyncio.TimeoutError, ValueError):
            node = await asyncio.wait_for(connect(address, timeout=ANSWER_S, **told), 2 * ANSWER_S)
            try:
                await node.write(request)
                answer = await asyncio.wait_for(node.read(), ANSWER_S)
                heard.append(f"{request['op']}: {str(answer)[:100]}")
            finally:
                node.abort()
    return "; ".join(heard)


async def _say(port: int, content: bytes) -> str:
    """What comes back for bytes, but for alerts of TLS."""
    heard = b""
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(content)
            await writer.drain()
            heard = await asyncio.wait_for(reader.read(1000), ANSWER_S)
        finally:
            writer.close()
    return "" if not heard or heard.startswith(ALERT) else repr(heard)


async def _browse(port: int, _made: Path, random: Random) -> str:
    path = random.choice(PATHS)
    method = "POST" if "api" in path else "GET"
    request = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 2\r\n\r\n{{}}"
    return await _say(port, request.encode())


async def _babble(port: int, _made: Path, random: Random) -> str:
    """Random bytes, some of which begin as Dask's frames do, or as a handshake of TLS."""
    begin = random.choice(
        [b"", b"\x01" + bytes(7), (1 << 40).to_bytes(8, "little"), b"\x16\x03\x01"]
    )
    return await _say(port, begin + random.randbytes(random.choice([1, 100, 5000, 200_000])))


def _strikes() -> dict[str, Strike]:
    """The ways, ready to be gone: with all that they need imported and made."""
    from distributed.comm import connect
    from distributed.security import Security

    with_own = Security.temporary().get_connection_args("client")
    without = {**with_own, "ssl_context": ssl.create_default_context()}
    for told in (with_own, without):
        told["ssl_context"].check_hostname = False
        told["ssl_context"].verify_mode = ssl.CERT_NONE
    return {
        "asks": partial(_ask, connect, "tcp", {}),
        "asks by TLS": partial(_ask, connect, "tls", without),
        "asks by TLS with a certificate": partial(_ask, connect, "tls", with_own),
        "browses": _browse,
        "babbles": _babble,
    }
