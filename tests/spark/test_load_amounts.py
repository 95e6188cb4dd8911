"""Rates and sizes as people write them."""

from __future__ import annotations

import pytest

from aioprod._words import bytes_of
from aioprod.errors import ConfigError
from aioprod.spark.loading.amounts import bytes_s


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (1000, 1000.0),
        (0.5, 0.5),
        ("5e", "invalid"),
        ("1000", 1000.0),
        ("50MB/s", 50e6),
        ("50 mb / s", 50e6),
        ("1.5GB", 1.5e9),
        ("512KiB/s", 512 * 1024.0),
        ("2MiB", 2 * 1024.0**2),
        ("1GiB/s", 1024.0**3),
        ("7kB/s", 7000.0),
        ("20B/s", 20.0),
        ("", "invalid"),
        ("MB/s", "invalid"),
        ("-5MB/s", "invalid"),
        ("50MB/h", "invalid"),
        ("50 apples", "invalid"),
        (0, "invalid"),
        (-1.0, "invalid"),
        (float("nan"), "invalid"),
        (float("inf"), "invalid"),
        (True, "invalid"),
        ([], "invalid"),
        ("9" * 400, "invalid"),
    ],
)
def test_a_rate(given: object, expected: object) -> None:
    if expected == "invalid":
        with pytest.raises(ConfigError, match="rate is"):
            bytes_s(given)  # type: ignore[arg-type]
    else:
        assert bytes_s(given) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_234_000, "1.23 MB"), (5e10, "50 GB"), (2e15, "2e+03 TB")],
)
def test_a_size(size: float, text: str) -> None:
    assert bytes_of(size) == text
