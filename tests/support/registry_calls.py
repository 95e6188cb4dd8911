"""What the tests of the schema registry's client and serializers share: one schema, a clock, and a failing call."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.config import ProducerConfig
from aioprod.errors import SerializationError
from aioprod.schema_registry import Schema, SchemaRegistry
from tests.support.dead_addresses import dead_address
from tests.support.registry_schemas import ORDER

__all__ = ["DEAD", "REGISTER", "SCHEMA", "Clock", "configured", "failure"]

REGISTER = "POST /subjects/orders-value/versions"
SCHEMA = Schema(ORDER)
DEAD = "http://{}:{}".format(*dead_address())


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def failure(registry: SchemaRegistry, kind: type[SerializationError]) -> Any:
    """The error of registering a schema, whose text is one sentence and a hint."""
    with pytest.raises(kind) as raised:
        await registry.register("orders-value", SCHEMA)
    assert "'orders-value'" in raised.value.message
    assert raised.value.subject == "orders-value"  # type: ignore[attr-defined]
    assert "\n" not in str(raised.value)
    return raised.value


def configured(target: Any, *, is_key: bool) -> Any:
    """A serializer or deserializer that a producer was given."""
    target.configure(ProducerConfig.from_dict({"bootstrap.servers": "localhost:9092"}), is_key=is_key)
    return target
