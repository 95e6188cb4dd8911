"""Sequence numbers: the same faults leave both builds with the same log and the same outcomes."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builds import Build, check_same


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 5]), st.sampled_from([0, 3, 1000]), st.sampled_from([0, 32766]))
@settings(max_examples=60)
def test_any_faults(seed: int, in_flight_max: int, retries: int, epoch: int) -> None:
    def run(build: Build) -> object:
        module = build["tests.support.sequence_model"]
        options = {"in_flight_max": in_flight_max, "retries": retries, "epoch": epoch}
        model = module.random_run(Random(seed), 150, module.Model, **options)
        failed = {value: family.__name__ for value, family in model.completions.failed.items()}
        return model.log.values, model.completions.delivered, failed, model.sequences.bumps, model.sequences.epoch

    check_same(run)
