"""Log-ins for a client's connections: by password, or by tokens, kept until they are due."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from aioprod.config import Password, SecurityConfig, credentials_of
from aioprod.core.login import Login
from aioprod.core.sasl.claims import claims_of, describe_token
from aioprod.core.sasl.oauthbearer import check_extensions, oauthbearer
from aioprod.core.sasl.plain import plain
from aioprod.core.sasl.scram import SCRAM_MECHANISMS, Scram
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.net.login.token_sources import TokenSource
from aioprod.oauth_token import OAuthToken

__all__ = ["Logins", "PasswordLogins", "TokenLogins", "refresh_at"]

_logger = logging.getLogger("aioprod.net")

_NONCE_BYTES: Final = 24
_REFRESH_RETRY_S: Final = 10.0
"""As long as Java's client waits."""
_REFUSED_HINT: Final = "Check sasl.username and sasl.password, and that the user exists for this mechanism."


class Logins(Protocol):
    """Where connections get their log-ins from."""

    async def new(self, host: str) -> Login:
        """A log-in for a connection to `host`; raises AuthenticationError or ConfigError without credentials."""

    def refused(self) -> None:
        """A broker did not accept the last one: what is kept is not good for another one."""

    async def reload(self) -> None:
        """Fetch the credentials anew, whatever is kept; raises AuthenticationError or ConfigError if there are none."""

    @property
    def ends(self) -> float | None:
        """When the credentials expire, in seconds since the epoch; None for those that don't or were not needed."""


class PasswordLogins:
    """Log-ins by PLAIN or SCRAM. The password is looked up each time, as it may be in a file that has changed."""

    def __init__(self, config: SecurityConfig) -> None:
        self._config = config
        self._scram: tuple[Password, Scram] | None = None

    async def new(self, host: str) -> Login:
        """A log-in by password; raises ConfigError when it is named and not found."""
        password = credentials_of(self._config)
        assert isinstance(password, Password)
        user = f"{'token' if password.is_token else 'user'} {password.username!r}"
        if password.mechanism not in SCRAM_MECHANISMS:
            steps = plain(password.username, password.password)
            return Login(password.mechanism, steps, user=user, hint=_REFUSED_HINT, identity=password)
        if self._scram is None or self._scram[0] != password:
            made = Scram(password.mechanism, password.username, password.password, is_token=password.is_token)
            self._scram = password, made
        steps = self._scram[1].steps(secrets.token_urlsafe(_NONCE_BYTES))
        return Login(password.mechanism, steps, user=user, hint=_REFUSED_HINT, identity=password)

    def refused(self) -> None:
        """Nothing is kept that a new password would not replace."""

    async def reload(self) -> None:
        """Only see that there is a password: it is looked up for each log-in."""
        credentials_of(self._config)

    @property
    def ends(self) -> float | None:
        """Passwords don't expire, as far as a client knows."""
        return None


