"""How p4-utils' controllers find switches, by the ports of a network that is up; and how they
fail."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from weft.base.arguments import whole
from weft.base.errors import InputError, WeftError
from weft.base.units import shown
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.client import Session
from weft.controller.handles.switch import SwitchHandle
from weft.controller.remote import SwitchError
from weft.topo.worlds.emulated.testbeds import find_testbed

THRIFT_PORT = 9090
"""The Thrift port of the first switch, as p4-utils gives them; the next one has the next."""
GRPC_PORT = 9559
"""The same of gRPC ports."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")
Self = TypeVar("Self", bound="Controller")

SwitchName: TypeAlias = int | str | Session | SwitchHandle
"""What a controller names a switch by: a port; also its name, or a handle or session of it."""


def session_of(switch: SwitchName, first: int, what: str, run: str | None = None) -> Session:
    """Return a session with a switch.

    Args:
        switch: the switch; a port counts from ``first`` on, in the order of the network.
        what: what the port is called in messages.
        run: which network, if several are up.

    Raises:
        InputError: no network is up, or it has no such switch.
    """
    if isinstance(switch, Session):
        return switch
    if isinstance(switch, SwitchHandle):
        return switch.session
    testbed = find_testbed(run)
    names = list(testbed.switches)
    if isinstance(switch, str) and not switch.isdecimal():
        name = switch
    else:
        port = int(switch) if isinstance(switch, str) else whole(what, switch, str(first))
        if not first <= port < first + len(names):
            last = f"{first + len(names) - 1} ({names[-1]})"
            raise InputError(
                f"{what} {shown(port)}: the switches of testbed {testbed.run_id} have "
                f"{first} ({names[0]}) to {last}"
            )
        name = names[port - first]
    found = testbed.choose([name])[name]
    return Session(name, found.device_id, found.address, election_id=None)


class Controller(Protocol):
    """A controller of one switch."""

    switch: CommandSwitch


def told(
    method: Callable[Concatenate[Self, Parameters], Returned],
) -> Callable[Concatenate[Self, Parameters], Returned | None]:
    """Print why a method fails, and return None, as p4-utils does; a switch that is gone raises
    SwitchError."""

    @wraps(method)
    def telling(
        self: Self, /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Returned | None:
        self.switch.forget()
        try:
            return method(self, *args, **kwargs)
        except SwitchError:
            raise
        except WeftError as error:
            print(error)
            return None

    return telling
