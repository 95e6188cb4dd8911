"""AWS_MSK_IAM: a request that is signed and never sent, as Amazon MSK wants it for a log-in (AWS Signature Version 4).

The request is `GET /?Action=kafka-cluster:Connect` at the broker; its query, signed, proves the identity.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from aioprod.net.protocol.sasl.mechanism import SaslError, Steps
from aioprod.oauth_token import OAuthToken

__all__ = ["AwsKeys", "aws_msk_iam", "msk_token", "region_of", "signed_query"]

_EXPIRES_S: Final = 900
"""How long a broker accepts the signature; the most that it allows, and what AWS's own clients say."""

_SERVICE: Final = "kafka-cluster"
_VERSION: Final = "2020_10_22"
_REGION: Final = re.compile(r"\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class AwsKeys:
    """Credentials of AWS."""

    access: str
    secret: str
    session: str = ""
    """The token of temporary credentials, else empty."""


def region_of(host: str) -> str | None:
    """The region that the name of a broker of Amazon MSK has in it, None for other names."""
    found = _REGION.search(host)
    return found[1].lower() if found is not None and found.end() == len(host) else None


def aws_msk_iam(host: str, region: str, keys: AwsKeys, now: float, user_agent: str) -> Steps:
    """Log in at the broker `host` by the mechanism AWS_MSK_IAM; `now` is in seconds since the epoch."""
    fields = {"version": _VERSION, "host": host, "user-agent": user_agent}
    fields |= {name.lower(): value for name, value in signed_query(host, region, keys, now)}
    answer = yield json.dumps(fields, separators=(",", ":")).encode()
    try:
        is_object = isinstance(json.loads(answer), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise SaslError("did not answer AWS_MSK_IAM as Amazon MSK does")


def msk_token(region: str, keys: AwsKeys, now: float, user_agent: str) -> OAuthToken:
    """A token for OAUTHBEARER, which holds for 15 minutes: the whole URL, for the region and not for one broker."""
    host = f"kafka.{region}.amazonaws.com"
    pairs = [*signed_query(host, region, keys, now), ("User-Agent", user_agent)]
    url = f"https://{host}/?{_encoded(pairs)}"
    token = base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode()
    return OAuthToken(token, now + _EXPIRES_S, keys.access)


def signed_query(host: str, region: str, keys: AwsKeys, now: float) -> list[tuple[str, str]]:
    """The query as names and values, not encoded; its signature is the last one."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{_SERVICE}/aws4_request"
    pairs = [
        ("Action", f"{_SERVICE}:Connect"),
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", f"{keys.access}/{scope}"),
        ("X-Amz-Date", stamp),
        ("X-Amz-Expires", str(_EXPIRES_S)),
        *([("X-Amz-Security-Token", keys.session)] if keys.session else []),
        ("X-Amz-SignedHeaders", "host"),
    ]
    # Sorted by name, as the signature has them.
    request = f"GET\n/\n{_encoded(pairs)}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return [*pairs, ("X-Amz-Signature", hmac.digest(key, text.encode(), "sha256").hex())]


def _encoded(pairs: list[tuple[str, str]]) -> str:
    return urlencode(pairs, quote_via=quote, safe="-._~")
