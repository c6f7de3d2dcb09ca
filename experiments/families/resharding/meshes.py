"""Meshes of devices: which hosts they are on, and what shape they have."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from weft.base.arguments import texts, whole, wholes
from weft.base.errors import InputError, refuse

MOST_DEVICES = 1 << 16
"""The most devices of a mesh."""


class MeshDevice(NamedTuple):
    """A device is the `local`-th of those of a host, which share its link."""

    host: int
    """The number of the host: its rank."""
    local: int


@dataclass(frozen=True)
class Mesh:
    """A mesh is devices of hosts, in rows, columns and so on; device i, in row-major order, is
    device i % D of the (i // D)-th host, where every host has D.

    Lists become tuples.

    Raises:
        InputError: hosts or dimensions that make no mesh, or arguments of other types.
    """

    hosts: tuple[int, ...]
    """The numbers of the hosts, all different."""
    devices: int
    """D: devices of each host."""
    shape: tuple[int, ...] = ()
    """The sizes of the dimensions; empty: hosts x devices."""
    names: tuple[str, ...] = ()
    """What the dimensions are called; empty: by their numbers."""

    def __post_init__(self) -> None:
        for field, value in (
            ("hosts", wholes("hosts of a mesh", self.hosts, "(0, 1)")),
            ("devices", whole("devices of a mesh", self.devices, "4")),
            ("shape", wholes("shape of a mesh", self.shape, "(2, 4)")),
            ("names", texts("names of a mesh", self.names, "('dp', 'tp')")),
        ):
            object.__setattr__(self, field, value)
        if not self.hosts:
            raise InputError("a mesh without hosts: it has one at least")
        twice = next((host for host in self.hosts if self.hosts.count(host) > 1), None)
        if twice is not None:
            raise InputError(
                f"a mesh has host {twice} twice (of {', '.join(map(str, self.hosts))}): name each "
                "host once"
            )
        if min(self.hosts) < 0:
            raise InputError(f"a mesh has host {min(self.hosts)}: hosts count from 0")
        refuse(
            self.devices < 1,
            f"a mesh with {self.devices} devices a host: 1 at least is valid",
        )
        refuse(
            len(self.hosts) * self.devices > MOST_DEVICES,
            f"a mesh of {len(self.hosts)} hosts with {self.devices} devices each has "
            f"{len(self.hosts) * self.devices}: at most {MOST_DEVICES} are valid",
        )
        if not self.shape:
            object.__setattr__(self, "shape", (len(self.hosts), self.devices))
        if min(self.shape) < 1 or prod(self.shape) != self.size:
            raise InputError(
                f"a mesh of shape {'x'.join(map(str, self.shape))} on {len(self.hosts)} hosts with "
                f"{self.devices} devices each, which are {self.size}: choose sizes whose product "
                "is that"
            )
        if bool(self.names) and not len({*self.names}) == len(self.names) == len(self.shape):
            raise InputError(
                f"a mesh of {len(self.shape)} dimensions with the names {', '.join(self.names)}: "
                "give each dimension a name of its own"
            )

    @property
    def size(self) -> int:
        """Return the number of devices."""
        return len(self.hosts) * self.devices

    @cached_property
    def mesh_devices(self) -> tuple[MeshDevice, ...]:
        """Return the devices in row-major order."""
        return tuple(
            MeshDevice(host, local) for host in self.hosts for local in range(self.devices)
        )

    def coordinates(self, device: int) -> tuple[int, ...]:
        """Return the place of a device, given by its number, in each dimension."""
        place = []
        for size in reversed(self.shape):
            device, within = divmod(device, size)
            place.append(within)
        return tuple(reversed(place))

    def describe(self) -> str:
        """Return the shape as messages have it: ``2x4``."""
        return "x".join(map(str, self.shape))
