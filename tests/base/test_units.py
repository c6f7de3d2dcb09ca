"""Sizes, rates and probabilities as people write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.base.units import (
    format_duration,
    format_rate,
    format_size,
    parse_probability,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4096", 4096), (0, 0), ("1MiB", 1 << 20), ("64K", 65536), ("1.5 KiB", 1536), ("1MB", 10**6)],
)
def test_sizes_are_read_in_bytes(text: str | int, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [("100Mbit", 10**8), ("1gbit/s", 10**9), ("2500000", 2_500_000), ("20Mbps", 2 * 10**7),
     ("64Kbit", 64_000), ("3kbps", 3000), ("5K", 5000), ("2M", 2 * 10**6), ("4Gbps", 4 * 10**9),
     ("1G", 10**9)],
)  # fmt: skip
def test_rates_are_read_in_bits_a_second(text: str, rate_bps: int) -> None:
    assert parse_rate(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "probability"), [("0.01", 0.01), ("1%", 0.01), (1, 1.0), ("0", 0.0), ("100%", 1.0)]
)
def test_probabilities_are_fractions_or_percent(text: str | float, probability: float) -> None:
    assert parse_probability(text) == pytest.approx(probability)


@pytest.mark.parametrize("text", ["", "MiB", "1 parsec", "-1", "1e9", "0.5", "nan"])
def test_a_bad_size_is_named_and_an_example_given(text: str) -> None:
    with pytest.raises(InputError, match=r"size.*1MiB") as caught:
        parse_size(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["9" * 400, "9" * 400 + "Gbit", "2." + "0" * 400, "9" * 21, 10**400, 10**5000, "\uff14",
     "\uff11%", "1_0", "1_0%"],
    ids=lambda text: type(text).__name__,
)  # fmt: skip
def test_long_numbers_and_digits_of_other_scripts_are_refused_in_a_short_message(
    text: str | int,
) -> None:
    for parse in (parse_size, parse_rate, parse_probability):
        with pytest.raises(InputError) as caught:
            parse(text)
        assert len(str(caught.value)) < 200


def test_large_quantities_are_exact() -> None:
    assert parse_size("12345678901234567891") == 12345678901234567891
    assert parse_rate("1.000000001Gbit") == 1_000_000_001
    assert parse_size("0.1KB") == 100


@given(st.text())
def test_any_text_is_a_quantity_or_an_input_error(text: str) -> None:
    for parse in (parse_size, parse_rate, parse_probability):
        with suppress(InputError):
            assert parse(text) >= 0


def test_quantities_are_written_with_a_fitting_unit() -> None:
    assert format_size(1 << 20) == "1 MiB"
    assert format_size(512) == "512 B"
    assert format_rate(10**8) == "100 Mbit/s"
    assert format_duration(598_000_000) == "598 ms"
