"""A schema registry's client for asyncio, with caches."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Hashable, Iterable
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, Unpack
from urllib.parse import quote

from aioprod.errors import ConfigError, UsageError
from aioprod.schema_registry.addresses import addresses_of
from aioprod.schema_registry.answers import Fields, Purpose, body_of, names_in, registered_schema, schema_of
from aioprod.schema_registry.caches import LruCache, SingleFlight
from aioprod.schema_registry.config import RegistryConfig, RegistryOptions
from aioprod.schema_registry.http import RegistryHttp
from aioprod.schema_registry.schemas import RegisteredSchema, Schema

__all__ = ["SchemaRegistry", "given_registry"]

T = TypeVar("T")

_Known: TypeAlias = tuple[str, Schema, bool, bool]
"""What a schema's id in a subject is looked up by: subject, schema, whether normalized, whether registered."""


class SchemaRegistry:
    """A schema registry that speaks Confluent's REST API, for one event loop; use it with `async with`, or close it.

    `urls` is its URL, or several of one registry, of which the first that answers is used; a log-in in one of them is
    for that one alone. The options are those of `RegistryConfig`; their log-in is for URLs without one. What was looked
    up is cached: the id of a schema in a subject for ever, schemas by id up to `schemas_cached_max`, the latest version
    of a subject for `latest_ttl_ms`. Concurrent calls for the same thing share one request. `clock` gives the time in
    seconds.

    Raises ConfigError. Each call raises RegistryError (`aioprod.schema_registry.errors`), and UsageError in another
    event loop, closed, or for what is no subject or schema.
    """

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[RegistryOptions],
    ) -> None:
        addresses = addresses_of(urls)
        self.config = RegistryConfig.from_options(**options)
        if self.config.username is not None or self.config.token is not None:
            addresses.check_shared_log_in()
        self.clock = clock
        self._addresses = addresses
        self._http = RegistryHttp(addresses, self.config)
        self._flights = SingleFlight()
        self._known: dict[_Known, RegisteredSchema] = {}
        self._schemas: LruCache[int | uuid.UUID, Schema] = LruCache(self.config.schemas_cached_max)
        self._versions: LruCache[tuple[str, int], RegisteredSchema] = LruCache(self.config.schemas_cached_max)
        self._latest: dict[str, tuple[float, RegisteredSchema]] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({str(self._addresses)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel what is being looked up, and close the connections. Cached schemas stay usable.

        Raises UsageError in another event loop than the one it was used in.
        """
        self._http.check_loop()
        self._http.take_no_more()
        await asyncio.gather(*self._flights.cancel(), return_exceptions=True)
        await self._http.close()

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema in a subject, where it may be already; cached for ever."""
        return await self._id_of(subject, schema, normalize, registers=True)

    async def find(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The registered form of a schema, with its version; cached for ever.

        Raises UnknownSubjectError, and UnknownSchemaError where the subject does not have it.
        """
        return await self._id_of(subject, schema, normalize, registers=False)

    async def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject; cached for `latest_ttl_ms`. Raises UnknownSubjectError."""
        _check_subject(subject)
        cached = self._latest.get(subject)
        if cached is not None and self.clock() < cached[0]:
            return cached[1]
        return await self._shared(("latest", subject), lambda: self._fetch_latest(subject))

    def latest_due(self, subject: str) -> float:
        """When, by `clock`, the latest version of a subject is to be looked up again; now where none is known."""
        cached = self._latest.get(subject)
        return self.clock() if cached is None else cached[0]

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject; cached. Raises UnknownSubjectError or UnknownSchemaError."""
        _check_subject(subject)
        if not isinstance(version, int):
            raise UsageError(f"The version of a subject is of type {type(version).__name__}: it is an int.")
        cached = self._versions.get((subject, version))
        if cached is not None:
            return cached
        return await self._shared((subject, version), lambda: self._fetch_version(subject, version))

    async def schema(self, key: int | uuid.UUID) -> Schema:
        """The schema of an id or of a GUID; cached. Raises UnknownSchemaError."""
        if not isinstance(key, (int, uuid.UUID)):
            raise UsageError(f"A schema is looked up by {type(key).__name__}: give its id, an int, or GUID, a UUID.")
        cached = self._schemas.get(key)
        if cached is not None:
            return cached
        return await self._shared(key, lambda: self._fetch_schema(key))

    async def subjects(self) -> list[str]:
        """The names of all subjects; not cached."""
        return names_in(await self._alone("GET", "/subjects", Purpose("its subjects")))

    async def is_compatible(self, subject: str, schema: Schema) -> bool:
        """Whether the subject would accept the schema as its next version; not cached."""
        _check_subject(subject)
        _check_schema(schema)
        path = f"/compatibility{_path(subject)}/versions/latest"
        purpose = Purpose.of(subject)
        answer = await self._alone("POST", path, purpose, body_of(schema))
        return Fields(answer, purpose).required("is_compatible", bool)

    async def _id_of(self, subject: str, schema: Schema, normalize: bool, *, registers: bool) -> RegisteredSchema:
        _check_subject(subject)
        _check_schema(schema)
        key = (subject, schema, normalize, registers)
        known = self._known.get(key)
        if known is not None:
            return known

        async def fetch() -> RegisteredSchema:
            path = _path(subject) + ("/versions" if registers else "") + ("?normalize=true" if normalize else "")
            answer = await self._http.request("POST", path, Purpose.of(subject), body_of(schema))
            known = self._known[key] = registered_schema(subject, answer, schema)
            return known

        return await self._shared(key, fetch)

    async def _shared(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the work, which concurrent calls of this key share."""
        # Before there is a task, which belongs to the loop.
        self._http.enter()
        return await self._flights.run(key, work)

    async def _alone(self, method: str, path: str, purpose: Purpose, body: dict[str, Any] | None = None) -> Any:
        """The answer to a request that no call shares, and that `close` cancels all the same."""
        return await self._shared(object(), lambda: self._http.request(method, path, purpose, body))

    async def _fetch_latest(self, subject: str) -> RegisteredSchema:
        answer = await self._http.request("GET", f"{_path(subject)}/versions/latest", Purpose.of(subject))
        latest = registered_schema(subject, answer)
        self._latest[subject] = self.clock() + self.config.latest_ttl_ms / 1000, latest
        return latest

    async def _fetch_version(self, subject: str, version: int) -> RegisteredSchema:
        answer = await self._http.request("GET", f"{_path(subject)}/versions/{version}", Purpose.of(subject, version))
        found = registered_schema(subject, answer)
        self._versions.put((subject, version), found, len(found.schema.text))
        return found

    async def _fetch_schema(self, key: int | uuid.UUID) -> Schema:
        kind = "guid" if isinstance(key, uuid.UUID) else "id"
        purpose = Purpose(f"schema {kind} {key}")
        schema = schema_of(Fields(await self._http.request("GET", f"/schemas/{kind}s/{key}", purpose), purpose))
        self._schemas.put(key, schema, len(schema.text))
        return schema


def given_registry(given: object, owner: str) -> SchemaRegistry:
    """The registry that a serializer or deserializer is given; raises ConfigError, without the URL that it may be."""
    if not isinstance(given, SchemaRegistry):
        raise ConfigError(
            f"The registry of {owner} is of type {type(given).__name__}: give a SchemaRegistry, made of its URL."
        )
    return given


def _check_subject(subject: object) -> None:
    """Raise UsageError for what is no name of a subject."""
    if not isinstance(subject, str):
        raise UsageError(f"A subject is of type {type(subject).__name__}: its name is a str.")
    if subject in ("", ".", ".."):
        raise UsageError(f"The subject {subject!r} can't be named in a URL.")
    try:
        subject.encode()
    except UnicodeEncodeError:
        raise UsageError(f"The subject {subject!r} has no UTF-8 form.") from None


def _check_schema(schema: object) -> None:
    """Raise UsageError for what is no Schema."""
    if not isinstance(schema, Schema):
        raise UsageError(f"A schema is of type {type(schema).__name__}: give a Schema, made of its text.")
    if schema.flaw is not None:
        raise UsageError(f"The schema {schema.flaw}.")


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"
