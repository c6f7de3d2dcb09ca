"""Scenarios that are run first, in another form, to know what they ask for."""

from dataclasses import replace

from weft.base.progress import Progress
from weft.experiments.scenario.sweep import Experiment


def settled(experiment: Experiment, progress: Progress, later: bool = False) -> Experiment:
    """Return an experiment of which all is known that its scenarios ask for.

    Args:
        later: whoever runs a point finds that out, so nothing is but checked.

    Raises:
        InputError: one asks for what makes no sense.
        RunError: what had to be run for it did not come to its end.
    """
    known = [point.scenario.family.is_settled(point.scenario) for point in experiment.points]
    if all(known) or later:
        return experiment
    points = []
    with progress.stage("alone", "Simulate communication alone") as advance:
        for number, point in enumerate(experiment.points):
            points.append(replace(point, scenario=point.scenario.family.settled(point.scenario)))
            advance((number + 1) / len(experiment.points))
    return replace(experiment, points=tuple(points))
