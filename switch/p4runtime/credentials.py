"""What a P4Runtime server shows of itself to clients, and asks of them, where it has TLS."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Credentials:
    """PEM texts: the server's certificate and key, and the authority of its clients'."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None
    client_needed: bool = False
    """Whether clients without a certificate of that authority are turned away."""
