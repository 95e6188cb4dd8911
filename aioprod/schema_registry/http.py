"""Requests to a schema registry over HTTP: log-in, TLS, time limits, retries, bounded responses."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from aioprod.errors import ConfigError, UsageError
from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.addresses import Addresses
from aioprod.schema_registry.answers import Answer, Purpose, error_of
from aioprod.schema_registry.errors import RegistryAnswerError, RegistryError, RegistryUnreachableError
from aioprod.schema_registry.settings import RegistryConfig
from aioprod.schema_registry.tls import tls_context
from aioprod.schema_registry.unreachable import explained, unreachable

try:
    import httpx
except ImportError as error:
    raise missing("aioprod.schema_registry", error) from error

__all__ = ["RegistryHttp"]

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryHttp:
    """Sends requests to the first of the addresses that answers; for one event loop."""

    def __init__(self, addresses: Addresses, config: RegistryConfig, log_in: tuple[str, str] | None) -> None:
        self._addresses = addresses
        self._config = config
        self._log_in = log_in if config.username is None else (config.username, config.password or "")
        self._random = random.Random()  # noqa: S311 - spreads retries
        self._client: httpx.AsyncClient | None = None
        self._making: asyncio.Lock = asyncio.Lock()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def request(self, method: str, path: str, purpose: Purpose, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the response; raises RegistryError, and UsageError in another event loop, or closed.

        What got no response, or one with a status from 500 on, is sent again: no request of a registry does more when
        it is repeated.
        """
        client = await self._connected()
        failure: RegistryError | None = None
        for attempt in range(self._config.retries + 1):
            if attempt:
                await asyncio.sleep(self._pause_s(attempt))
            address = self._addresses.current
            try:
                answer = await self._answer(client, method, address, path, purpose, body)
            except RegistryUnreachableError as error:
                failure = error
                if not error.is_passing:
                    break
            else:
                if answer.status < 300:
                    return answer.parsed(address, purpose)
                failure = error_of(answer, address, purpose)
                if answer.status < 500:
                    break
            self._addresses.advance(address)
        assert failure is not None
        raise failure

    async def close(self) -> None:
        """Close the connections; later requests raise UsageError."""
        self._is_closed = True
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def _connected(self) -> httpx.AsyncClient:
        if self._is_closed:
            raise UsageError(
                "The SchemaRegistry is closed.", hint="Close it after the producers and readers that use it."
            )
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if loop is not self._loop:
            raise UsageError(
                "A SchemaRegistry is used in another event loop than before.", hint="Make one for each event loop."
            )
        async with self._making:
            if self._client is None:
                # Reading the CAs takes some 30 ms.
                context = await asyncio.to_thread(tls_context, self._config) if self._addresses.is_secure else False
                timeout = httpx.Timeout(None, connect=self._config.request_timeout_ms / 1000)
                try:
                    self._client = httpx.AsyncClient(verify=context, timeout=timeout, follow_redirects=False)
                except (ImportError, ValueError):  # httpx reads the environment when a client is made.
                    raise ConfigError("The proxy that the environment names for HTTP can't be used.") from None
        return self._client

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": f"{_CONTENT_TYPE}, application/json", "Content-Type": _CONTENT_TYPE}
        token = self._config.token
        if token is not None:
            given = token() if callable(token) else token
            headers["Authorization"] = f"Bearer {await given if inspect.isawaitable(given) else given}"
        elif self._log_in is not None:
            headers["Authorization"] = f"Basic {b64encode(':'.join(self._log_in).encode()).decode()}"
        return headers

    async def _answer(
        self,
        client: httpx.AsyncClient,
        method: str,
        address: str,
        path: str,
        purpose: Purpose,
        body: Mapping[str, Any] | None,
    ) -> Answer:
        headers = await self._headers()
        content = None if body is None else json.dumps(body).encode()
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                request = client.build_request(method, address + path, headers=headers, content=content)
                response = await client.send(request, stream=True)
                try:
                    return Answer(response.status_code, await self._bounded(response, address, purpose))
                finally:
                    await response.aclose()
        except TimeoutError:
            reason = f"it did not answer within request_timeout_ms={self._config.request_timeout_ms}"
            raise unreachable(address, purpose, reason) from None
        except RegistryError:
            raise
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:  # Of TLS, OSErrors come as they are.
            raise explained(error, address, purpose, self._config) from error

    async def _bounded(self, response: httpx.Response, address: str, purpose: Purpose) -> bytes:
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > self._config.response_bytes_max:
                raise RegistryAnswerError(
                    f"The schema registry at {address} answered for {purpose.text} with more than "
                    f"{self._config.response_bytes_max} bytes.",
                    subject=purpose.subject,
                    status=response.status_code,
                    hint="Raise response_bytes_max, if the schema is that large.",
                )
        return bytes(content)

    def _pause_s(self, attempt: int) -> float:
        pause_ms = min(self._config.retry_backoff_ms * 2 ** min(attempt - 1, 30), self._config.retry_backoff_max_ms)
        return float(pause_ms * self._random.uniform(0.8, 1.2) / 1000)
