"""Where tokens come from, but for an endpoint: a function of the user, or a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from aioprod.config import load_class, read_file
from aioprod.core.sasl.token_endpoint import token_of_file
from aioprod.errors import AuthenticationError
from aioprod.net.one_thread import OneThread
from aioprod.oauth_token import OAuthToken

__all__ = ["FileTokens", "ProvidedTokens", "TokenSource"]

_SIZE_MAX: Final = 64 * 1024


class TokenSource(Protocol):
    """Gives a new token each time it is asked. `name` begins the sentences of errors."""

    @property
    def name(self) -> str: ...

    async def fetch(self) -> object:
        """An OAuthToken, as is checked; raises AuthenticationError or ConfigError, or what a user's code raises."""


class ProvidedTokens:
    """Tokens that a function of the user gives, or a coroutine, or the name of one; plain functions run in a thread.

    One that runs for longer than a try waits is not called once more before it has ended.
    """

    def __init__(self, given: Callable[[], Any] | str) -> None:
        self._given = given
        self._thread = OneThread()

    @property
    def name(self) -> str:
        """What the user calls it."""
        given = self._given
        return f"The token provider {given if isinstance(given, str) else _called(given)}"

    async def fetch(self) -> object:
        """Call it; raises what it raises, ConfigError for a name that can't be loaded."""
        given = self._given
        provider = load_class(given, "token provider") if isinstance(given, str) else given
        found = provider() if inspect.iscoroutinefunction(provider) else await self._thread.joined(provider)
        return await found if inspect.isawaitable(found) else found


class FileTokens:
    """The token in a file that somebody else renews, as Kubernetes does; it is read each time."""

    def __init__(self, path: str, extensions: Mapping[str, str]) -> None:
        self._path = path
        self._extensions = extensions
        self._thread = OneThread()
        self.name = f"The token file {path!r}"

    async def fetch(self) -> OAuthToken:
        """Read it; raises ConfigError if that can't be done, AuthenticationError if there is no token in it."""
        content = await self._thread.joined(partial(read_file, self._path, self.name, _SIZE_MAX))
        try:
            return token_of_file(content.decode("ascii", "replace"), self._extensions)
        except ValueError as error:
            raise AuthenticationError(f"{self.name} {error}.") from None


def _called(provider: Callable[[], Any]) -> str:
    return getattr(provider, "__qualname__", type(provider).__qualname__)
