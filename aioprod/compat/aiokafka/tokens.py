"""aiokafka's token providers for OAUTHBEARER, as aioprod takes them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from aioprod.errors import AuthenticationError
from aioprod.net.protocol.sasl.claims import claims_of
from aioprod.oauth_token import OAuthToken

__all__ = ["TokenAdapter", "TokenProvider"]

OPAQUE_S: Final = 300.0
"""How long a token is taken for valid that does not say it: aiokafka's providers return a bare string."""


class TokenProvider(Protocol):
    """An object as aiokafka's `AbstractTokenProvider`; it may also have `extensions()`."""

    async def token(self) -> str:
        """A token that is valid now."""
        ...


class TokenAdapter:
    """Calls a provider of aiokafka's and reads from the token when it ends, which aioprod has to know to renew it."""

    def __init__(self, provider: TokenProvider) -> None:
        self._provider = provider

    async def token(self) -> OAuthToken:
        """The provider's token and extensions; raises what the provider raises, AuthenticationError for no str."""
        value: object = await self._provider.token()
        if not isinstance(value, str):
            kind = type(value).__name__
            raise AuthenticationError(
                f"token() of sasl_oauth_token_provider returned an object of type {kind}, no str."
            )
        extensions: Mapping[str, str] = getattr(self._provider, "extensions", dict)()
        claims = claims_of(value) or {}
        end: Any = claims.get("exp")
        says_it = isinstance(end, (int, float)) and not isinstance(end, bool)
        expires_at = float(end) if says_it else time.time() + OPAQUE_S
        return OAuthToken(value, expires_at, extensions=dict(extensions))
