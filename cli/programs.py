"""`weft.switch`'s own commands: ``p4c``, ``stf``, ``ptf``, ``lsp`` and ``switch``."""

from weft.cli.command_line import app
from weft.switch.commands import command_line

app.command(cls=command_line.P4cCommand)(command_line.p4c)
app.command()(command_line.stf)
app.command()(command_line.ptf)
app.command()(command_line.lsp)
app.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    help="Run one built-in switch in place of simple_switch_grpc: weft switch --help.",
)(command_line.switch)
