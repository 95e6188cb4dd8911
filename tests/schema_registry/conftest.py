"""Fixtures of the tests of the schema registry."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aioprod.schema_registry import SchemaRegistry
from aioprod.testing import FakeSchemaRegistry


@pytest.fixture
async def registry(fake_schema_registry: FakeSchemaRegistry) -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry(fake_schema_registry.url, retry_backoff_ms=1) as registry:
        yield registry
