"""The engine of the built-in switch: BMv2 JSON to machine code, tables, queues, multicast."""
