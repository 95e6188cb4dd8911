"""The marker: how far the transactions of a transactional id have come, committed in each of them.

It is the offset of a group that has no other use, `aioprod-eos.<transactional id>`: a count that only grows, and in its
metadata the owner of what it counts. It is committed in the transaction of the records that it counts, so it is there
if they are, and only then. There is no other durable state. A relay's metadata is `owner:position`, and in a line of
its own the name of the running relay; Spark's jobs have the owner alone.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from aioprod.errors import ConfigError, MarkerError
from aioprod.types import OffsetAndMetadata

__all__ = ["Marker", "group_of"]

_BYTES_MAX: Final = 4096
"""What brokers take as the metadata of an offset (`offset.metadata.max.bytes`)."""
_RELAY_BYTES_MAX: Final = 4000
"""What owner and position of a relay may have of that, as they are written: the rest is for its name."""
_ENCODED: Final = "="
"""Begins a position that is no printable ASCII: base64 follows."""


def group_of(transactional_id: str) -> str:
    """The group whose offset is the marker."""
    return f"aioprod-eos.{transactional_id}"


class Marker(NamedTuple):
    """How far the records of a source have come, or the steps of a job."""

    number: int
    """How many records, or steps, were committed."""
    owner: str
    """Whose they are."""
    position: bytes | None = None
    """That of the last record; None where there is none, and in the markers of steps."""
    claim: str = ""
    """The name of the relay that runs: a later one has another."""

    def to_offset(self) -> OffsetAndMetadata:
        """What is committed; raises ConfigError where owner and position are too long."""
        text = self.owner if self.position is None else f"{self.owner}:{_written(self.position)}"
        size, most = len(text.encode()), _RELAY_BYTES_MAX if self.claim else _BYTES_MAX
        if size > most:
            raise ConfigError(
                f"Owner and position of a marker have {size} bytes, and may have {most}.",
                hint="Let the source have a shorter owner, or shorter positions.",
            )
        return OffsetAndMetadata(self.number, f"{text}\n{self.claim}" if self.claim else text)

    @classmethod
    def of(cls, found: OffsetAndMetadata, owner: str, transactional_id: str) -> Marker:
        """Read the marker of this owner; raises MarkerError for another's."""
        text, _, claim = found.metadata.partition("\n")
        if text == owner:
            return cls(found.offset, owner, None, claim)
        if not text.startswith(f"{owner}:"):
            group = group_of(transactional_id)
            raise MarkerError(
                f"The transactional.id {transactional_id!r} belongs to another source: its marker, an offset of the "
                f"group {group!r}, is {text!r}, and this source is {owner!r}.",
                hint="Give each source a transactional.id of its own. If the other one is over for good, delete its "
                f"marker: aioprod groups delete {group}",
            )
        return cls(found.offset, owner, _read(text[len(owner) + 1 :], transactional_id), claim)


def _written(position: bytes) -> str:
    if position.isascii() and not position.startswith(_ENCODED.encode()):
        text = position.decode()
        if text.isprintable():
            return text
    return _ENCODED + base64.b64encode(position).decode()


def _read(text: str, transactional_id: str) -> bytes:
    if not text.startswith(_ENCODED):
        return text.encode()
    try:
        return base64.b64decode(text[1:], validate=True)
    except binascii.Error as error:
        raise MarkerError(
            f"The marker of {transactional_id!r} has the position {text!r}, which is not base64.",
            hint=f"Look which record was sent last, and set the offset of the group {group_of(transactional_id)!r}.",
        ) from error
