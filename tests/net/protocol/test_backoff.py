from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.net.protocol.backoff import JITTER, Backoff


def test_doubles_around_the_nominal_delay() -> None:
    backoff = Backoff(0.05, 100.0)
    random = Random(7)
    for step in range(8):
        nominal = 0.05 * 2**step
        delays = [backoff.delay_s(step, random) for _ in range(50)]
        assert all(nominal * (1 - JITTER) <= delay <= nominal * (1 + JITTER) for delay in delays)
        assert len(set(delays)) > 1


@pytest.mark.parametrize("step", [5, 63, 64, 10_000, 10**9])
def test_never_exceeds_the_limit_nor_overflows(step: int) -> None:
    random = Random(1)
    delays = [Backoff(0.05, 1.0).delay_s(step, random) for _ in range(100)]
    assert max(delays) == 1.0
    assert min(delays) >= 0.8


def test_clients_at_the_limit_spread_out() -> None:
    """As with Java: half of the delays at the limit are shorter."""
    random = Random(1)
    shorter = sum(Backoff(0.05, 1.0).delay_s(20, random) < 0.99 for _ in range(1000))
    assert 400 < shorter < 600


def test_the_same_seed_gives_the_same_delays() -> None:
    backoff = Backoff(0.1, 1.0)
    first, second = Random(3), Random(3)
    assert [backoff.delay_s(n, first) for n in range(5)] == [backoff.delay_s(n, second) for n in range(5)]


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.integers(0, 200), st.randoms(use_true_random=False))
def test_is_between_zero_and_the_limit(initial_s: float, max_s: float, step: int, random: Random) -> None:
    assert 0.0 <= Backoff(initial_s, max_s).delay_s(step, random) <= max_s
