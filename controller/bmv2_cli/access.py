"""The access of commands to one switch: its program, what it reads and writes, its memo."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc

from weft.controller.bmv2_cli.program import ProgramView
from weft.controller.bmv2_cli.refusals import Codes, CommandError, OperationRefused, told_as
from weft.controller.client import PROGRAM_DEADLINE_S, LoadableProgram, Session
from weft.controller.remote import SwitchError
from weft.switch.messages import p4runtime_pb2


class Access:
    """Access to a switch by a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._program: ProgramView | None = None
        self._number: int | None = None
        self.has_memo = True
        """False once it is known that the switch keeps none, as BMv2, which does not tell its
        groups either."""
        self._memo: dict[str, Any] = {}
        """What is kept of a switch that has no memo, for as long as the session lasts."""

    @property
    def program(self) -> ProgramView:
        """The program that the switch runs. Raises SwitchError if it tells none."""
        if self._program is None:
            self._number = self._program_number()
            config = self.session.learn_program().config
            self._program = ProgramView(config.p4info, config.p4_device_config)
        return self._program

    def forget(self) -> None:
        """Ask for the program anew if it may be another one by now."""
        if self._number is None or self._number != self._program_number():
            self._program = None

    def _program_number(self) -> int | None:
        """Return the number of the program, where the switch has such numbers."""
        with suppress(CommandError):
            return int(self.own_call("program"))
        return None

    def read(self, **query: Any) -> list[Any]:
        """Return the entities that a query selects; the keyword names the kind of entity."""
        return self.session.read([p4runtime_pb2.Entity(**query)])

    def write(
        self, kind: str, entities: Sequence[Any], what: str, operation: str, codes: Codes
    ) -> None:
        """Insert, modify or delete entities; ``operation`` and ``codes`` say in BMv2's words what
        is refused. Whoever owns the switch by then is taken over."""
        if not entities:
            return
        with told_as(operation, codes):
            self.session.take_over()
            try:
                self.session.send(kind, entities, what)
            except SwitchError as error:
                if error.code != "PERMISSION_DENIED":
                    raise
                self.session.take_over()
                self.session.send(kind, entities, what)

    def set_config(self, action: str, program: LoadableProgram | None = None) -> None:
        """Save a program beside the one that runs (VERIFY_AND_SAVE), or let the saved one run
        (COMMIT)."""
        session = self.session
        session.take_over()
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=session.client.device_id, action=action
        )
        request.election_id.high, request.election_id.low = session.client.election_id
        if program is not None:
            request.config.CopyFrom(program.config)
        try:
            session.client.stub.SetForwardingPipelineConfig(request, timeout=PROGRAM_DEADLINE_S)
        except grpc.RpcError as error:
            code = {"NOT_FOUND": "NO_ONGOING_SWAP"}.get(error.code().name, "ERROR")
            raise OperationRefused("swap", code, error.details()) from None
        self._program = None

    def own_call(self, name: str, **arguments: Any) -> Any:
        """Return the answer to a call of the switch's own (`Session.own_call`)."""
        try:
            return self.session.own_call(name, **arguments)
        except SwitchError as error:
            if error.code == "UNIMPLEMENTED":
                raise CommandError(
                    f"Error: {self.session.where} does not have this: it is no switch of Weft's"
                ) from None
            raise

    def memo(self) -> dict[str, Any]:
        """Return what is kept in the switch of what P4Runtime has no place for."""
        with suppress(CommandError):
            found = json.loads(self.own_call("memo") or "{}")
            return dict(found)
        self.has_memo = False
        return self._memo

    def keep_memo(self, memo: dict[str, Any]) -> None:
        """Keep that until the switch gets another program."""
        self._memo = memo
        with suppress(CommandError):
            self.own_call("keep_memo", text=json.dumps(memo))
