"""The result of a token provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["OAuthToken"]


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token for SASL/OAUTHBEARER, and the end of its validity.

    `value` is the token as it is sent, most often a JWT; it is in no repr. `expires_at` is in seconds since the epoch.
    `principal` and `scopes` are for messages only. `extensions` are sent along (KIP-342), such as
    `{"logicalCluster": "lkc-1"}`.
    """

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    scopes: Sequence[str] = ()
    extensions: Mapping[str, str] = field(default_factory=dict)
