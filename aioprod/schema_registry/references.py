"""The schemas that a schema refers to, with those that these refer to."""

from __future__ import annotations

from typing import Final

from aioprod.errors import SerializationError
from aioprod.schema_registry.client import SchemaRegistry
from aioprod.schema_registry.schemas import Reference, Schema

__all__ = ["referenced"]

_REFERENCES_MAX: Final = 1_000


async def referenced(registry: SchemaRegistry, schema: Schema) -> dict[str, Schema]:
    """Name -> schema of all references; raises RegistryError, and SerializationError for more than a thousand."""
    found: dict[str, Schema] = {}
    visited: set[Reference] = set()
    waiting = list(schema.references)
    while waiting:
        reference = waiting.pop()
        if reference in visited:
            continue
        visited.add(reference)
        if len(visited) > _REFERENCES_MAX:
            raise SerializationError(f"the schema refers to more than {_REFERENCES_MAX} others.")
        version = await registry.version(reference.subject, reference.version)
        found[reference.name] = version.schema
        waiting += version.schema.references
    return found
