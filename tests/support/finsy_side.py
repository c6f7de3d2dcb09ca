"""Run by test_p4runtime_clients.py where finsy is: a controller with it, which gives a switch its
program and an entry, and reads that back. Prints what it read."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import finsy as fy


async def main(address: str, device_id: str, p4info: str, program: str) -> None:
    options = fy.SwitchOptions(p4info=Path(p4info), p4blob=Path(program), device_id=int(device_id))
    async with fy.Switch("leaf0", address, options) as switch:
        entry = fy.P4TableEntry(
            "exact_table",
            match=fy.Match({"hdr.data.a": 1, "hdr.data.b": 0x102}),
            action=fy.Action("send", port=5),
        )
        await switch.write([+entry])
        async for read in switch.read(fy.P4TableEntry("exact_table")):
            print(read.table_id, dict(read.match or {}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
