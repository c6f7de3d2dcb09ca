"""The tiers of tests: what ``./weft test --fast`` leaves out, and what only ``--all`` runs.

*fast* takes two minutes on two processors: no system test, and no file of `LONG`. *whole* is what
``./weft test`` runs, and is to take a quarter of an hour: all but the tests that are marked
``slow``, which are the tier *slow*. *all* is everything, as continuous integration runs it.
"""

from __future__ import annotations

import pytest

TIERS = ("fast", "whole", "slow", "all")

LONG = frozenset(
    [
        "test_accuracy",
        "test_aggregation",
        "test_aggregation_faults",
        "test_allreduce",
        "test_attack",
        "test_bench_progress_engine",
        "test_bench_switch",
        "test_busyness",
        "test_cache",
        "test_captures",
        "test_cli",
        "test_clos",
        "test_collectives",
        "test_collectives_at_once",
        "test_collectives_faults",
        "test_collectives_multicast",
        "test_compiler_errors",
        "test_compiler_mutations",
        "test_compiler_random",
        "test_endless_inputs",
        "test_engine_bmv2",
        "test_engine_forms",
        "test_engine_loader",
        "test_engine_wide",
        "test_engines",
        "test_engines_dask",
        "test_engines_ray",
        "test_failures",
        "test_fetch",
        "test_figures",
        "test_flow_steps",
        "test_fsdp",
        "test_fused_simulated",
        "test_golden",
        "test_longest_path",
        "test_mutation",
        "test_p4runtime_fuzz",
        "test_packaging",
        "test_pattern",
        "test_plots",
        "test_random_programs",
        "test_report",
        "test_reps",
        "test_results_damage",
        "test_results_folder",
        "test_resume",
        "test_runs",
        "test_selector_hash",
        "test_servers",
        "test_servers_faults",
        "test_shell_environment",
        "test_signals",
        "test_simulated",
        "test_simulated_aggregation",
        "test_simulated_faults",
        "test_simulated_memory",
        "test_simulation",
        "test_static_paths",
        "test_stf",
        "test_storms",
        "test_sum_errors",
        "test_sweep",
        "test_switch_command",
        "test_udp",
        "test_walks",
    ]
)
"""Files of tests that take longer together, or that compile kernels or programs."""


def is_in(tier: str, item: pytest.Item) -> bool:
    """Return whether a test belongs to a tier."""
    if tier == "all":
        return True
    if item.get_closest_marker("slow") is not None:
        return tier == "slow"
    quick = item.get_closest_marker("system") is None and item.path.stem not in LONG
    return tier == "whole" or (tier == "fast" and quick)
