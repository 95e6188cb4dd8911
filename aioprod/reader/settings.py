"""The settings of a reader and of an administrator, under the names that Java's consumer and admin client give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from aioprod.config import ClientConfig
from aioprod.config._setting import HIGH, LOW, MEDIUM, boolean, integer, text
from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from aioprod.config._other_clients import Role

__all__ = ["ISOLATION_LEVELS", "ReaderConfig", "SessionConfig", "isolation_level"]

ISOLATION_LEVELS: Final = {"read_uncommitted": 0, "read_committed": 1}
"""What a reader sees of transactions that are open or aborted, with the number on the wire (KIP-98)."""


def isolation_level(isolation: str) -> int:
    """The number on the wire; raises ConfigError for what is none of ISOLATION_LEVELS."""
    if isolation not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation is {isolation!r}: it must be one of {', '.join(ISOLATION_LEVELS)}.")
    return ISOLATION_LEVELS[isolation]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SessionConfig(ClientConfig):
    """The settings of everything that asks a cluster questions, and how long it goes on asking.

    Raises ConfigError, in a sentence that names the setting, for a value that can't be used.
    """

    default_api_timeout_ms: int = integer(
        60_000,
        at_least=1,
        importance=MEDIUM,
        doc="How long to go on trying while brokers can't be reached or answer with errors that may pass. A reader "
        "counts the time that it waits without any partition getting on.",
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReaderConfig(SessionConfig):
    """The settings of a reader. It holds one answer of each broker at most, and the one that it gives out just now.

    An answer has up to `fetch.max.bytes`, or one batch that is larger.
    """

    _ours: ClassVar[tuple[str, ...]] = ("consumers",)
    _role: ClassVar[Role] = "reader"

    fetch_max_bytes: int = integer(
        52_428_800,
        at_least=1,
        importance=MEDIUM,
        doc="The most bytes that one answer of a broker brings; a first batch that is larger comes all the same.",
    )
    max_partition_fetch_bytes: int = integer(
        1_048_576,
        at_least=1,
        importance=HIGH,
        doc="The most bytes of one partition in an answer; a first batch that is larger comes all the same.",
    )
    fetch_max_wait_ms: int = integer(
        500,
        importance=LOW,
        doc="How long a broker may hold back an answer that brings nothing.",
    )
    check_crcs: bool = boolean(
        True,
        importance=LOW,
        doc="Whether the checksum of each batch is compared with its bytes.",
    )
    client_rack: str = text(
        "",
        built=("",),
        later="reading from followers is not built yet.",
        importance=LOW,
        doc="Where this client is, in the words of the brokers' `broker.rack`.",
    )
