"""Run by test_p4runtime_clients.py through weft.compat.p4runtime: calls as exercises of the P4
tutorials make them of the tutorials' p4runtime_lib. Prints the table and the action read."""

from __future__ import annotations

import sys


def main(tutorials: str, address: str, p4info: str, program: str, requests: str) -> None:
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
