"""A schema registry inside the test's process."""

from __future__ import annotations

from aioprod.testing.schema_registry.fake import FakeSchemaRegistry

__all__ = ["FakeSchemaRegistry"]
