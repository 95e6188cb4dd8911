"""The schemas that a schema refers to, with those that these refer to, and the bound of them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioprod.errors import SerializationError
from aioprod.schema_registry.client import SchemaRegistry
from aioprod.schema_registry.schemas import Reference, Schema

__all__ = ["characters_of", "referenced"]

_REFERENCES_MAX: Final = 1_000
_CHARACTERS_MAX: Final = 1_048_576
"""To parse them takes a second of Avro, and a minute of JSON Schema; registries take 1 MB by default."""


async def referenced(registry: SchemaRegistry, schema: Schema) -> dict[str, Schema]:
    """Name -> schema of all references; raises RegistryError, and SerializationError for more than the limits."""
    found: dict[str, Schema] = {}
    visited: set[Reference] = set()
    waiting = list(schema.references)
    characters = len(schema.text)
    while True:
        if characters > _CHARACTERS_MAX:
            raise SerializationError(
                f"the schema, with those that it refers to, has more than {_CHARACTERS_MAX} characters."
            )
        if not waiting:
            return found
        reference = waiting.pop()
        if reference in visited:
            continue
        visited.add(reference)
        if len(visited) > _REFERENCES_MAX:
            raise SerializationError(f"the schema refers to more than {_REFERENCES_MAX} others.")
        version = await registry.version(reference.subject, reference.version)
        found[reference.name] = version.schema
        characters += len(version.schema.text)
        waiting += version.schema.references


def characters_of(schema: Schema, references: Mapping[str, Schema]) -> int:
    """The characters of a schema and of those that it refers to."""
    return sum(len(each.text) for each in (schema, *references.values()))
