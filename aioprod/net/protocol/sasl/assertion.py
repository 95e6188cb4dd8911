"""An assertion: a signed JWT by which a client identifies itself (RFC 7515, RFC 7518, RFC 7523; KIP-1139)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aioprod.config import SecurityConfig
from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

__all__ = ["Fields", "assertion_fields", "signature", "signed_jwt", "template_in"]

Fields: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""The header of a JWT and its claims."""

_ES256_BYTES: Final = 32
_KEY: Final = "sasl.oauthbearer.assertion.private.key.file"


def template_in(content: bytes, where: str) -> Fields:
    """The fields for header and payload of a template file, as Java has it; raises ConfigError if it is malformed."""
    try:
        found = json.loads(content)
        header, payload = found.get("header", {}), found.get("payload", {})
    except (ValueError, RecursionError, AttributeError):
        header = payload = None
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise ConfigError(f"{where} is not a template.", hint='It has to be {"header": {...}, "payload": {...}}.')
    return header, payload


def assertion_fields(config: SecurityConfig, template: Fields, now: float, jti: str) -> Fields:
    """What an assertion says: by the settings, over that by the template, over that what is new in each.

    `now` is in seconds since the epoch; `jti` is an id that no other assertion has.
    """
    second = int(now)
    given = {
        "iss": config.sasl_oauthbearer_assertion_claim_iss,
        "sub": config.sasl_oauthbearer_assertion_claim_sub,
        "aud": config.sasl_oauthbearer_assertion_claim_aud,
    }
    header, payload = template
    new: dict[str, Any] = {
        "iat": second,
        "exp": second + config.sasl_oauthbearer_assertion_claim_exp_seconds,
        "nbf": second - config.sasl_oauthbearer_assertion_claim_nbf_seconds,
    }
    if config.sasl_oauthbearer_assertion_claim_jti_include:
        new |= {"jti": jti}
    static = {name: value for name, value in given.items() if value is not None}
    return header | {"alg": config.sasl_oauthbearer_assertion_algorithm, "typ": "JWT"}, static | payload | new


def signed_jwt(fields: Fields, algorithm: str, key: bytes, password: str | None) -> str:
    """The JWT with these fields, signed by RS256 or ES256 with a private key in PEM.

    Raises ConfigError for a key that can't be used, and without the package `cryptography`.
    """
    header, payload = fields
    content = f"{_encoded_json(header)}.{_encoded_json(payload)}"
    return f"{content}.{_encoded(signature(content.encode(), algorithm, key, password))}"


def signature(content: bytes, algorithm: str, key: bytes, password: str | None) -> bytes:
    """The signature of RFC 7518 3.3 or 3.4; raises ConfigError for a key that is not for it."""
    private = _private_key(key, password)
    # After the key, which imports them at last.
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    if algorithm == "RS256" and isinstance(private, rsa.RSAPrivateKey):
        return private.sign(content, padding.PKCS1v15(), hashes.SHA256())
    if (
        algorithm == "ES256"
        and isinstance(private, ec.EllipticCurvePrivateKey)
        and isinstance(private.curve, ec.SECP256R1)
    ):
        # Not the DER of X.509: both numbers one after the other (RFC 7518 3.4).
        numbers = decode_dss_signature(private.sign(content, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(_ES256_BYTES, "big") for number in numbers)
    raise ConfigError(
        f"The private key in {_KEY} is not one for sasl.oauthbearer.assertion.algorithm={algorithm}.",
        hint="RS256 needs an RSA key, ES256 one on the curve P-256.",
    )


def _private_key(key: bytes, password: str | None) -> PrivateKeyTypes:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise ConfigError(
            "To sign assertions aioprod needs the package cryptography.",
            hint="Install it: pip install 'aioprod[oidc]'.",
        ) from None
    try:
        return load_pem_private_key(key, password.encode() if password else None)
    except TypeError:
        what = "is encrypted" if not password else "is not encrypted, but a passphrase is given"
        hint = "See sasl.oauthbearer.assertion.private.key.passphrase."
    except (ValueError, UnsupportedAlgorithm):
        what = "can't be read" + (", or the passphrase is not its own" if password else "")
        hint = "It has to be PEM, beginning with -----BEGIN PRIVATE KEY----- or -----BEGIN ENCRYPTED PRIVATE KEY-----."
    raise ConfigError(f"The private key in {_KEY} {what}.", hint=hint)


def _encoded_json(fields: Mapping[str, Any]) -> str:
    return _encoded(json.dumps(fields, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
