"""Tokens from a function of the user, or from a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from aioprod.config import load_class, read_file
from aioprod.errors import AuthenticationError
from aioprod.net.one_thread import OneThread
from aioprod.net.protocol.sasl.token_endpoint import token_of_file
from aioprod.oauth_token import OAuthToken

__all__ = ["FileTokens", "ProvidedTokens", "TokenSource"]

_SIZE_MAX: Final = 64 * 1024


class TokenSource(Protocol):
    """Fetches a new token for each call; sentences of errors begin with its `name`."""

    @property
    def name(self) -> str: ...

    async def fetch(self) -> object:
        """An OAuthToken, which the caller checks; raises AuthenticationError, ConfigError, or a user's exception."""


class ProvidedTokens:
    """Tokens from a function or coroutine function of the user, or its name; plain functions run in a thread.

    A function that still runs after a timeout is not called again before it has returned.
    """

    def __init__(self, given: Callable[[], Any] | str) -> None:
        self._given = given
        self._thread = OneThread()

    @property
    def name(self) -> str:
        """The user's name of the function."""
        given = self._given
        return f"The token provider {given if isinstance(given, str) else f'{_called(given)}()'}"

    async def fetch(self) -> object:
        """Call it; raises what it raises, ConfigError for a name that can't be loaded."""
        given = self._given
        provider = load_class(given, "token provider") if isinstance(given, str) else given
        found = provider() if inspect.iscoroutinefunction(provider) else await self._thread.joined(provider)
        return await found if inspect.isawaitable(found) else found


class FileTokens:
    """The token in a file that another process renews, as Kubernetes does; it is read for each log-in."""

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
