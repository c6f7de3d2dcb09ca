"""Run by test_p4runtime_clients.py through weft.compat.p4runtime: a controller as people write them
with grpc and the package p4runtime. Prints whether it is the primary, and the keys that it read."""

from __future__ import annotations

import sys
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
from google.protobuf import text_format


def main(address: str, p4info_file: str, program: str) -> None:
    from p4.config.v1 import p4info_pb2
    from p4.tmp import p4config_pb2
    from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

    p4info: Any = p4info_pb2.P4Info()
    text_format.Parse(Path(p4info_file).read_text(), p4info)
    stub = p4runtime_pb2_grpc.P4RuntimeStub(grpc.insecure_channel(address))
    asked: Queue[Any] = Queue()
    answers = stub.StreamChannel(iter(asked.get, None))
    request = p4runtime_pb2.StreamMessageRequest()
    request.arbitration.device_id = request.arbitration.election_id.low = 1
    asked.put(request)
    print("master" if next(answers).arbitration.status.code == 0 else "none")
    config = p4config_pb2.P4DeviceConfig(reassign=True, device_data=Path(program).read_bytes())
    setting = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
    setting.action = p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    setting.election_id.low = 1
    setting.config.p4info.CopyFrom(p4info)
    setting.config.p4_device_config = config.SerializeToString()
    stub.SetForwardingPipelineConfig(setting)
    (table,) = (each for each in p4info.tables if each.preamble.name == "TheIngress.exact_table")
    (action,) = (each for each in p4info.actions if each.preamble.name == "TheIngress.send")
    write = p4runtime_pb2.WriteRequest(device_id=1)
    write.election_id.low = 1
    update = write.updates.add(type=p4runtime_pb2.Update.INSERT)
    entry = update.entity.table_entry
    entry.table_id = table.preamble.id
    for number, value in ((1, b"\1"), (2, b"\1\2")):
        entry.match.add(field_id=number).exact.value = value
    entry.action.action.action_id = action.preamble.id
    entry.action.action.params.add(param_id=1, value=b"\5")
    stub.Write(write)
    read = p4runtime_pb2.ReadRequest(device_id=1)
    read.entities.add().table_entry.table_id = table.preamble.id
    for response in stub.Read(read):
        for entity in response.entities:
            print([each.exact.value for each in entity.table_entry.match])
    asked.put(None)


if __name__ == "__main__":
    main(*sys.argv[1:])
