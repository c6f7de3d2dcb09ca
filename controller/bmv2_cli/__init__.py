"""The language of BMv2's command line, simple_switch_CLI, over P4Runtime and the switch's own
calls."""
