"""Run by test_p4runtime_clients.py in the environment of p4runtime-shell: calls as exercises of the
P4 tutorials make them of the tutorials' p4runtime_lib. Prints the table and the action that it
read."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pb2, message_factory


def old_config() -> Any:
    """The module p4.tmp.p4config_pb2, which the package p4runtime had once, and the library asks
    for: the program is in a message of its own, which BMv2 takes, too."""
    file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp")
    message = file.message_type.add(name="P4DeviceConfig")
    for number, name, kind in ((1, "reassign", 8), (3, "device_data", 12)):
        message.field.add(name=name, number=number, type=kind, label=1)
    module: Any = ModuleType("p4.tmp.p4config_pb2")
    module.P4DeviceConfig = message_factory.GetMessages([file])["p4.tmp.P4DeviceConfig"]
    return module


def main(tutorials: str, address: str, p4info: str, program: str, requests: str) -> None:
    package: Any = ModuleType("p4.tmp")
    package.p4config_pb2 = old_config()
    sys.modules.update({"p4.tmp": package, "p4.tmp.p4config_pb2": package.p4config_pb2})
    sys.path.append(f"{tutorials}/utils")
    import p4runtime_lib.bmv2
    import p4runtime_lib.helper
    from p4runtime_lib.switch import ShutdownAllSwitchConnections

    helper = p4runtime_lib.helper.P4InfoHelper(p4info)
    switch = p4runtime_lib.bmv2.Bmv2SwitchConnection(
        name="s1", address=address, device_id=1, proto_dump_file=requests
    )
    switch.MasterArbitrationUpdate()
    switch.SetForwardingPipelineConfig(p4info=helper.p4info, bmv2_json_file_path=program)
    entry = helper.buildTableEntry(
        table_name="TheIngress.exact_table",
        match_fields={"hdr.data.a": 1, "hdr.data.b": 0x102},
        action_name="TheIngress.send",
        action_params={"port": 5},
    )
    switch.WriteTableEntry(entry)
    for response in switch.ReadTableEntries():
        for entity in response.entities:
            found = entity.table_entry
            action = found.action.action.action_id
            print(helper.get_tables_name(found.table_id), helper.get_actions_name(action))
    ShutdownAllSwitchConnections()


if __name__ == "__main__":
    main(*sys.argv[1:])
