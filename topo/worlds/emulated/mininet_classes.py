"""Mininet's own classes. No other module imports Mininet."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from weft.base.errors import MachineError


@contextmanager
def _distutils_for_mininet() -> Iterator[None]:
    """Lend Mininet 2.3 the one name that it takes from distutils, which Python 3.12 no longer has,
    and with which Debian's setuptools, a tenth of a second, would be imported before that.

    Mininet compares Open vSwitch's versions with it, and nothing here uses Open vSwitch. The name
    is taken away again afterwards, so that nobody else takes it for distutils.
    """
    if "distutils" in sys.modules:
        yield
        return
    package, version = ModuleType("distutils"), ModuleType("distutils.version")
    vars(version)["StrictVersion"] = str
    sys.modules.update({"distutils": package, "distutils.version": version})
    try:
        yield
    finally:
        del sys.modules["distutils"], sys.modules["distutils.version"]


try:
    with _distutils_for_mininet():
        from mininet.cli import CLI as CLI
        from mininet.link import Intf as Intf
        from mininet.link import Link as Link
        from mininet.log import info as info
        from mininet.log import lg as lg
        from mininet.net import Mininet as Mininet
        from mininet.node import Host as Host
        from mininet.node import Node as Node
        from mininet.node import Switch as Switch
except ImportError as error:
    raise MachineError(
        f"Mininet cannot be imported by {sys.executable} ({error}): install Debian's or Ubuntu's "
        "package with `apt-get install mininet`, and use a virtual environment of /usr/bin/python3 "
        "with --system-site-packages"
    ) from error
