"""Resolution of what is asked into what is run: everything is checked, and what was left out is
filled in."""

from weft.base.errors import InputError, refuse
from weft.base.units import parse_probability
from weft.experiments.scenario import checks, path_checks
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.htsim_topology import with_htsim_topology
from weft.experiments.scenario.queues_asked import check_priorities
from weft.experiments.scenario.requests import check_requests
from weft.experiments.scenario.shape import network_of, placement_of
from weft.topo.fabric_program import fabric_macros
from weft.topo.faults.outages import Outage
from weft.topo.faults.schedule import links_of
from weft.topo.network import Topology
from weft.topo.worlds.registry import WORLDS

ALIKE = ("allgather", "broadcast")
"""The collectives that leave the same bytes on all ranks, as they were sent."""


def resolve(asked: Asked) -> Asked:
    """Return what is asked, with all defaults filled in. Raises `InputError` for what makes no
    sense."""
    checks.check_choices(asked)
    asked = checks.with_types(asked)
    asked = checks.with_notice(asked)
    asked = checks.with_algorithms(asked)
    checks.check_ranges(asked)
    asked = checks.with_seeds(asked)
    parse_probability(asked.loss, "loss")
    asked = checks.with_shape(with_htsim_topology(asked))
    asked = checks.with_filled(asked)
    fabric_macros(asked.program_values)
    asked = path_checks.with_transport(asked)
    checks.check_ranges(asked)  # limits that go by what has been filled in
    network = network_of(asked)
    asked = path_checks.with_marking(asked, network)
    asked = path_checks.with_timeouts(asked, network)
    ranks = placement_of(asked, network).ranks
    asked = checks.with_collective(asked, ranks)
    check_requests(asked, ranks)
    check_priorities(asked, network)
    _check_faults(asked, network)
    _check_world(asked, network)
    return asked


def _check_faults(asked: Asked, network: Topology) -> None:
    for fault in asked.faults:
        fault.check(network)
        WORLDS[asked.world].check_fault(fault, asked.switch)
    outages = [fault for fault in asked.faults if isinstance(fault, Outage)]
    refuse(
        asked.notice != Asked.notice and not any(links_of(each, network) for each in outages),
        f"notice {asked.notice} means nothing where no link between switches fails: name one, like "
        "--fault leaf0-spine1:fail,at=1ms, or leave notice out",
    )


def _check_world(asked: Asked, network: Topology) -> None:
    """Raise InputError for what the world, or its switches, cannot do."""
    WORLDS[asked.world].check(asked, network)
    refuse(
        asked.cores > 1 and not family_of(asked.collective).on_cores,
        f"cores {asked.cores}: {asked.collective} runs on one core yet; leave cores out",
    )
    refuse(
        asked.cores > 1 and asked.payload == "none",
        f"payload none: with cores {asked.cores} data travel with all their bytes, since what "
        "comes without is noted in one order; leave cores or payload out",
    )
    if asked.payload == "none":
        refuse(
            WORLDS[asked.world].has_real_time,
            f"payload none: in the {asked.world} world packets are real and carry their bytes; "
            "choose world 'simulated', or leave payload out",
        )
        reader = family_of(asked.collective).payload_reader(asked)
        refuse(
            reader,
            f"payload none: {asked.collective} needs the bytes of data, since it {reader}; leave "
            "payload out",
        )
    if asked.keep == "none":
        refuse(
            WORLDS[asked.world].has_real_time,
            f"keep none: in the {asked.world} world ranks' memory is theirs; choose world "
            "'simulated', or leave keep out",
        )
        if asked.collective not in ALIKE:
            raise InputError(
                f"keep none: {asked.collective} has results of which each rank needs its own; only "
                f"those of {' and '.join(ALIKE)} are the same on all ranks: leave keep out"
            )
        refuse(
            asked.cores > 1,
            f"keep none: with cores {asked.cores} results are kept, since what comes is noted in "
            "one order; leave cores or keep out",
        )
        refuse(
            asked.payload == "none",
            "keep none: with payload none there are no bytes to be kept; leave one of them out",
        )
    names = [switch.name for switch in network.switches]
    if asked.trace and asked.trace not in names:
        raise InputError(
            f"trace {asked.trace!r}: there is no such switch; there are: {', '.join(names)}"
        )
