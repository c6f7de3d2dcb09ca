"""Hostile P4Runtime clients at a built-in switch's server, beside a client that works on."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from tests.support.p4runtime_mutations import fill, mutate_info, mutate_json
from tests.support.p4runtime_support import (
    DELETE,
    EVERY_ENTITY,
    INSERT,
    SEND,
    BareClient,
    Files,
    Refused,
    compiled,
    config_request,
    ids_of,
    make_dataplane,
)

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.server import SERVICE, P4RuntimeServer, serve
from weft.tools.attack.kind import Broken, Trial

SHARE = 1.5
DEADLINE_S = 240.0
NEEDS_ROOT = False

HIGHEST = (1 << 128) - 1
"""The good client's election id: nobody takes its place by a higher one."""
UNARY = ("Write", "Read", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig",
         "Capabilities")  # fmt: skip
MOST_GROWTH_BYTES = 1 << 30
CALL_S = 120.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGE_BATCH = 50_000
FOREIGN_ACTIONS = 10_000


@dataclass
class Attacked:
    """A server under attack."""

    trial: Trial
    server: P4RuntimeServer
    good: BareClient
    open: ExitStack
    """What is to be closed after the attack, and not before the good client was asked."""

    @property
    def path(self) -> str:
        return self.server.address.removeprefix("unix:")

    def channel(self) -> Any:
        """A client's connection of its own, with as much room for errors as clients have that
        ask for it."""
        made = grpc.insecure_channel(self.server.address, options=[
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_metadata_size", 1 << 20), ("grpc.absolute_max_metadata_size", 1 << 20),
        ])  # fmt: skip
        self.open.callback(made.close)
        return made


def attack(trial: Trial) -> str:
    """Let some hostile clients do their worst."""
    chosen = [trial.random.choice(HOSTILE) for _ in range(trial.random.randint(1, 4))]
    trial.note(", ".join(one.__name__.strip("_") for one in chosen))
    before_bytes = _memory_bytes()
    with _served(trial) as attacked, _no_exceptions():
        for hostile in chosen:
            hostile(attacked)
            _check_good(attacked, hostile.__name__)
        attacked.open.close()
        _check_good(attacked, "all of them, which are gone")
    grown_bytes = _memory_bytes() - before_bytes
    if grown_bytes > MOST_GROWTH_BYTES:
        raise Broken(f"the server's process has grown by {grown_bytes >> 20} MiB")
    return "served" if len(chosen) > 1 else chosen[0].__name__.strip("_").replace("_", " ")


@contextmanager
def _served(trial: Trial) -> Iterator[Attacked]:
    dataplane = make_dataplane()
    dataplane.set_cpu_port(0, 8)
    server = serve(dataplane.control(0, "leaf0"), 1, f"unix:{trial.folder}/leaf0.sock")
    good = BareClient(server.address, election_id=HIGHEST)
    try:
        with ExitStack() as stack:
            good.arbitrate()
            good.push(_program())
            yield Attacked(trial, server, good, stack)
    finally:
        good.close()
        server.stop()


@lru_cache(maxsize=1)
def _program() -> Files:
    return compiled(EVERY_ENTITY)


def _check_good(attacked: Attacked, after: str) -> None:
    """The good client writes an entry, reads it, and removes it again."""
    good = attacked.good
    entry = SEND.format(a=7)
    try:
        with contextlib.suppress(Refused):  # an insider may have made the same
            good.write((DELETE, entry))
        good.write((INSERT, entry))
        found = good.read("table_entry { table_id: @exact_table }")
        if good.entity(entry).table_entry.match not in [one.table_entry.match for one in found]:
            raise Broken(f"after {after} an entry that was written is not read: {found}")
        good.write((DELETE, entry))
    except Refused as refused:
        raise Broken(f"after {after} the good client is refused: {refused}") from None


class _Exceptions(logging.Handler):
    """What is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(logging.Formatter().format(record))


@contextmanager
def _no_exceptions() -> Iterator[None]:
    """The server logs no traceback."""
    handler = _Exceptions()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
    if handler.found:
        raise Broken(f"the server logged {len(handler.found)} tracebacks:\n{handler.found[0]}")


def _memory_bytes() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def _call(attacked: Attacked, method: str, data: bytes) -> bool:
    """A call with any bytes; anything but an internal error is an answer. Returns whether what was
    asked for is granted."""
    name = f"/{SERVICE}/{method}"
    try:
        for _ in attacked.channel().unary_stream(name)(data, timeout=CALL_S):
            pass
    except grpc.RpcError as error:
        _check_code(error, method)
        return False
    return True


def _check_code(error: Any, what: str) -> None:
    code, details = error.code().name, str(error.details())
    if code in ("INTERNAL", "DEADLINE_EXCEEDED", "UNAVAILABLE"):
        raise Broken(f"{what} is answered {code}: {details[:1000]}")
    if "metadata" in details.lower() and code == "RESOURCE_EXHAUSTED":
        raise Broken(f"{what} is answered with more than a client takes: {details[:1000]}")


# -- hostile clients


def _noise(attacked: Attacked) -> None:
    """Bytes that are no HTTP/2, or begin like it, on connections that stay open."""
    random = attacked.trial.random
    for _ in range(random.randint(1, 40)):
        connection = socket.socket(socket.AF_UNIX)
        attacked.open.callback(connection.close)
        connection.settimeout(CALL_S)
        connection.connect(attacked.path)
        data = random.choice([b"", PREFACE, PREFACE[:9]])
        data += random.randbytes(random.choice([0, 1, 9, 200, 20_000]))
        with contextlib.suppress(OSError):
            connection.sendall(data)
            if random.random() < 0.3:
                connection.shutdown(random.choice([socket.SHUT_WR, socket.SHUT_RD]))


def _random_bytes(attacked: Attacked) -> None:
    random = attacked.trial.random
    for _ in range(random.randint(1, 10)):
        _call(attacked, random.choice(UNARY), random.randbytes(random.choice([0, 1, 10, 300])))


def _mutated_messages(attacked: Attacked) -> None:
    """Messages with fields that are there, and values that make little sense, at times from one
    who knows the primary's election id."""
    random = attacked.trial.random
    ids = list(ids_of(attacked.good.info).values())
    makers: dict[str, Callable[[], Any]] = {
        "Write": p4runtime_pb2.WriteRequest, "Read": p4runtime_pb2.ReadRequest,
        "GetForwardingPipelineConfig": p4runtime_pb2.GetForwardingPipelineConfigRequest,
    }  # fmt: skip
    for _ in range(random.randint(1, 15)):
        method = random.choice(list(makers))
        message = makers[method]()
        fill(message, ids, random)
        message.device_id = random.choice([1, 1, 1, 0, 1 << 63])
        if method == "Write" and random.random() < 0.6:
            attacked.good._identify_election(message.election_id)
            message.role = ""
        data = message.SerializeToString()
        if random.random() < 0.3 and data:
            place = random.randrange(len(data))
            data = data[:place] + random.randbytes(2) + data[place + random.randint(0, 3) :]
        _call(attacked, method, data)


