"""Links that go on with other figures while their network is up: what is asked for, and what comes
of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import (
    format_duration,
    format_rate,
    listed,
    parse_duration,
    parse_probability,
    parse_rate,
)
from weft.topo.figures import check_link_figures
from weft.topo.network import Link

FIGURES = ("delay", "jitter", "loss", "rate")
"""What can be changed, by the names that network files have."""


@dataclass(frozen=True)
class LinkChange:
    """Other figures of a link, in both directions; None: as it is."""

    delay: str | int | None = None
    """``"10ms"``, or ns."""
    jitter: str | int | None = None
    """By how much at most a delay is greater or less, at random."""
    loss: str | float | None = None
    """The probability by which a packet is lost: ``"1%"``, or 0.01."""
    rate: str | int | None = None
    """``"10Mbit"``, or bit/s."""

    @staticmethod
    def of_words(words: Sequence[str], what: str) -> "LinkChange":
        """Return what words like ``delay=10ms`` say. Raises InputError, which begins with
        ``what``."""
        found: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if name not in FIGURES or not equals:
                raise InputError(
                    f"{what}: {word!r} is no figure of a link{did_you_mean(name, FIGURES)}: write "
                    f"{listed([f'{each}=VALUE' for each in FIGURES], 'or')}, as delay=10ms"
                )
            refuse(name in found, f"{what}: {name} is there twice")
            found[name] = value
        return LinkChange(**found)

    def applied(self, link: Link) -> Link:
        """Return the link as it goes on, which is one as it is now.

        Raises InputError for figures that it cannot have.
        """
        what = f"link {link.name}"
        changed = link
        if self.rate is not None:
            changed = replace(changed, rate_bps=parse_rate(self.rate, f"{what}: rate"))
        if self.delay is not None:
            changed = replace(changed, delay_ns=parse_duration(self.delay, f"{what}: delay"))
        if self.jitter is not None:
            changed = replace(changed, jitter_ns=parse_duration(self.jitter, f"{what}: jitter"))
        if self.loss is not None:
            changed = replace(changed, loss=parse_probability(self.loss, f"{what}: loss"))
        figures = changed.rate_bps, changed.delay_ns, changed.queue_bytes, changed.jitter_ns
        try:
            check_link_figures(*figures)
        except InputError as error:
            raise InputError(f"{what}: {str(error).removeprefix('link ')}") from None
        return changed


def figures_of(link: Link) -> str:
    """Return a link's figures for people."""
    parts = [
        f"delay {format_duration(link.delay_ns)}" if link.delay_ns else "",
        f"jitter {format_duration(link.jitter_ns)}" if link.jitter_ns else "",
        f"loss {100 * link.loss:.3g} %" if link.loss else "",
        f"rate {format_rate(link.rate_bps)}",
    ]
    return ", ".join(filter(None, parts))
