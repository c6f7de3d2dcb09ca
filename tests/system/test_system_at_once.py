"""An emulated network forwards by a program that has never been compiled, and goes over to machine
code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.emulated_support import needs_machine

import weft
from weft.base.cache import cache_dir
from weft.switch.compiler import compile_cached
from weft.switch.engine.codegen.loading import write_source
from weft.switch.engine.native.compiled import JIT
from weft.topo.worlds.emulated.world import EmulatedWorld

WIRE = """
#include <core.p4>
#include <v1model.p4>
struct headers { }
struct metadata { }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control AtOnce(inout headers h, inout metadata m, inout standard_metadata_t s) {
    apply { s.egress_spec = 3 - s.ingress_port; }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { } }
V1Switch(P(), V(), AtOnce(), E(), C(), D()) main;
"""


@needs_machine
@pytest.mark.system
def test_a_network_forwards_before_its_program_is_compiled_and_after(tmp_path: Path) -> None:
    program = tmp_path / "wire.p4"
    program.write_text(WIRE)
    _, source = write_source(compile_cached(program).json.read_text())
    for kept in cache_dir().glob(f"{JIT.place_of(source.stem)}*"):
        kept.unlink()
    with weft.up(weft.single(2), program=program) as net:
        world = net.backend
        assert isinstance(world, EmulatedWorld)
        said = world.said()
        assert said[0].startswith("programs run in the plain form")
        ping = "ping", "-c", 1, net.host("h1").ip
        net.host("h0").run(*ping, check=True)
        world.wait_for_code()
        assert world.plain() == []
        said += world.said()
        assert said[1:] == ["all programs run as machine code from here on"]
        net.host("h0").run(*ping, check=True)
