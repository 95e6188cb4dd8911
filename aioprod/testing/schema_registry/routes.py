"""The requests that the fake registry answers. https://docs.confluent.io/platform/current/schema-registry/develop/"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aioprod.testing.schema_registry.store import RejectedError, Store

__all__ = ["answer"]

Handler: TypeAlias = Callable[[Store, re.Match[str], Mapping[str, Any], bool], Any]
"""Takes the store, the parts of the path, the request's body, whether schemas are to be normalized."""


def answer(store: Store, method: str, path: str, body: Mapping[str, Any], *, normalize: bool) -> Any:
    """The JSON of the response; raises RejectedError. `path` is not quoted, but for the slashes in names."""
    is_known = False
    for allowed, pattern, handler in _ROUTES:
        match = pattern.fullmatch(path)
        if match is not None:
            is_known = True
            if allowed == method:
                return handler(store, match, body, normalize)
    raise (
        RejectedError(405, 405, "HTTP 405 Method Not Allowed")
        if is_known
        else RejectedError(404, 404, "HTTP 404 Not Found")
    )


def _name(match: re.Match[str]) -> str:
    return match["subject"].replace("%2F", "/")


def _route(method: str, pattern: str, handler: Handler) -> tuple[str, re.Pattern[str], Handler]:
    return method, re.compile(pattern.replace("SUBJECT", "(?P<subject>[^/]+)")), handler


_ROUTES: Final = (
    _route("GET", "/subjects", lambda store, match, body, normalize: store.subjects()),
    _route("GET", "/schemas/types", lambda store, match, body, normalize: ["JSON", "PROTOBUF", "AVRO"]),
    _route("GET", "/schemas/ids/([0-9]+)", lambda store, match, body, normalize: store.schema(int(match[1]))),
    _route("GET", "/schemas/guids/([0-9a-f-]+)", lambda store, match, body, normalize: store.schema(match[1])),
    _route("GET", "/subjects/SUBJECT/versions", lambda store, match, body, normalize: store.versions(_name(match))),
    _route(
        "GET",
        "/subjects/SUBJECT/versions/(?P<version>latest|[0-9]+)",
        lambda store, match, body, normalize: store.version(_name(match), match["version"]),
    ),
    _route(
        "POST",
        "/subjects/SUBJECT/versions",
        lambda store, match, body, normalize: store.register(_name(match), body, normalize=normalize),
    ),
    _route(
        "POST",
        "/subjects/SUBJECT",
        lambda store, match, body, normalize: store.find(_name(match), body, normalize=normalize),
    ),
    _route(
        "POST",
        "/compatibility/subjects/SUBJECT/versions/latest",
        lambda store, match, body, normalize: store.is_compatible(_name(match), body),
    ),
    _route("GET", "/config", lambda store, match, body, normalize: {"compatibilityLevel": store.level(None)}),
    _route(
        "GET",
        "/config/SUBJECT",
        lambda store, match, body, normalize: {"compatibilityLevel": store.level(_name(match))},
    ),
    _route(
        "PUT",
        "/config",
        lambda store, match, body, normalize: {"compatibility": store.set_level(None, body.get("compatibility"))},
    ),
    _route(
        "PUT",
        "/config/SUBJECT",
        lambda store, match, body, normalize: {
            "compatibility": store.set_level(_name(match), body.get("compatibility"))
        },
    ),
)
