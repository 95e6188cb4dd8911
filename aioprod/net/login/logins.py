"""Log-ins for the connections of a client: by password, or by tokens, which are cached."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Protocol

from aioprod._logger import Logger
from aioprod._short_reprs import printable
from aioprod.config import Password, SecurityConfig, credentials_of
from aioprod.config._secrets import is_in_file
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.net.login.token_sources import TokenSource
from aioprod.net.one_thread import OneThread
from aioprod.net.protocol.login import Login
from aioprod.net.protocol.sasl.claims import claims_of, describe_token
from aioprod.net.protocol.sasl.oauthbearer import check_extensions, oauthbearer
from aioprod.net.protocol.sasl.plain import plain
from aioprod.net.protocol.sasl.scram import SCRAM_MECHANISMS, Scram
from aioprod.oauth_token import OAuthToken

__all__ = ["Logins", "PasswordLogins", "TokenLogins", "refresh_at"]

_logger = Logger("aioprod.net")

_NONCE_BYTES: Final = 24
_REFRESH_RETRY_S: Final = 10.0
"""As long as Java's client waits."""
_NAMED_SECRET: Final = re.compile(
    r"(?i)((?:password|passwd|secret|token|key|assertion|bearer|basic)[\"']?\s*[=: ]\s*)\S+"
)
_LIKE_TOKEN: Final = re.compile(r"(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[\w+/=.~-]{20,}")
"""What is as long as a token, and has digits, small and capital letters."""
_REJECTED_HINT: Final = "Check sasl.username and sasl.password, and that the user exists for this mechanism."


class Logins(Protocol):
    """Creates the log-in of each connection."""

    async def new(self, host: str) -> Login:
        """A log-in for a connection to `host`; raises AuthenticationError or ConfigError without credentials."""

    def rejected(self) -> None:
        """A broker rejected the last log-in: don't reuse cached credentials."""

    async def reload(self) -> None:
        """Fetch the credentials again, cached or not; raises AuthenticationError or ConfigError if there are none."""

    @property
    def ends(self) -> float | None:
        """When the credentials expire, in seconds since the epoch; None if they don't, or were not used yet."""


class PasswordLogins:
    """Log-ins by PLAIN or SCRAM. The password is read for each log-in, as its file may have changed.

    A file is read in a thread, with a timeout of `timeout_s`: its file system may hang.
    """

    def __init__(self, config: SecurityConfig, *, timeout_s: float) -> None:
        self._config = config
        self._timeout_s = timeout_s
        self._thread = OneThread()
        given = (config.sasl_username, config.sasl_password, config.sasl_jaas_config)
        self._is_in_file = any(text is not None and is_in_file(text) for text in given)
        self._scram: tuple[Password, Scram] | None = None

    async def new(self, host: str) -> Login:
        """A log-in by password; raises ConfigError when it is named and not found."""
        password = await self._password()
        user = f"{'token' if password.is_token else 'user'} {password.username!r}"
        if password.mechanism not in SCRAM_MECHANISMS:
            steps = plain(password.username, password.password)
            return Login(password.mechanism, steps, user=user, hint=_REJECTED_HINT, identity=password)
        if self._scram is None or self._scram[0] != password:
            made = Scram(password.mechanism, password.username, password.password, is_token=password.is_token)
            self._scram = password, made
        steps = self._scram[1].steps(secrets.token_urlsafe(_NONCE_BYTES))
        return Login(password.mechanism, steps, user=user, hint=_REJECTED_HINT, identity=password)

    def rejected(self) -> None:
        """Does nothing: the password is read for each log-in."""

    async def reload(self) -> None:
        """Check that there is a password: it is read for each log-in."""
        await self._password()

    async def _password(self) -> Password:
        if self._is_in_file:
            try:
                async with asyncio.timeout(self._timeout_s):
                    password = await self._thread.joined(partial(credentials_of, self._config))
            except TimeoutError:
                raise ConfigError(
                    f"The file that sasl.username or sasl.password names was not read within {self._timeout_s:g} s."
                ) from None
        else:
            password = credentials_of(self._config)
        assert isinstance(password, Password)
        return password

    @property
    def ends(self) -> float | None:
        """None: passwords don't expire."""
        return None


class TokenLogins:
    """Log-ins by OAUTHBEARER. A token is cached until `refresh_at`, and until it expires if there is no newer one.

    One fetch runs at a time, with a timeout of `timeout_s`, and all waiters share its token or error. While the cached
    token is valid, a failed fetch is retried after 10 s at the earliest. `wall` returns seconds since the epoch.
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
        """A log-in by the cached token, or by a new one; raises AuthenticationError if there is none."""
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

    def rejected(self) -> None:
        """Fetch a new token for the next log-in; the cached one is used only if that fails."""
        self._refresh_at = 0.0

    async def reload(self) -> None:
        """Fetch a new token; raises AuthenticationError if there is none, and keeps the cached one."""
        async with self._lock:
            self._keep(await self._fetch())

    @property
    def ends(self) -> float | None:
        """When the cached token expires."""
        return None if self._token is None else self._token.expires_at

    async def _current(self, known: int) -> OAuthToken:
        """The cached token, or a new one; `known` is the number of failed fetches when the caller began to wait."""
        now = self._wall()
        if self._token is not None and now < self._refresh_at:
            return self._token
        try:
            if self._failure is not None and self._failures != known:
                # A fetch failed while this caller waited; if each waiter fetched again, the last would wait for all.
                raise self._failure
            token = await self._fetch()
        except (AuthenticationError, ConfigError) as error:
            if self._token is None or self._token.expires_at <= now:
                raise
            _logger.warning("The cached token stays in use for %.0f s: %s", self._token.expires_at - now, error)
            # Otherwise each new connection would wait for another failed fetch.
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
            return await self._fetch_in_time()
        except (AuthenticationError, ConfigError) as error:
            self._failures += 1
            self._failure = error
            raise

    async def _fetch_in_time(self) -> OAuthToken:
        scope = asyncio.timeout(self._timeout_s)
        try:
            async with scope:
                token = await self._source.fetch()
        except (AuthenticationError, ConfigError):
            raise
        except Exception as error:
            if scope.expired():
                what = f"gave no token within {self._timeout_s:g} s"
            else:
                what = f"raised {type(error).__name__}{_text_of(error)}"
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


def _text_of(error: Exception) -> str:
    """What a user's function says of its failure, without what may be a secret."""
    try:
        text = printable(str(error)).rstrip(". ")
    except Exception:  # A user's __str__ must not hide what was raised.
        return ""
    text = _NAMED_SECRET.sub(r"\1...", text)
    text = _LIKE_TOKEN.sub("...", text)
    return f": {text}" if text else ""


def refresh_at(config: SecurityConfig, begins: float, ends: float, chance: float) -> float:
    """When to fetch the next token, in seconds since the epoch: in a window of its lifetime, as Java does (KIP-255).

    Not later than `sasl.login.refresh.buffer.seconds` before its end, and not sooner than
    `sasl.login.refresh.min.period.seconds` from its beginning; where both don't fit, by the window alone.
    `chance` is from 0 to 1.
    """
    share = config.sasl_login_refresh_window_factor + config.sasl_login_refresh_window_jitter * chance
    in_window = begins + (ends - begins) * share
    earliest = begins + config.sasl_login_refresh_min_period_seconds
    latest = ends - config.sasl_login_refresh_buffer_seconds
    return in_window if earliest >= latest else min(max(in_window, earliest), latest)
