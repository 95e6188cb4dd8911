"""The reports of members: a line of JSON each, written before a member continues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aioprod import TopicPartition

__all__ = ["Partitions", "Report", "Said"]

Partitions = frozenset[TopicPartition]


class Said(StrEnum):
    """What was said.

    `BEGINS`: it joins; `ASSIGNED`, `REVOKED`, `LOST`: the partitions that it has from now on, or has not any more
    (an ASSIGNED without partitions says the generation); `HANDLED`: records of one partition, before they are
    committed; `COMMITTED`: the offset of each partition, after it is; `REFUSED`: a commit that failed; `REWOUND`: it
    goes back to where the group is; `LEADS`: the assignment of all, before it is handed out; `LEAVES` and `LEFT`:
    before and after it does.
    """

    BEGINS = "begins"
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"
    HANDLED = "handled"
    COMMITTED = "committed"
    REFUSED = "refused"
    REWOUND = "rewound"
    LEADS = "leads"
    LEAVES = "leaves"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Report:
    """One line: `at` is monotonic seconds, the same clock in all processes; `generation` and `member` as it knew them.

    `offsets`: of the records that were handled, all of one partition; or what was committed, one per partition.
    `assignment`: by member id, where the one who leads can tell. `why`: in its own words.
    """

    process: str
    said: Said
    at: float
    member: str = ""
    generation: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    offsets: tuple[int, ...] = ()
    assignment: Mapping[str, Partitions] = field(default_factory=dict)
    why: str = ""

    @classmethod
    def parse(cls, process: str, line: bytes) -> Report:
        """Read the line of a process; raises ValueError when it is none."""
        told: dict[str, Any] = json.loads(line)
        return cls(
            process=process,
            said=Said(told.pop("said")),
            partitions=_partitions(told.pop("partitions", ())),
            offsets=tuple(told.pop("offsets", ())),
            assignment={member: frozenset(_partitions(of)) for member, of in told.pop("assignment", {}).items()},
            **told,
        )


def _partitions(told: list[list[Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, partition) for topic, partition in told)
