"""pytest's fixtures for switches and networks; pytest finds this by its entry point ``pytest11``.

::

    def test_a_router_counts_down_the_time_to_live(weft_switch):
        switch = weft_switch("router.p4", ports=2)
        switch.table("route").insert({"dst": "10.0.1.0/24"}, "forward", port=2)
        switch.send(1, Ether() / IP(dst="10.0.1.5", ttl=9))
        switch.expect(2, lambda packet: packet[IP].ttl == 8)

By default all of it is in this process, in virtual time, without root. ``--weft-world emulated``
runs the same tests on real interfaces, and ``--weft-bmv2`` on BMv2; both need root. A test that
fails shows the way of its last packet through the program.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # it takes a second, which sessions without such tests do not have to wait for
    from weft.interface.net import Net
    from weft.interface.switch_test import SwitchUnderTest

KEEPS = ("test", "module", "session")
_SWITCHES = pytest.StashKey[list[Any]]()
_KEPT = pytest.StashKey[dict[Any, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say where switches and networks of tests are."""
    group = parser.getgroup("weft", "Weft: switches and networks under test")
    group.addoption(
        "--weft-world",
        choices=("simulated", "emulated"),
        default="simulated",
        help="the world of weft_switch and weft_net: simulated, in this process (the default), or "
        "emulated, in network namespaces, as root",
    )
    group.addoption(
        "--weft-bmv2",
        action="store_true",
        help="run the same tests on BMv2 (simple_switch_grpc), in the emulated world",
    )


def _options(config: pytest.Config, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `weft.up` for a test, which the command line's give way to."""
    if config.getoption("--weft-bmv2"):
        return {"world": "emulated", "switch": "bmv2", **options}
    return {"world": config.getoption("--weft-world"), **options}


@contextmanager
def _told() -> Iterator[None]:
    """Let a test fail with the message alone, if Weft refuses something."""
    from weft.base.errors import WeftError

    said = ""
    try:
        yield
    except WeftError as error:
        said = str(error)
    if said:
        raise pytest.fail.Exception(said, pytrace=False) from None


def _enter(request: pytest.FixtureRequest, net: "Net", keep: str) -> "Net":
    """Bring a network up; it is taken down at the end of the test, module or session."""
    stack = ExitStack()
    with _told():
        stack.enter_context(net)
    node: Any = request.node
    if keep == "module":
        node = node.getparent(pytest.Module)
    elif keep == "session":
        node = request.session
    node.addfinalizer(stack.close)
    return net


def _made(request: pytest.FixtureRequest, network: Any, keep: str, options: Any) -> "Net":
    """Return a network that is up: the one that there is, if it is kept, or a new one."""
    from weft.interface.up import up

    if keep not in KEEPS:
        pytest.fail(f"keep={keep!r}: {', '.join(KEEPS)} are possible", pytrace=False)
    chosen = _options(request.config, options)

    def new() -> "Net":
        with _told():
            net = up(network, **chosen)
        return _enter(request, net, keep)

    if keep == "test":
        return new()
    place: Any = request.session
    if keep == "module":
        place = request.node.getparent(pytest.Module)
    kept = place.stash.setdefault(_KEPT, {})
    key = (_identity(network), repr({name: _identity(each) for name, each in chosen.items()}))
    if key not in kept:
        kept[key] = new()
        place.addfinalizer(lambda: kept.pop(key))
    found: Net = kept[key]
    return found


def _identity(value: Any) -> Any:
    """Return what two values have in common that mean the same: of a path, where the file is and
    what it holds now; of any other value, the value itself."""
    if isinstance(value, Mapping):
        return {name: _identity(each) for name, each in value.items()}
    if not isinstance(value, str | os.PathLike):
        return value
    try:
        content = Path(value).read_bytes()
    except (OSError, ValueError):  # no path, or of no file, as `weft.up` will say
        return value
    return (os.path.realpath(value), hashlib.sha256(content).hexdigest())


@pytest.fixture
def weft_net(request: pytest.FixtureRequest) -> "Callable[..., Net]":
    """Return a function that brings a network up: ``weft_net(weft.leaf_spine(2, 2, 2))``.

    It takes the arguments of `weft.up`, and ``keep``: ``"test"`` (the default), ``"module"`` or
    ``"session"``, at whose end the network is taken down. A network that is kept is the same for
    all that ask for the same one, with programs that are the same files and still hold the same.
    """

    def make(network: Any, *, keep: str = "test", **options: Any) -> "Net":
        return _made(request, network, keep, options)

    return make


@pytest.fixture
def weft_switch(request: pytest.FixtureRequest) -> "Iterator[Callable[..., SwitchUnderTest]]":
    """Return a function that brings one switch up: ``weft_switch("router.p4", ports=2)``.

    It takes the program's path, the number of ports, ``keep`` as `weft_net` does, and the options
    of `weft.up`, such as ``cpu_port=255``, ``define={"PORTS": 4}``, ``include`` and ``seed``. The
    links behind the ports have a ``rate`` (``"10Mbit"``), a ``delay`` (``"1ms"``) and room for
    ``queue`` bytes (``"64KiB"``), which are the network's own if they are left out. It returns a
    `SwitchUnderTest`.
    """
    switches: list[SwitchUnderTest] = []
    request.node.stash[_SWITCHES] = switches

    def make(
        program: Any,
        ports: int = 4,
        *,
        keep: str = "test",
        rate: str | int | None = None,
        delay: str | None = None,
        queue: str | int | None = None,
        **options: Any,
    ) -> "SwitchUnderTest":
        from weft.interface.switch_test import SwitchUnderTest, ports_of

        with _told():
            network = ports_of(ports, rate, delay, queue)
        net = _made(request, network, keep, {"program": program, **options})
        switches.append(SwitchUnderTest(net))
        return switches[-1]

    yield make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add the way of the last packet through the program to the report of a test that fails."""
    report = yield
    if report.when == "call" and report.failed:
        for switch in item.stash.get(_SWITCHES, []):
            report.sections.append((f"the last packet's way through {switch.name}", _way(switch)))
    return report


def _way(switch: Any) -> str:
    from weft.base.errors import WeftError

    try:
        return str(switch.way()) or "nothing was sent"
    except WeftError as error:
        return f"no trace: {error}"
