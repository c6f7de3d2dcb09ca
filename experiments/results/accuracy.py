"""How far a run's sums are from the exact ones."""

import msgspec


class Accuracy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a run's sums are from the exact sums of what the ranks contributed.

    Exact sums are known to twice float64's precision (`weft.agents.collectives.sum_errors`). Each
    figure is that of the worst rank. r is an element of the result, and s the exact one; for an
    average, s is the exact average.
    """

    error_max_relative: float
    """The greatest |r - s| / |s|, of elements with s other than 0."""
    error_rms_relative: float
    """The root mean square of r - s, over that of s."""
    error_max_of_terms: float
    """The greatest |r - s| over the sum (for an average, the average) of the magnitudes that were
    added: unlike a relative error, it does not grow by cancellation."""
    error_max_of_bound: float
    """The greatest |r - s| over what theory allows it to be; a run in which it is above 1 is not
    verified."""
