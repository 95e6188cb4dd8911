"""Requests to a token endpoint, and its answers (RFC 6749, RFC 7523; KIP-768, KIP-1139, KIP-1258)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from aioprod._short_reprs import printable
from aioprod.net.protocol.sasl.claims import claims_of
from aioprod.oauth_token import OAuthToken

__all__ = [
    "TokenRequest",
    "error_of",
    "is_passing",
    "request_by_assertion",
    "request_by_secret",
    "token_in",
    "token_of_file",
]

_CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TEXT_MAX: Final = 200
_LIFETIME_MAX_S: Final = 1e9
_EPOCH_MAX_S: Final = 1e12

_HEADERS: Final = {
    "Accept": "application/json",
    # Compressed answers could be much larger than what is read of them.
    "Accept-Encoding": "identity",
    "Cache-Control": "no-cache",
    "Content-Type": "application/x-www-form-urlencoded",
}


@dataclass(frozen=True, slots=True, repr=False)
class TokenRequest:
    """A POST to a token endpoint."""

    headers: Mapping[str, str]
    body: bytes
    secrets: tuple[str, ...]
    """What no message may repeat of it."""

    def quoted(self, text: str) -> str:
        """Text of the endpoint, for a message: 200 printable characters at most, and no secret that it repeats."""
        for secret in filter(None, self.secrets):
            text = text.replace(secret, "[hidden]")
        return printable(text, _TEXT_MAX)


def request_by_secret(client_id: str, secret: str, scope: str, *, encode: bool) -> TokenRequest:
    """A request with id and secret (RFC 6749 4.4.2); `encode` them first as its section 2.3.1 says, which not all
    expect."""
    name, password = (quote_plus(client_id), quote_plus(secret)) if encode else (client_id, secret)
    basic = base64.b64encode(f"{name}:{password}".encode()).decode()
    fields = {"grant_type": "client_credentials"} | _scope(scope)
    headers = _HEADERS | {"Authorization": f"Basic {basic}"}
    return TokenRequest(headers, urlencode(fields).encode(), (secret, password, basic))


def request_by_assertion(assertion: str, client_id: str, scope: str, *, alone: bool) -> TokenRequest:
    """A request with a signed JWT: as the client that it names (RFC 7523 2.2), or `alone`, for its subject (2.1)."""
    if alone:
        fields = {"grant_type": _JWT_BEARER, "assertion": assertion}
    else:
        fields = {
            "grant_type": "client_credentials",
            "client_assertion_type": _CLIENT_ASSERTION,
            "client_assertion": assertion,
        }
    fields |= {"client_id": client_id} if client_id else {}
    return TokenRequest(_HEADERS, urlencode(fields | _scope(scope)).encode(), (assertion,))


def is_passing(status: int) -> bool:
    """Whether another try may have another answer; the request itself is not to blame."""
    return status in (408, 425, 429) or (status >= 500 and status not in (501, 505))


def error_of(status: int, answer: bytes, request: TokenRequest) -> str:
    """The endpoint's words for a rejected request (RFC 6749 5.2), to continue a sentence."""
    if 300 <= status < 400:
        return f"answered {status}, a redirect, which is not followed"
    fields = _object_in(answer) or {}
    # The second pair is what Okta says.
    found = (fields.get(name) for name in ("error", "errorCode", "error_description", "errorSummary"))
    reason = ": ".join(text for text in found if isinstance(text, str) and text)
    return f"answered {status}" + (f" ({request.quoted(reason)})" if reason else "")


def token_in(answer: bytes, now: float, extensions: Mapping[str, str]) -> OAuthToken:
    """The token of an answer; raises ValueError, to continue a sentence, if there is none.

    When it ends is what the token says itself, if it is a JWT, as in Java; else what the answer says. `now` is in
    seconds since the epoch.
    """
    fields = _object_in(answer)
    if fields is None:
        raise ValueError("answered with something else than a JSON object")
    found = (fields.get(name) for name in ("access_token", "id_token"))
    value = next((text.strip() for text in found if isinstance(text, str) and text.strip()), None)
    if value is None:
        raise ValueError("answered without an access_token")
    claims = claims_of(value) or {}
    ends = _number(claims.get("exp"), _EPOCH_MAX_S)
    if ends is None:
        lifetime_s = _number(fields.get("expires_in"), _LIFETIME_MAX_S)
        if lifetime_s is None:
            raise ValueError("gave a token without saying when it ends: no exp in it, no expires_in beside it")
        ends = now + lifetime_s
    return OAuthToken(value, ends, _subject(claims), extensions=extensions)


def token_of_file(content: str, extensions: Mapping[str, str]) -> OAuthToken:
    """The token that is all of a file; raises ValueError, to continue a sentence, if it is not a JWT with an end."""
    value = content.strip()
    claims = claims_of(value)
    ends = _number((claims or {}).get("exp"), _EPOCH_MAX_S)
    if claims is None or ends is None:
        raise ValueError("has no JWT with the claim exp in it")
    return OAuthToken(value, ends, _subject(claims), extensions=extensions)


def _scope(scope: str) -> dict[str, str]:
    return {"scope": scope} if scope else {}


def _object_in(answer: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(given: object, limit: float) -> float | None:
    """A number up to `limit`; some endpoints write theirs as a text."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number <= limit else None


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims.get("sub")
    return printable(subject, _TEXT_MAX) if isinstance(subject, str) else ""