def _almost_a_program(attacked: Attacked) -> None:
    """A program that is almost right, from one who knows the primary's election id. One that is
    right after all, with other ids of parameters, say, and is saved, is what entries go by then."""
    import json

    random = attacked.trial.random
    request = config_request(_program(), random.choice(["VERIFY", "VERIFY_AND_SAVE"]))
    if random.random() < 0.7:
        document = mutate_json(json.loads(request.config.p4_device_config), random)
        request.config.p4_device_config = json.dumps(document).encode()
    if random.random() < 0.7:
        request.config.p4info.CopyFrom(mutate_info(request.config.p4info, random))
    attacked.good._identify(request)
    if _call(attacked, "SetForwardingPipelineConfig", request.SerializeToString()):
        attacked.good.push(_program())


def _foreign_actions(attacked: Attacked) -> None:
    """A P4Info with thousands of actions that the program has not got."""
    request = config_request(_program(), "VERIFY")
    for number in range(FOREIGN_ACTIONS):
        action = request.config.p4info.actions.add()
        action.preamble.id = 0x01F00000 + number
        action.preamble.name = action.preamble.alias = f"foreign{number}"
    attacked.good._identify(request)
    _call(attacked, "SetForwardingPipelineConfig", request.SerializeToString())


def _failing_updates(attacked: Attacked) -> None:
    """A batch of updates that all fail: what is said of them has to fit into an answer."""
    random = attacked.trial.random
    request = p4runtime_pb2.WriteRequest(atomicity=random.choice([0, 0, 1, 2]))
    attacked.good._identify(request)
    update = request.updates.add(type=random.choice([INSERT, DELETE]))
    text_format.Merge("table_entry { table_id: 77 }", update.entity)
    for _ in range(random.choice([10, 1000, LARGE_BATCH]) - 1):
        request.updates.add().CopyFrom(update)
    _call(attacked, "Write", request.SerializeToString())


def _flood(attacked: Attacked) -> None:
    """A stream of messages, whose answers nobody reads."""
    random = attacked.trial.random
    request = p4runtime_pb2.StreamMessageRequest()
    if random.random() < 0.5:
        request.packet.payload = random.randbytes(1000)
    else:
        request.arbitration.device_id = 1
    data = request.SerializeToString()
    count = random.choice([100, 5000])
    call = attacked.channel().stream_stream(f"/{SERVICE}/StreamChannel")
    stream = call(iter([data] * count), timeout=CALL_S)
    attacked.open.callback(stream.cancel)
    with contextlib.suppress(grpc.RpcError):
        next(stream, None)


def _endless(attacked: Attacked) -> None:
    """Calls whose requests never come, or never end."""
    random = attacked.trial.random
    ended = threading.Event()
    attacked.open.callback(ended.set)

    def never() -> Iterator[bytes]:
        for _ in range(random.randint(0, 3)):
            yield b""
        ended.wait(CALL_S)

    for _ in range(random.randint(1, 30)):
        channel = attacked.channel()
        if random.random() < 0.5:
            channel.stream_unary(f"/{SERVICE}/{random.choice(UNARY)}").future(never())
        else:
            attacked.open.callback(
                channel.stream_stream(f"/{SERVICE}/StreamChannel")(never()).cancel
            )


def _crowd(attacked: Attacked) -> None:
    """Many streams with elections of their own; some half-close, some vanish."""
    random = attacked.trial.random
    for number in range(random.randint(1, 60)):
        client = BareClient(attacked.server.address, election_id=random.randrange(1 << 64))
        attacked.open.callback(client.close)
        client.open_stream()
        request = p4runtime_pb2.StreamMessageRequest()
        fill(request, list(ids_of(attacked.good.info).values()), random)
        if random.random() < 0.7:
            request.arbitration.device_id = 1
            request.arbitration.role.Clear()
            request.arbitration.election_id.low = number
        client.send(request)
        match random.randrange(4):
            case 0:
                client.half_close()
            case 1:
                client.close()


HOSTILE: tuple[Callable[[Attacked], None], ...] = (
    _noise, _random_bytes, _mutated_messages, _mutated_messages, _almost_a_program,
    _failing_updates, _flood, _endless, _crowd, _foreign_actions,
)  # fmt: skip
