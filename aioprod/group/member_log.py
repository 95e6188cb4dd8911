"""The log lines of one member: each names its client and its group."""

from __future__ import annotations

from collections.abc import Iterable

from aioprod._logger import Logger
from aioprod.types import TopicPartition

__all__ = ["MemberLog", "place_fields"]


class MemberLog(Logger):
    """Writes to the logger `aioprod.group`. Each line is a sentence whose subject is the member: give its predicate.

    Lines have the fields `group` and `client_id` for structured logs, and those that a call gives as `extra`.
    """

    def __init__(self, group_id: str, client_id: str) -> None:
        super().__init__("aioprod.group")
        named = f" {client_id!r}" if client_id else ""
        self._member = f"Member{named} of group {group_id!r}"
        self._fields = {"group": group_id, "client_id": client_id}

    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        """Write a line."""
        more = kwargs.pop("extra", None)
        fields = {**self._fields, **more} if isinstance(more, dict) else self._fields
        super().log(level, f"%s {msg}", self._member, *args, extra=fields, stacklevel=3, **kwargs)


def place_fields(partitions: Iterable[TopicPartition]) -> dict[str, object]:
    """The fields `topic` and `partition` of a line about these partitions, where there is one."""
    some = frozenset(partitions)
    topics = {tp.topic for tp in some}
    fields: dict[str, object] = {"topic": topics.pop()} if len(topics) == 1 else {}
    if len(some) == 1:
        fields["partition"] = next(iter(some)).partition
    return fields
