"""The schemas that a schema refers to, with those that these refer to."""

from __future__ import annotations

from typing import Final

from aioprod.errors import SerializationError
from aioprod.schema_registry.client import SchemaRegistry
from aioprod.schema_registry.schemas import Schema

__all__ = ["referenced"]

_REFERENCES_MAX: Final = 1_000


async def referenced(registry: SchemaRegistry, schema: Schema) -> dict[str, Schema]:
    """Name -> schema of all references, each before those that refer to it; raises RegistryError."""
    found: dict[str, Schema] = {}
    visited: set[tuple[str, str, int]] = set()

    async def visit(schema: Schema) -> None:
        for reference in schema.references:
            place = (reference.name, reference.subject, reference.version)
            if place in visited:
                continue
            visited.add(place)
            if len(visited) > _REFERENCES_MAX:
                raise SerializationError(f"the schema refers to more than {_REFERENCES_MAX} others.")
            version = await registry.version(reference.subject, reference.version)
            await visit(version.schema)
            found[reference.name] = version.schema

    await visit(schema)
    return found
