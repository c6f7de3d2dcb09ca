"""In a simulated network that scripts work with, programs run before they have been compiled."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine_support import packet

import weft
from weft.interface.compiling import MachineCode
from weft.switch.engine import build
from weft.switch.engine.codegen.loading import Pipeline, load
from weft.switch.realtime import compiling
from weft.topo.clos import single
from weft.topo.worlds.simulated.world import SimulatedWorld

WIRE = """
#include <core.p4>
#include <v1model.p4>
struct headers { }
struct metadata { bit<32> count; }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    register<bit<32>>(1) seen;
    apply {
        seen.read(m.count, 0);
        seen.write(0, m.count + 1);
        s.egress_spec = 3 - s.ingress_port;
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture
def goes(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """As if no machine code were in the cache; none is made before this is set."""
    told, started = threading.Event(), compiling._started

    def start_when_told(source: Path) -> Any:
        told.wait()
        return started(source)

    monkeypatch.setattr(build, "load_at_once", lambda *both: load(*both, plain=True))
    monkeypatch.setattr(compiling, "_started", start_when_told)
    yield told
    told.set()


def test_frames_before_and_after_the_change_over_are_counted_together(
    tmp_path: Path, goes: threading.Event
) -> None:
    program = tmp_path / "wire.p4"
    program.write_text(WIRE)
    sent = [packet("10.0.0.2", source_port=number) for number in range(20)]
    with weft.up(single(2), world="simulated", program=program) as net:
        hosts = net.hosts
        hosts[1].sniff(timeout=0)
        came = []
        for number, frame in enumerate(sent):
            hosts[0].send(frame)
            came += [bytes(each) for each in hosts[1].sniff(timeout=0.1)]
            if number == 4:
                assert net.backend.plain() == ["leaf0"]
                goes.set()
                net.backend.wait_for_code()
                assert net.backend.plain() == []
        assert came == sent
        assert net.switch("leaf0").register("I.seen").read() == [len(sent)]


def test_what_measures_waits_for_machine_code_and_says_so(
    goes: threading.Event, capsys: pytest.CaptureFixture[str]
) -> None:
    with weft.up(single(2), world="simulated") as net:
        assert [switch.form for switch in net.report().switches] == ["plain"]
        goes.set()
        assert net.allgather(size=2000).verified
        assert [switch.form for switch in net.report().switches] == ["compiled"]
        said = capsys.readouterr().err
        assert re.fullmatch(r"Wait for machine code of leaf0: [0-9.]+ s\n", said)
        assert net.allgather(size=2000).verified
        assert capsys.readouterr().err == ""


def test_what_cannot_be_compiled_is_a_warning_and_runs_on() -> None:
    code = MachineCode()
    world = SimulatedWorld(single(1), code=code)
    lost = Pipeline(None, None, 0, False, None)  # type: ignore[arg-type]
    code._told.put((lost, "cannot be compiled: there is no room"))
    with pytest.warns(UserWarning, match="plain form cannot be compiled: there is no room"):
        world.wait(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world.wait(0.1)
