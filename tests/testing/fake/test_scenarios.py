"""The fake cluster goes through the scenarios that real brokers go through in `integration/`."""

from __future__ import annotations

import pytest

from aioprod.testing import FakeCluster
from tests.support.broker_scenarios import SCENARIOS, Scenario
from tests.support.lab import open_lab
from tests.support.random_requests import play

CASES = [(one, level) for one in SCENARIOS for level in (1, 2) if one.level in (None, level)]


@pytest.mark.parametrize(("scenario", "level"), CASES, ids=str)
async def test_scenario(scenario: Scenario, level: int) -> None:
    async with FakeCluster(transaction_version=level) as cluster, open_lab(cluster.bootstrap, level) as lab:
        await scenario.check(lab)


async def test_the_same_requests_get_the_same_answers() -> None:
    answers = []
    for _ in range(2):
        async with FakeCluster(seed=5) as cluster, open_lab(cluster.bootstrap, 2) as lab:
            answers.append(await play(lab, seed=11, steps=150))
    assert answers[0] == answers[1]
