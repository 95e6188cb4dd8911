"""The class in which a user writes the settings of a reader, under the names of Java's consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from aioprod.config import SessionConfig
from aioprod.config._setting import HIGH, LOW, MEDIUM, boolean, choice, instance, integer, text

if TYPE_CHECKING:
    from aioprod.config._other_clients import Role

__all__ = ["ISOLATION_LEVELS", "ReaderConfig"]

ISOLATION_LEVELS: Final = {"read_uncommitted": 0, "read_committed": 1}
"""The isolation levels, with their numbers on the wire (KIP-98)."""


class ReaderConfig(SessionConfig):
    """The settings of a reader, which holds up to one response of each broker and the one that it returns records of.

    A response has up to `fetch.max.bytes`, or one batch that is larger.
    """

    _ours: ClassVar[tuple[str, ...]] = ("consumers",)
    _role: ClassVar[Role] = "reader"
    _takes_other_names: ClassVar[bool] = True

    isolation_level: str = choice(
        "read_uncommitted",
        ISOLATION_LEVELS,
        alias="isolation",
        importance=MEDIUM,
        doc="`read_committed` leaves out the records of aborted transactions, and ends where an open one begins.",
    )
    key_deserializer: Any = instance("deserializer", importance=HIGH, doc="Makes keys of bytes. None: they stay bytes.")
    value_deserializer: Any = instance(
        "deserializer", importance=HIGH, doc="Makes values of bytes. None: they stay bytes."
    )
    fetch_max_bytes: int = integer(
        52_428_800,
        at_least=1,
        importance=MEDIUM,
        doc="The most bytes in one response of a broker; a first batch that is larger is returned all the same.",
    )
    max_partition_fetch_bytes: int = integer(
        1_048_576,
        at_least=1,
        importance=HIGH,
        doc="The most bytes of one partition in a response; a first batch that is larger is returned all the same.",
    )
    fetch_min_bytes: int = integer(
        1,
        importance=HIGH,
        doc="How many bytes of records a broker waits for before it answers, for `fetch.max.wait.ms` at most. More "
        "means fewer requests, and records that come later.",
    )
    fetch_max_wait_ms: int = integer(
        500,
        importance=LOW,
        doc="How long a broker may wait for `fetch.min.bytes` before it answers with less.",
    )
    check_crcs: bool = boolean(
        True,
        importance=LOW,
        doc="Whether the checksum of each batch is compared with its bytes.",
    )
    client_rack: str = text(
        "",
        importance=LOW,
        doc="Where this client is, in the words of the brokers' `broker.rack`: partitions are read from the follower "
        "there that their leaders name (KIP-392).",
    )
