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
from aioprod.schema_registry.addresses import Address, Addresses
from aioprod.schema_registry.answers import Answer, Purpose, error_of, is_passing
from aioprod.schema_registry.caches import other_loop
from aioprod.schema_registry.config import RegistryConfig
from aioprod.schema_registry.errors import (
    RegistryAccessError,
    RegistryAnswerError,
    RegistryError,
    RegistryUnreachableError,
)
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

    def __init__(self, addresses: Addresses, config: RegistryConfig) -> None:
        self._addresses = addresses
        self._config = config
        self._random = random.Random()  # noqa: S311 - spreads retries
        self._client: httpx.AsyncClient | None = None
        self._making: asyncio.Lock = asyncio.Lock()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def request(self, method: str, path: str, purpose: Purpose, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the response; raises RegistryError, and UsageError in another event loop, or closed.

        What got no response, or a status that may pass, is sent again, to each address at least once: no request of
        a registry does more when it is repeated.
        """
        client = await self._connected()
        failure: RegistryError | None = None
        # Of its own: others may be one further, or more, when this one fails.
        order = self._addresses.in_order()
        for attempt in range(max(self._config.retries + 1, len(order))):
            if attempt:
                await asyncio.sleep(self._pause_s(attempt))
                self._check_open()
            address = order[attempt % len(order)]
            try:
                answer = await self._answer(client, method, address, path, purpose, body)
            except RegistryUnreachableError as error:
                failure = error
                if not error.is_passing:
                    break
            else:
                if answer.status < 300:
                    return answer.parsed(address.url, purpose)
                failure = error_of(answer, address.url, purpose)
                if not is_passing(answer.status):
                    break
            self._addresses.advance(address)
        assert failure is not None
        raise failure

    def take_no_more(self) -> None:
        """Reject later requests: they raise UsageError."""
        self._is_closed = True

    async def close(self) -> None:
        """Close the connections; later requests raise UsageError."""
        self.take_no_more()
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def enter(self) -> None:
        """Keep to the event loop of this call; raises UsageError in another one, or closed."""
        self._check_open()
        self.check_loop()
        self._loop = asyncio.get_running_loop()

    def check_loop(self) -> None:
        """Raise UsageError in another event loop than the one it was used in."""
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise other_loop()

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                "The SchemaRegistry is closed.", hint="Close it after the producers and readers that use it."
            )

    async def _connected(self) -> httpx.AsyncClient:
        self.enter()
        async with self._making:
            if self._client is None:
                # Reading the CAs takes some 30 ms.
                context = await asyncio.to_thread(tls_context, self._config) if self._addresses.is_secure else False
                self._check_open()
                timeout = httpx.Timeout(None, connect=self._config.request_timeout_ms / 1000)
                try:
                    self._client = httpx.AsyncClient(verify=context, timeout=timeout, follow_redirects=False)
                except (ImportError, ValueError, httpx.InvalidURL):
                    # httpx reads the environment when a client is made.
                    raise ConfigError("The proxy that the environment names for HTTP can't be used.") from None
        return self._client

    async def _headers(self, address: Address, purpose: Purpose) -> dict[str, str]:
        headers = {
            "Accept": f"{_CONTENT_TYPE}, application/json",
            # A few compressed bytes may become very many.
            "Accept-Encoding": "identity",
            "Content-Type": _CONTENT_TYPE,
        }
        authorization = await self._authorization(address, purpose)
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    async def _authorization(self, address: Address, purpose: Purpose) -> str | None:
        log_in = address.log_in
        if log_in is None:
            if self._config.token is not None:
                return f"Bearer {await self._token(address.url, purpose)}"
            if self._config.username is None:
                return None
            log_in = self._config.username, self._config.password or ""
        return f"Basic {b64encode(':'.join(log_in).encode()).decode()}"

    async def _token(self, address: str, purpose: Purpose) -> str:
        token = self._config.token
        if callable(token):
            try:
                token = token()
                if inspect.isawaitable(token):
                    token = await token
            except Exception as error:
                # Its text is not shown, as it may have a secret of the log-in.
                raise RegistryAccessError(
                    f"The function token raised {type(error).__name__} for {purpose.text} at {address}.",
                    subject=purpose.subject,
                    hint="Correct what gets the token.",
                ) from None
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise ConfigError("token is not text of printable ASCII characters, or its function returns none.")
        return token

    async def _answer(
        self,
        client: httpx.AsyncClient,
        method: str,
        address: Address,
        path: str,
        purpose: Purpose,
        body: Mapping[str, Any] | None,
    ) -> Answer:
        content = None if body is None else json.dumps(body).encode()
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                headers = await self._headers(address, purpose)
                self._check_open()
                request = client.build_request(method, address.url + path, headers=headers, content=content)
                response = await client.send(request, stream=True)
                try:
                    return Answer(response.status_code, await self._bounded(response, address.url, purpose))
                finally:
                    await response.aclose()
        except TimeoutError:
            reason = f"it did not answer within request_timeout_ms={self._config.request_timeout_ms}"
            raise unreachable(address.url, purpose, reason) from None
        except (RegistryError, ConfigError):  # ConfigError is a ValueError.
            raise
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:  # Of TLS, OSErrors come as they are.
            # The text of some quotes a header, which may be the log-in.
            cause = None if isinstance(error, (httpx.LocalProtocolError, ValueError)) else error
            raise explained(error, address.url, purpose, self._config) from cause

    async def _bounded(self, response: httpx.Response, address: str, purpose: Purpose) -> bytes:
        if response.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity"):
            raise RegistryAnswerError(
                f"The schema registry at {address} answered for {purpose.text} with compressed bytes, "
                "which were not requested.",
                subject=purpose.subject,
                status=response.status_code,
                hint="Correct the proxy in front of it.",
            )
        content = bytearray()
        async for part in response.aiter_raw():
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
