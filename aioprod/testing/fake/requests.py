"""Which function answers which request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aioprod.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from aioprod.messages.registry import AnyRequest
from aioprod.testing.fake.fetch import fetch, list_offsets
from aioprod.testing.fake.metadata import create_topics, delete_topics, metadata
from aioprod.testing.fake.produce import produce
from aioprod.testing.fake.state import Call
from aioprod.testing.fake.transactions import init_producer_id

__all__ = ["HANDLERS"]

HANDLERS: Final[Mapping[type[AnyRequest], Callable[[Call, Any], Any]]] = {
    ProduceRequest: produce,
    FetchRequest: fetch,
    ListOffsetsRequest: list_offsets,
    MetadataRequest: metadata,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    InitProducerIdRequest: init_producer_id,
}
"""All but ApiVersions, which each broker answers for itself."""
