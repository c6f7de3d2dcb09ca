"""``weft load``: what a switch that is late has to do with the entries that it has."""

from __future__ import annotations

import pytest

from weft.cli import load
from weft.controller.client import LoadableProgram, Session
from weft.controller.remote import SwitchError
from weft.switch.messages import p4info_pb2
from weft.topo.worlds.emulated.testbeds import RunningSwitch


@pytest.mark.parametrize(
    ("code", "pushed"), [("DEADLINE_EXCEEDED", [True]), ("UNIMPLEMENTED", [True, False])]
)
def test_entries_are_given_up_only_where_a_switch_cannot_keep_them(
    code: str, pushed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def push(self: Session, program: LoadableProgram, *, keep: bool = False) -> None:
        asked.append(keep)
        if keep:
            raise SwitchError("leaf0: no", code)

    monkeypatch.setattr(Session, "push_program", push)
    monkeypatch.setattr(Session, "connect", lambda self, over: None)
    switch = RunningSwitch("unix:/nowhere", 1)
    program = LoadableProgram(p4info_pb2.P4Info(), b"")
    if code == load.LATE:
        with pytest.raises(SwitchError, match="leaf0: no"):
            load._load_into("leaf0", switch, program, over=True)
    else:
        load._load_into("leaf0", switch, program, over=True)
    assert asked == pushed
