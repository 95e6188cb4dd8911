"""The check: is what was read back what was sent, record for record and in the same order within each key?

Neither side is kept in memory: each record goes into the digest of its key, and the digests are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

__all__ = ["Digest", "Digests", "compare"]


class Digest:
    """The records of one key: how many, a SHA-256 that depends on their order, and a sum that does not."""

    __slots__ = ("_sha256", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._sha256 = hashlib.sha256()

    def add(self, value: bytes | None) -> None:
        """Take the next record; its length goes before it, so that no two sequences look the same."""
        self.count += 1
        self.total += hash(value)
        self._sha256.update(b"null;" if value is None else b"%d:%b" % (len(value), value))

    @property
    def checksum(self) -> str:
        """The SHA-256 of all records so far, in hex digits."""
        return self._sha256.hexdigest()


class Digests(dict[bytes | None, Digest]):
    """A digest for each key, made when its first record comes."""

    def __missing__(self, key: bytes | None) -> Digest:
        self[key] = digest = Digest()
        return digest

    @property
    def records(self) -> int:
        """How many records there are, of all keys."""
        return sum(digest.count for digest in self.values())


def compare(sent: Mapping[bytes | None, Digest], read: Mapping[bytes | None, Digest]) -> list[str]:
    """Return a sentence for each key whose records differ; none when every record came back once and in order."""
    keys = sorted(sent.keys() | read.keys(), key=lambda key: key or b"")
    found = ((key, _difference(sent.get(key), read.get(key))) for key in keys)
    return [f"{_name(key)}: {difference}" for key, difference in found if difference is not None]


def _difference(sent: Digest | None, read: Digest | None) -> str | None:
    if sent is None:
        return f"{read.count if read else 0:,} records that were never sent."
    if read is None:
        return f"none of its {sent.count:,} records came back."
    if read.count < sent.count:
        return f"{sent.count - read.count:,} of its {sent.count:,} records did not come back."
    if read.count > sent.count:
        return f"{read.count - sent.count:,} records too many: {sent.count:,} were sent."
    if read.checksum == sent.checksum:
        return None
    if read.total == sent.total:
        return f"its {sent.count:,} records came back in another order."
    return f"as many records came back as were sent ({sent.count:,}), but not the same ones."


def _name(key: bytes | None) -> str:
    return "records without key" if key is None else key.decode(errors="backslashreplace")
