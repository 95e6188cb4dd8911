"""The fake registry passes the scenarios that a real one passes (`integration/test_schema_registry.py`)."""

from __future__ import annotations

import pytest

from aioprod.schema_registry import SchemaRegistry
from tests.support.registry_scenarios import SCENARIOS, Scenario, fresh_prefix


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_scenario(registry: SchemaRegistry, scenario: Scenario) -> None:
    await scenario(registry, fresh_prefix())
