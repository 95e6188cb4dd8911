"""A broker to be checked, and its release."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from aioprod.testing import TcpProxy

__all__ = ["KFAKE", "Broker", "NotRunError", "Release", "release_of"]

Release = tuple[int, ...]

KFAKE: Final = "kfake"
"""The broker of franz-go, in the place of a version."""
_NEWER_THAN_ALL: Final[Release] = (1000,)


class NotRunError(Exception):
    """This machine lacks what a broker needs, and the brokers are not to blame; says what it lacks."""


def release_of(name: str) -> Release:
    """The numbers of a version; kfake can do what the newest release can. Raises ValueError for what is neither."""
    return _NEWER_THAN_ALL if name == KFAKE else tuple(map(int, name.split(".")))


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker that runs, under the name by which it was asked for; clients reach it through its proxy."""

    name: str
    proxy: TcpProxy

    @property
    def bootstrap_servers(self) -> str:
        return self.proxy.address

    def fresh(self, what: str) -> str:
        """A name for a topic, a group or a transactional id that nobody has used."""
        return f"{what}-{uuid.uuid4().hex[:8]}"
