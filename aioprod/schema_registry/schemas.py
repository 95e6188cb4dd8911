"""Schemas, as a registry has them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Reference", "RegisteredSchema", "Schema", "SchemaType"]

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
"""The formats, by the registry's names."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one needs: version `version` of `subject`.

    `name` is the name by which the other schema mentions it: an Avro full name, the URI of a JSON schema's `$ref`, the
    path of a Protobuf `import`.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text with what it refers to.

    The text of a Protobuf schema may be a `.proto` file or, in base64, the file's descriptor.
    """

    text: str
    type: SchemaType = "AVRO"
    references: tuple[Reference, ...] = ()

    def __post_init__(self) -> None:
        """A list of references is taken too."""
        given: object = self.references
        if isinstance(given, list):
            object.__setattr__(self, "references", tuple(given))

    @property
    def flaw(self) -> str | None:
        """What is wrong with its parts, as the rest of a sentence about it; None where nothing is."""
        text: object = self.text  # Callers without a type checker may give anything.
        references: object = self.references
        if not isinstance(text, str):
            return f"has a text of type {type(text).__name__}: give a str"
        if not isinstance(references, tuple) or not all(isinstance(each, Reference) for each in references):
            return "has references that are not a tuple of Reference"
        return None


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in a subject. `version` and `guid` are None where the registry's answer has none."""

    subject: str
    id: int
    schema: Schema
    version: int | None = None
    guid: uuid.UUID | None = None
