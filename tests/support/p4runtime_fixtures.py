"""Fixtures for the tests of the P4Runtime server: compiled programs, a server, its clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.p4runtime_support import (
    EVERY_ENTITY,
    FABRIC,
    BareClient,
    Connect,
    Files,
    compiled,
    make_dataplane,
)

from weft.switch.engine.switches import Dataplane
from weft.switch.p4runtime.server import P4RuntimeServer, serve


@pytest.fixture(scope="session")
def every_entity() -> Files:
    return compiled(EVERY_ENTITY)


@pytest.fixture(scope="session")
def fabric() -> Files:
    return compiled(FABRIC)


@pytest.fixture
def dataplane() -> Dataplane:
    return make_dataplane()


@pytest.fixture
def server(dataplane: Dataplane, tmp_path: Path) -> Iterator[P4RuntimeServer]:
    running = serve(dataplane.control(0, "leaf0"), 1, f"unix:{tmp_path}/leaf0.sock")
    yield running
    running.stop()


@pytest.fixture
def connect(server: P4RuntimeServer) -> Iterator[Connect]:
    clients: list[BareClient] = []

    def make(device_id: int = 1, election_id: int | None = 1) -> BareClient:
        clients.append(BareClient(server.address, device_id, election_id))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Connect, every_entity: Files) -> BareClient:
    """The primary of a switch that runs every_entity.p4."""
    made = connect()
    made.arbitrate()
    made.push(every_entity)
    return made
