"""The fake cluster goes through the scenarios that real brokers go through in `integration/`."""

from __future__ import annotations

import pytest

from aioprod.testing import FakeCluster
from tests.support.broker_scenarios import SCENARIOS
from tests.support.lab import open_lab


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_scenario(scenario: str, level: int) -> None:
    async with FakeCluster(transaction_version=level) as cluster, open_lab(cluster.bootstrap, level) as lab:
        await SCENARIOS[scenario](lab)