class TokenLogins:
    """Log-ins by OAUTHBEARER. A token is kept until `refresh_at`, and beyond when no newer one is to be had.

    The source is asked once at a time, for all waiters, and for no longer than `timeout_s`: they share the token, or
    the error. While a token that is kept still holds it is asked not sooner than 10 s after it had none. `wall` is the
    time since the epoch.
    """

    def __init__(
        self,
        config: SecurityConfig,
        source: TokenSource,
        *,
        timeout_s: float,
        random: Random,
        wall: Callable[[], float],
    ) -> None:
        self._config = config
        self._source = source
        self._timeout_s = timeout_s
        self._random = random
        self._wall = wall
        self._token: OAuthToken | None = None
        self._refresh_at = 0.0
        self._lock = asyncio.Lock()
        self._failures = 0
        self._failure: AuthenticationError | ConfigError | None = None

    async def new(self, host: str) -> Login:
        """A log-in by the token that is kept, or by a new one; raises AuthenticationError if there is none."""
        known = self._failures
        async with self._lock:
            token = await self._current(known)
        return Login(
            "OAUTHBEARER",
            oauthbearer(token.value, token.extensions),
            user=f"the token of {token.principal!r}" if token.principal else "the token",
            hint=f"Brokers don't say why. {describe_token(token.value, self._wall())}",
            identity=(claims_of(token.value) or {}).get("sub", token.principal),
        )

    def refused(self) -> None:
        """Fetch another token for the next log-in; the one that is kept serves only if that fails."""
        self._refresh_at = 0.0

    async def reload(self) -> None:
        """Fetch another token; raises AuthenticationError if there is none, and the one that is kept stays."""
        async with self._lock:
            self._keep(await self._fetch())

    @property
    def ends(self) -> float | None:
        """When the token that is kept expires."""
        return None if self._token is None else self._token.expires_at

    async def _current(self, known: int) -> OAuthToken:
        """The token that is kept, or another one. Of a waiter that came when `known` fetches had failed."""
        now = self._wall()
        if self._token is not None and now < self._refresh_at:
            return self._token
        try:
            if self._failure is not None and self._failures != known:
                # Failed while this one waited: with a series of tries for each, the last would wait for all of them.
                raise self._failure
            token = await self._fetch()
        except (AuthenticationError, ConfigError) as error:
            if self._token is None or self._token.expires_at <= now:
                raise
            _logger.warning("The token that is kept stays in use for %.0f s: %s", self._token.expires_at - now, error)
            # Or each new connection would wait until the source has failed once more.
            self._refresh_at = min(now + _REFRESH_RETRY_S, self._token.expires_at)
            return self._token
        self._keep(token)
        return token

    def _keep(self, token: OAuthToken) -> None:
        self._token = token
        self._failure = None
        self._refresh_at = refresh_at(self._config, self._wall(), token.expires_at, self._random.random())

    async def _fetch(self) -> OAuthToken:
        try:
            return await self._asked()
        except (AuthenticationError, ConfigError) as error:
            self._failures += 1
            self._failure = error
            raise

    async def _asked(self) -> OAuthToken:
        scope = asyncio.timeout(self._timeout_s)
        try:
            async with scope:
                token = await self._source.fetch()
        except (AuthenticationError, ConfigError):
            raise
        except Exception as error:
            # Its text may contain a secret, so only the cause has it.
            what = (
                f"gave no token within {self._timeout_s:g} s" if scope.expired() else f"raised {type(error).__name__}"
            )
            raise AuthenticationError(f"{self._source.name} {what}.") from error
        return self._checked(token)

    def _checked(self, token: object) -> OAuthToken:
        name = self._source.name
        if not isinstance(token, OAuthToken):
            raise AuthenticationError(
                f"{name} returned a {type(token).__name__}.", hint="It has to return aioprod.OAuthToken."
            )
        if not token.value or not token.value.isascii() or not token.value.isprintable():
            raise AuthenticationError(f"{name} gave a token that is empty or can't be sent.")
        past_s = self._wall() - token.expires_at
        if past_s >= 0:
            raise AuthenticationError(
                f"{name} gave a token that expired {past_s:.0f} s ago.",
                hint="Look at the clock of this machine; expires_at of an OAuthToken is in seconds since the epoch.",
            )
        try:
            check_extensions(token.extensions)
        except ValueError as error:
            raise AuthenticationError(f"{name} gave a token that can't be sent: {error}") from None
        return token


def refresh_at(config: SecurityConfig, begins: float, ends: float, chance: float) -> float:
    """When to fetch the next token, in seconds since the epoch: in a window of its lifetime, as Java does (KIP-255).

    Not later than `sasl.login.refresh.buffer.seconds` before its end, and not sooner than
    `sasl.login.refresh.min.period.seconds` from its beginning; where both don't fit, by the window alone.
    `chance` is from 0 to 1.
    """
    share = config.sasl_login_refresh_window_factor + config.sasl_login_refresh_window_jitter * chance
    wanted = begins + (ends - begins) * share
    earliest = begins + config.sasl_login_refresh_min_period_seconds
    latest = ends - config.sasl_login_refresh_buffer_seconds
    return wanted if earliest >= latest else min(max(wanted, earliest), latest)
