"""The fake cluster goes through the scenarios that real brokers go through in `integration/`."""

from __future__ import annotations

import pytest

from aioprod.testing import FakeCluster
from tests.support.broker_scenarios import SCENARIOS, Scenario
from tests.support.lab import open_lab

CASES = [(one, level) for one in SCENARIOS for level in (1, 2) if one.level in (None, level)]


@pytest.mark.parametrize(("scenario", "level"), CASES, ids=str)
async def test_scenario(scenario: Scenario, level: int) -> None:
    async with FakeCluster(transaction_version=level) as cluster, open_lab(cluster.bootstrap, level) as lab:
        await scenario.play(lab)
