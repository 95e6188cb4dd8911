"""All requests by key and by name, and how the servers of `aioprod.testing` read one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import aioprod.messages as declared
from aioprod.errors import UnsupportedVersionError
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode
from aioprod.wire.frame import RequestHeader, decode_request_header
from aioprod.wire.schema import AnyRequest, Request

__all__ = ["REQUESTS", "REQUESTS_BY_KEY", "REQUESTS_BY_NAME", "decode_request"]

REQUESTS: Final[tuple[type[AnyRequest], ...]] = tuple(
    sorted(
        (kind for name in declared.__all__ if issubclass(kind := getattr(declared, name), Request)),
        key=lambda kind: kind.API_KEY,
    )
)
"""Every declared request, by ascending key; its answer is its `RESPONSE`."""

REQUESTS_BY_KEY: Final[Mapping[int, type[AnyRequest]]] = MappingProxyType({kind.API_KEY: kind for kind in REQUESTS})
REQUESTS_BY_NAME: Final[Mapping[str, type[AnyRequest]]] = MappingProxyType({kind.NAME: kind for kind in REQUESTS})


def decode_request(payload: Buffer) -> tuple[RequestHeader, AnyRequest]:
    """Header and message of a request's frame, as a server of `aioprod.testing` gets it.

    Raises UnsupportedVersionError for an API or a version that is not declared, ProtocolError for malformed bytes.
    """
    header = decode_request_header(payload, _is_flexible)
    return header, decode(REQUESTS_BY_KEY[header.api_key], header.version, header.body)


def _is_flexible(api_key: int, version: int) -> bool:
    if api_key not in REQUESTS_BY_KEY:
        raise UnsupportedVersionError(f"No request with key {api_key} is declared.")
    return REQUESTS_BY_KEY[api_key].is_flexible(version)
