"""TlsError for the errors of OpenSSL: a certificate that is not accepted and why, or a peer without TLS."""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING, Final

from aioprod._short_reprs import printable
from aioprod.errors import TlsError

if TYPE_CHECKING:
    from aioprod.net.tls.contexts import Tls

__all__ = ["handshake_failure", "tls_failure"]

# OpenSSL's numbers, X509_V_ERR_*.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_UNKNOWN_CA: Final = (2, 7, 18, 19, 20, 21)
"""7 is a bad signature: a CA of the same name and with another key."""
_OTHER_HOST: Final = (62, 64)

_REQUIRES_CERTIFICATE: Final = ("ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_REQUIRED", "ALERT_HANDSHAKE_FAILURE")
_REJECTS_CERTIFICATE: Final = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_ACCESS_DENIED",
    "ALERT_DECRYPT_ERROR",
)
_NO_VERSION: Final = ("ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")
_PLAIN_PEER: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_FOR_PLAIN: Final = "Use the port of a listener with TLS, or a security.protocol without SSL."


def tls_failure(error: ssl.SSLError, address: str, tls: Tls) -> TlsError:
    """The TlsError for an error of OpenSSL, during the handshake or after it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message, hint = _of_their_certificate(error, address, tls)
    else:
        message, hint = _of_the_handshake(error.reason or "", address, tls)
    return TlsError(message, address=address, hint=hint)


def handshake_failure(address: str) -> TlsError:
    """The error for a connection that ended during the handshake; the broker may also have been stopped just then."""
    return TlsError(
        f"{address} closed the connection during the TLS handshake, as a listener without TLS does.",
        address=address,
        hint=_FOR_PLAIN,
        is_mismatch=True,
    )


def _of_their_certificate(error: ssl.SSLCertVerificationError, address: str, tls: Tls) -> tuple[str, str | None]:
    code, reason = error.verify_code, printable(error.verify_message)
    if code in _UNKNOWN_CA:
        return (
            f"The certificate of {address} is from no CA that is trusted here ({reason}); trusted: {tls.trusted}.",
            "Set ssl.truststore.location to a PEM file with the CA of the brokers.",
        )
    if code == _EXPIRED:
        hint = "Have the broker's certificate renewed, or look at the clock of this machine."
        return f"The certificate of {address} has expired; here it is {_date(time.time())}.", hint
    if code == _NOT_YET_VALID:
        hint = "Look at the clock of this machine."
        return f"The certificate of {address} is not valid yet; here it is {_date(time.time())}.", hint
    if code in _OTHER_HOST:
        return (
            f"The certificate of {address} is for another host ({reason.rstrip('.')}).",
            "Connect by a name that it has, or set ssl.endpoint.identification.algorithm=none.",
        )
    return f"The certificate of {address} is not accepted: {reason.rstrip('.')}.", None


def _of_the_handshake(reason: str, address: str, tls: Tls) -> tuple[str, str | None]:
    if reason.endswith(_PLAIN_PEER):
        return f"{address} does not speak TLS.", _FOR_PLAIN
    if reason.endswith(_NO_VERSION):
        return (
            f"{address} accepts none of the TLS versions that are offered: {tls.versions}.",
            "Set ssl.enabled.protocols.",
        )
    if not tls.has_certificate and reason.endswith(_REQUIRES_CERTIFICATE):
        also = " or has no cipher suite in common with this client" if "HANDSHAKE" in reason else ""
        return (
            f"{address} ended the handshake: it requires a client certificate, and this client has none{also}.",
            "Set ssl.keystore.location to a PEM file with a private key and its certificate.",
        )
    if tls.has_certificate and reason.endswith(_REJECTS_CERTIFICATE):
        text = f"{address} does not accept our certificate, {tls.certificate} ({_words(reason)}){_span(tls)}."
        return text, "Use one of a CA that the brokers trust; their log says what is wrong with this one."
    if reason.endswith("ALERT_HANDSHAKE_FAILURE"):
        return (
            f"{address} ended the handshake: there is no cipher suite in common, or it rejects our certificate.",
            None,
        )
    return f"TLS with {address} failed: {_words(reason) or 'OpenSSL gives no reason'}.", None


def _span(tls: Tls) -> str:
    if tls.validity is None:
        return ""
    now = time.time()
    if now > tls.validity.ends:
        return f"; it expired on {_date(tls.validity.ends)}"
    if now < tls.validity.begins:
        return f"; it is valid from {_date(tls.validity.begins)} on"
    return f"; it is valid until {_date(tls.validity.ends)}"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()
