"""Attacks on Weft, for its developers: ``./weft attack``, or ``python -m weft.tools.attack``.

Each module of `weft.tools.attack.kinds` is one kind of attack, as `weft.tools.attack.kind.Kind`
has it: kills of a run's processes, signals, faults, hostile packets and clients, mutated inputs.
Trials of all kinds are made until the time is over; each draws from a seed of its own, so that one
that failed can be repeated alone.
"""
