"""An editor that speaks the debug adapter protocol by raw messages."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from weft.switch.debugger.adapter.framing import encoded

Message = dict[str, Any]


class Editor:
    """An editor's end: it numbers requests, and keeps events until they are asked for."""

    def __init__(self, outgoing: BinaryIO, incoming: BinaryIO) -> None:
        self.outgoing, self.incoming = outgoing, incoming
        self.number = 0
        self.events: list[Message] = []

    def send(self, command: str, **arguments: Any) -> int:
        self.number += 1
        self.raw(encoded({"seq": self.number, "type": "request", "command": command,
                          "arguments": arguments}))  # fmt: skip
        return self.number

    def raw(self, data: bytes) -> None:
        self.outgoing.write(data)
        self.outgoing.flush()

    def read(self) -> Message:
        header = self.incoming.readline()
        assert header.startswith(b"Content-Length: ") and header.endswith(b"\r\n")
        assert self.incoming.readline() == b"\r\n"
        message: Message = json.loads(self.incoming.read(int(header.split()[1])))
        return message

    def response(self, number: int) -> Message:
        while (message := self.read())["type"] == "event":
            self.events.append(message)
        assert message["request_seq"] == number
        return message

    def ask(self, command: str, **arguments: Any) -> Any:
        answer = self.response(self.send(command, **arguments))
        assert answer["success"], answer
        assert answer["command"] == command
        return answer["body"]

    def refused(self, command: str, **arguments: Any) -> str:
        answer = self.response(self.send(command, **arguments))
        assert not answer["success"]
        return str(answer["message"])

    def event(self, wanted: str) -> Message:
        while True:
            for number, message in enumerate(self.events):
                if message["event"] == wanted:
                    del self.events[: number + 1]
                    body: Message = message["body"]
                    return body
            message = self.read()
            assert message["type"] == "event", message
            self.events.append(message)

    def launch(self, **arguments: Any) -> None:
        assert self.ask("initialize", adapterID="weft")["supportsConfigurationDoneRequest"]
        self.ask("launch", **arguments)
        self.event("initialized")

    def top(self) -> tuple[str, int]:
        frame = self.ask("stackTrace", threadId=1)["stackFrames"][0]
        return frame["name"], frame["line"]
