"""Tokens from a token endpoint: requests, retries, and errors that quote the response."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final
from urllib.parse import urlsplit

from aioprod._logger import Logger
from aioprod.config import SecurityConfig, credentials_of, read_file
from aioprod.config._secrets import secret_of
from aioprod.config._token_source import Grant, TokenEndpoint, path_of
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.net.addresses import is_this_machine
from aioprod.net.one_thread import OneThread
from aioprod.net.protocol.backoff import Backoff
from aioprod.net.protocol.sasl.assertion import assertion_fields, signed_jwt, template_in
from aioprod.net.protocol.sasl.token_endpoint import (
    TokenRequest,
    error_of,
    is_passing,
    request_by_assertion,
    request_by_secret,
    token_in,
)
from aioprod.net.tls.contexts import TlsContexts
from aioprod.oauth_token import OAuthToken

__all__ = ["EndpointTokens"]

_logger = Logger("aioprod.net")

_ASSERTION: Final = "sasl.oauthbearer.assertion"
_HINTS: Final = {
    Grant.CLIENT_SECRET: "Check sasl.oauthbearer.client.credentials.client.id and .client.secret, and the scope.",
    Grant.CLIENT_ASSERTION: f"Check {_ASSERTION}.*, and that the endpoint knows the key.",
    Grant.JWT_BEARER: f"Check {_ASSERTION}.*, and that the endpoint knows the key.",
}
_FILE_MAX: Final = 64 * 1024


class EndpointTokens:
    """Tokens from `sasl.oauthbearer.token.endpoint.url`, for the client that the settings name.

    Secrets, keys and assertions are read for each token, as their files may have changed. Requests are retried for
    `sasl.login.retry.backoff.max.ms` in all, as in Java. `wall` returns seconds since the epoch.
    """

    def __init__(self, config: SecurityConfig, *, random: Random, wall: Callable[[], float]) -> None:
        self._config = config
        self._random = random
        self._wall = wall
        self._thread = OneThread()
        endpoint = self._endpoint()
        self.name = f"The token endpoint {endpoint.shown}"
        url = urlsplit(endpoint.url)
        if url.scheme == "http" and not is_this_machine(url.hostname or ""):
            _logger.warning("%s has no TLS: secret and token can be read on the network. Use https.", self.name)
        self._tls = TlsContexts(SecurityConfig.from_dict({"security.protocol": "SSL", **endpoint.tls}))
        self._backoff = Backoff(
            config.sasl_login_retry_backoff_ms / 1000.0, config.sasl_login_retry_backoff_max_ms / 1000.0
        )

    async def fetch(self) -> OAuthToken:
        """Request a token; raises AuthenticationError if there is none, ConfigError if it can't be requested."""
        endpoint, request = await self._thread.run(partial(self._request, self._wall()))
        time = asyncio.get_running_loop().time
        ends = time() + self._backoff.max_s
        step = 0
        while True:
            token, what = await self._attempt(endpoint, request)
            if token is not None:
                return token
            delay_s = self._backoff.delay_s(step, self._random)
            if time() + delay_s > ends:
                raise AuthenticationError(f"{self.name} {what}.")
            if step == 0:
                _logger.warning("%s %s; trying for %.0f s more", self.name, what, ends - time())
            await asyncio.sleep(delay_s)
            step += 1

    async def _attempt(self, endpoint: TokenEndpoint, request: TokenRequest) -> tuple[OAuthToken | None, str]:
        """The token, or None and the reason if a retry may succeed."""
        config = self._config
        context = (await self._tls.current()).context
        await asyncio.to_thread(_import_httpx)
        from aioprod.net.login.http_post import PostError, post

        try:
            status, answer = await post(
                endpoint.url,
                request,
                context=context,
                connect_timeout_ms=config.sasl_login_connect_timeout_ms,
                read_timeout_ms=config.sasl_login_read_timeout_ms,
            )
        except PostError as error:
            if error.is_passing:
                return None, error.what
            raise AuthenticationError(f"{self.name} {error.what}.") from None
        if status not in (200, 201):
            reason = error_of(status, answer, request)
            if is_passing(status):
                return None, reason
            raise AuthenticationError(f"{self.name} {reason}.", hint=_HINTS[endpoint.grant])
        try:
            return token_in(answer, self._wall(), endpoint.extensions), ""
        except ValueError as error:
            raise AuthenticationError(f"{self.name} {error}.") from None

    def _endpoint(self) -> TokenEndpoint:
        endpoint = credentials_of(self._config)
        assert isinstance(endpoint, TokenEndpoint)
        return endpoint

    def _request(self, now: float) -> tuple[TokenEndpoint, TokenRequest]:
        endpoint = self._endpoint()
        if endpoint.grant is Grant.CLIENT_SECRET:
            encode = self._config.sasl_oauthbearer_header_urlencode
            return endpoint, request_by_secret(
                endpoint.client_id, endpoint.client_secret, endpoint.scope, encode=encode
            )
        alone = endpoint.grant is Grant.JWT_BEARER
        return endpoint, request_by_assertion(self._assertion(now), endpoint.client_id, endpoint.scope, alone=alone)

    def _assertion(self, now: float) -> str:
        config = self._config
        ready = _content("file", config.sasl_oauthbearer_assertion_file)
        if ready is not None:
            assertion = ready.decode("ascii", "replace").strip()
            if not assertion:
                raise ConfigError(f"{_ASSERTION}.file={config.sasl_oauthbearer_assertion_file!r} is empty.")
            return assertion
        template = _content("template.file", config.sasl_oauthbearer_assertion_template_file)
        fields = template_in(template or b"{}", f"{_ASSERTION}.template.file")
        key = _content("private.key.file", config.sasl_oauthbearer_assertion_private_key_file)
        assert key is not None
        password = config.sasl_oauthbearer_assertion_private_key_passphrase
        return signed_jwt(
            assertion_fields(config, fields, now, str(uuid.uuid4())),
            config.sasl_oauthbearer_assertion_algorithm,
            key,
            password and secret_of(f"{_ASSERTION}.private.key.passphrase", password),
        )


def _content(setting: str, location: str | None) -> bytes | None:
    name = f"{_ASSERTION}.{setting}"
    return None if location is None else read_file(path_of(name, location), f"{name}={location!r}", _FILE_MAX)


def _import_httpx() -> None:
    """Import httpx, in a thread as it takes 0.1 s. Raises ConfigError if it is not installed."""
    try:
        import httpx  # noqa: F401 - the next import of it finds it loaded
    except ImportError:
        raise ConfigError(
            "To request tokens from an endpoint aioprod needs the package httpx.",
            hint="Install it: pip install 'aioprod[oidc]'.",
        ) from None
