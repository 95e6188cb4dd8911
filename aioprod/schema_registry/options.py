"""The options of every serializer, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from aioprod.schema_registry.serializing import Framing
from aioprod.schema_registry.subjects import SubjectStrategy

__all__ = ["SerializerOptions"]


class SerializerOptions(TypedDict, total=False):
    """The keyword arguments of `RegistrySerializer`."""

    subject: str | SubjectStrategy
    """The subject strategy: "topic" (the default), "record", "topic_record", or a function."""
    auto_register: bool | None
    """Whether the schema is registered where it is not yet. None: yes, unless `use_latest`."""
    use_latest: bool
    """Whether the latest version of the subject is used instead of the given schema."""
    normalize: bool
    """Whether the registry compares schemas without regard to how they are written."""
    framing: Framing
    """By "prefix" the id before the bytes, by "header" the GUID in a header."""
    to_dict: Callable[[Any], Any] | None
    """Turns a value into what the format knows."""
