"""What a token says of itself: brokers reject tokens without a reason, so the client looks for one (RFC 7519)."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final

from aioprod._short_reprs import printable

__all__ = ["claims_of", "describe_token"]

_SIZE_MAX: Final = 64 * 1024
_VALUE_MAX: Final = 100


def describe_token(token: str, now: float) -> str:
    """The issuer, audience, subject and validity of a token, as far as it has them; `now` in seconds since the epoch.

    Nothing is verified, and nothing is shown that a log-in needs.
    """
    claims = claims_of(token)
    if claims is None:
        return "It is not a JWT, so what it says is not known."
    shown = [f"{name}={printable(str(claims[name]), _VALUE_MAX)}" for name in ("iss", "aud", "sub") if name in claims]
    for name, past, future in (
        ("exp", "it expired {} before", "it expires {} after"),
        ("nbf", "it holds from {} before", "it holds only from {} after"),
        ("iat", "it was issued {} before", "it was issued {} after"),
    ):
        seconds = claims.get(name)
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and abs(seconds) < 1e12:
            delta = seconds - now
            shown.append(
                (future if delta >= 0 else past).format(f"{abs(delta):.0f} s") + " now by this machine's clock"
            )
    return f"It says: {', '.join(shown)}." if shown else "It has none of the usual claims."


def claims_of(token: str) -> dict[str, Any] | None:
    """The claims of a JWT, not verified; None if it is none."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _SIZE_MAX:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = json.loads(payload)
    except (binascii.Error, ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None
