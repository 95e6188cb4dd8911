"""The error of a request that got no response: what failed, and what to check."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Final

from aioprod._short_reprs import printable
from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.answers import Purpose
from aioprod.schema_registry.config import RegistryConfig
from aioprod.schema_registry.errors import RegistryUnreachableError
from aioprod.schema_registry.tls import system_words

try:
    import httpx
except ImportError as error:
    raise missing("aioprod.schema_registry", error) from error

__all__ = ["explained", "unreachable"]

_REASON_MAX: Final = 200
_HINT: Final = "Check its address and that it runs; schemas that are cached are used without it."
_PLAIN_PEER: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"}
)
"""What OpenSSL says of bytes that are not TLS; which of them depends on its version."""


def unreachable(
    address: str, purpose: Purpose, reason: str, *, hint: str = _HINT, is_passing: bool = True
) -> RegistryUnreachableError:
    """The error of a request to `address`."""
    error = RegistryUnreachableError(
        f"The schema registry at {address} can't be reached for {purpose.text}: {reason}.",
        subject=purpose.subject,
        hint=hint,
    )
    error.is_passing = is_passing
    return error


def explained(error: Exception, address: str, purpose: Purpose, config: RegistryConfig) -> RegistryUnreachableError:
    """The error for what httpx raised."""
    system = [cause for cause in _causes(error) if isinstance(cause, OSError) and cause.errno is not None]
    for cause in system:
        if isinstance(cause, ssl.SSLCertVerificationError):
            words = printable(cause.verify_message, _REASON_MAX).rstrip(".")
            hint = "Give the file with its CA as ca_file, and an address that its certificate names."
            reason = f"its certificate is not accepted ({words})"
            return unreachable(address, purpose, reason, hint=hint, is_passing=False)
        if isinstance(cause, ssl.SSLError) and cause.reason in _PLAIN_PEER:
            hint = "Use http://, or the port at which it speaks TLS."
            return unreachable(address, purpose, "it does not speak TLS", hint=hint, is_passing=False)
    hint = _HINT
    if address.startswith("https:") and config.certificate_file is None:
        hint += " If it wants a certificate of its clients, give certificate_file."
    elif address.startswith("http:") and not isinstance(error, httpx.ConnectError):
        hint += " If it speaks TLS, use https://."
    # The text of these errors might quote a header that can't be sent, which may be the log-in.
    own = "" if isinstance(error, (httpx.LocalProtocolError, ValueError)) else str(error)
    words = system_words(system[0]) if system else own or type(error).__name__
    return unreachable(address, purpose, printable(words, _REASON_MAX).rstrip("."), hint=hint)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, the innermost last."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    inner = error.__cause__ or error.__context__
    if inner is not None:
        yield from _causes(inner)
