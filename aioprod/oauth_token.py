"""The result of a token provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["OAuthToken"]


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token for SASL/OAUTHBEARER, and the end of its validity."""

    value: str = field(repr=False)
    """The token as it is sent, most often a JWT; it is in no repr."""
    expires_at: float
    """In seconds since the epoch."""
    principal: str = ""
    """For messages only."""
    scopes: Sequence[str] = ()
    """For messages only."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """Sent along (KIP-342), such as `{"logicalCluster": "lkc-1"}`."""
