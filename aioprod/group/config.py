"""The class in which a user writes the settings of a group member, under the names of Java's consumer."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from aioprod._logger import Logger
from aioprod.cluster.names import topic_name_error
from aioprod.config import SessionConfig, settings_of
from aioprod.config._durations import by_duration
from aioprod.config._setting import HIGH, LOW, MEDIUM, boolean, choice, instances, integer, optional_text, text
from aioprod.errors import ConfigError
from aioprod.reader.config import ReaderConfig

if TYPE_CHECKING:
    from aioprod.config._other_clients import Role

__all__ = ["MemberConfig"]

_logger = Logger("aioprod")

_SET_BY_THE_BROKERS: Final = ("session_timeout_ms", "heartbeat_interval_ms")


class MemberConfig(ReaderConfig):
    """The settings of a reader, and those of a group member.

    Raises ConfigError, in a sentence that names the setting, for an invalid value.
    """

    _role: ClassVar[Role] = "member"

    group_id: str | None = optional_text(importance=HIGH, doc="The name of the group. A member must have one.")
    auto_offset_reset: str = choice(
        "latest",
        ["latest", "earliest", "none"],
        also={"largest": "latest", "end": "latest", "smallest": "earliest", "beginning": "earliest", "error": "none"},
        form=("by_duration:PnDTnHnMn.nS", by_duration),
        importance=MEDIUM,
        doc="Where to start when the group has committed nothing, or the log does not have the offset any more. "
        "`by_duration:PT1H` is the first record of the last hour, or the end where all are older (KIP-1106). "
        "`none` raises an error. librdkafka's other words for the same are known.",
    )
    partition_assignment_strategy: tuple[Any, ...] = instances(
        "assignor",
        default=("cooperative-sticky", "range"),
        annotation="AssignorName | Sequence[AssignorOption]",
        alias="assignors",
        importance=MEDIUM,
        doc="The assignors, names or objects, in order of preference; the group takes one that all members have.",
    )
    session_timeout_ms: int = integer(
        45_000,
        at_least=1,
        importance=HIGH,
        doc="How long the coordinator waits for a heartbeat before it removes the member from the group.",
    )
    heartbeat_interval_ms: int = integer(
        3_000,
        at_least=1,
        importance=HIGH,
        doc="The time between two heartbeats; their responses also announce rebalances. No more than a "
        "third of `session.timeout.ms`, as a rule.",
    )
    max_poll_interval_ms: int = integer(
        300_000,
        at_least=1,
        importance=MEDIUM,
        doc="The longest time between two polls: a member that takes longer for a record leaves the group. In a "
        "rebalance the coordinator waits as long for members to rejoin.",
    )
    group_instance_id: str | None = optional_text(
        importance=MEDIUM,
        doc="Makes this a static member (KIP-345): one that restarts under the same id within `session.timeout.ms` "
        "gets its partitions back without a rebalance.",
    )
    enable_auto_commit: bool = boolean(
        False,
        importance=MEDIUM,
        doc="Whether the member commits in the background what the application has finished: the records that it has "
        "polled past. Java's consumer does so by default.",
    )
    auto_commit_interval_ms: int = integer(
        5_000,
        at_least=1,
        importance=LOW,
        doc="The time between two commits in the background; one more is made before partitions are revoked.",
    )
    close_timeout_ms: int = integer(
        30_000,
        importance=MEDIUM,
        doc="The time that `close()` and the end of `async with` take at most. Half of it is for a record that another "
        "task works on.",
    )
    client_rack: str = text(
        "",
        importance=LOW,
        doc="Where this client is, in the words of the brokers' `broker.rack`: partitions are read from the follower "
        "there that their leaders name (KIP-392), and assignors that look at racks give it partitions with a replica "
        "there (KIP-881).",
    )
    group_protocol: str = choice(
        "classic",
        ["classic", "consumer"],
        importance=HIGH,
        doc="`classic`: a member assigns the partitions, with an assignor of `partition.assignment.strategy`; "
        "`consumer`: the brokers do (KIP-848, from 4.0 on).",
    )
    exclude_internal_topics: bool = boolean(
        True,
        importance=MEDIUM,
        doc="Whether a pattern leaves out Kafka's own topics, such as `__consumer_offsets`, although it matches them.",
    )
    group_remote_assignor: str | None = optional_text(
        importance=MEDIUM,
        doc="The brokers' assignor for `group.protocol=consumer`: `uniform` or `range`. None: the brokers choose.",
    )

    @classmethod
    def from_properties(cls, path: str | PathLike[str]) -> Self:
        """As of all clients; logs a WARNING for a file of a consumer without `enable.auto.commit`.

        It is true for Java's consumer, and false here.
        """
        config = super().from_properties(path)
        is_of_a_consumer = not config.explicit <= settings_of(SessionConfig).keys()
        if is_of_a_consumer and "enable_auto_commit" not in config.explicit:
            _logger.warning(
                "%r does not set enable.auto.commit: it is true for Java's consumer and false here, so that commit() "
                "has to be called. Set enable.auto.commit=true to commit in the background, or false to keep it so.",
                str(path),
            )
        return config

    def _adjustments(self) -> Mapping[str, object]:
        if self.group_instance_id is not None and topic_name_error(self.group_instance_id) is not None:
            raise ConfigError(
                f"group.instance.id is {self.group_instance_id!r:.60}: give a name of up to 249 ASCII letters, digits, "
                "'.', '_' and '-', or leave it out."
            )
        if not self.partition_assignment_strategy:
            raise ConfigError("partition.assignment.strategy is empty: give at least one assignor.")
        if self.group_protocol == "consumer":
            if "partition_assignment_strategy" in self.explicit:
                raise ConfigError(
                    "partition.assignment.strategy (assignors) can't be set with group.protocol=consumer: the brokers "
                    "assign the partitions.",
                    hint="Set group.remote.assignor to one of theirs.",
                )
            for name in _SET_BY_THE_BROKERS:
                if name in self.explicit:
                    raise ConfigError(
                        f"{name.replace('_', '.')} can't be set with group.protocol=consumer: the brokers set it.",
                        hint=f"Set group.consumer.{name.replace('_', '.')} on the brokers or on the group.",
                    )
        elif self.group_remote_assignor is not None:
            raise ConfigError("group.remote.assignor can't be set without group.protocol=consumer.")
        elif self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} is not below session.timeout.ms="
                f"{self.session_timeout_ms}, in which several heartbeats have to fit.",
                hint="Set it to a third of session.timeout.ms at most.",
            )
        return ReaderConfig._adjustments(self)
