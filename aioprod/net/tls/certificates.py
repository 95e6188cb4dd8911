"""Reading certificates: PEM as Java accepts it, and the validity of a certificate."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

__all__ = ["Validity", "certificates_in", "has_private_key", "tidy_pem", "validity"]

_BEGIN: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----")
_DASHES: Final = "-----"
_LINE: Final = 64
_UTC_TIME: Final = 0x17
_EXPLICIT_0: Final = 0xA0


class Validity(NamedTuple):
    """When a certificate begins and ceases to be valid, in seconds since the epoch."""

    begins: float
    ends: float


def tidy_pem(text: str) -> str:
    """PEM with lines of 64 characters: Java accepts base64 in one line and with blanks, OpenSSL does not."""

    tidied = []
    for kind, body in _blocks(text):
        if ":" not in body:  # Not one with headers, which the old form of encrypted keys has.
            compact = "".join(body.split())
            body = "\n" + "".join(f"{compact[at : at + _LINE]}\n" for at in range(0, len(compact), _LINE))
        tidied.append(f"-----BEGIN {kind}-----{body}-----END {kind}-----\n")
    return "".join(tidied) or "\n"


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """The kind and the body of each block, which ends at the next five dashes, so that the time is linear.

    One pattern for a whole block would have to be possessive, and early releases of Python 3.11 find nothing with that.
    """
    for begin in _BEGIN.finditer(text):
        kind, end = begin[1], text.find(_DASHES, begin.end())
        if end >= 0 and text.startswith(f"-----END {kind}-----", end):
            yield kind, text[begin.end() : end]


def certificates_in(pem: str) -> list[bytes]:
    """The certificates of a PEM text in order, as DER; blocks with invalid base64 are left out."""
    found = []
    for kind, body in _blocks(pem):
        if kind in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            try:
                found.append(base64.b64decode("".join(body.split()), validate=True))
            except ValueError:
                continue
    return found


def has_private_key(pem: str) -> bool:
    """Whether a PEM text has a private key in it, encrypted or not."""
    return any(kind.endswith("PRIVATE KEY") for kind, _ in _blocks(pem))


def validity(der: bytes) -> Validity | None:
    """When a certificate is valid (RFC 5280, section 4.1); None if it can't be read."""
    try:
        certificate, _ = _element(der, 0)
        fields, _ = _element(der, certificate.start)
        at = fields.start
        if der[at] == _EXPLICIT_0:
            _, at = _element(der, at)  # version
        for _ in range(3):
            _, at = _element(der, at)  # serial number, signature, issuer
        span, _ = _element(der, at)
        begins, at = _element(der, span.start)
        ends, _ = _element(der, at)
        return Validity(_time(der, begins), _time(der, ends))
    except (IndexError, ValueError):
        return None


class _Element(NamedTuple):
    tag: int
    start: int
    end: int


def _element(der: bytes, at: int) -> tuple[_Element, int]:
    """The tag and content of the element at `at`, and where the next one begins."""
    tag, size, start = der[at], der[at + 1], at + 2
    if size & 0x80:
        width = size & 0x7F
        if not 1 <= width <= 4:
            raise ValueError("no length")
        size = int.from_bytes(der[start : start + width], "big")
        start += width
    if start + size > len(der):
        raise ValueError("cut off")
    return _Element(tag, start, start + size), start + size


def _time(der: bytes, element: _Element) -> float:
    text = der[element.start : element.end].decode("ascii")
    if element.tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
