"""The admin client: topics and their partitions, offsets, brokers, groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from aioprod._process_bound import ProcessBound, hinting_at
from aioprod.admin.configs import ConfigEntry, ConfigKind, alter_configs, describe_configs
from aioprod.admin.log_dirs import LogDir, log_dirs, topic_sizes
from aioprod.admin.records import delete_records
from aioprod.admin.topics import create_topics, delete_topics, described_topics, grow_topic
from aioprod.calls.any_broker import FailureWording, ItemResult, all_topics, request_any_broker
from aioprod.calls.committed_offsets import all_offsets
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session, SessionUser
from aioprod.cluster import Node, PartitionInfo
from aioprod.config import SessionConfig
from aioprod.errors import (
    AioprodError,
    ErrorCode,
    GroupFailuresError,
    TopicFailuresError,
    UnknownTopicError,
)
from aioprod.group.listing import GroupListing, listed_groups
from aioprod.messages import (
    MetadataRequest,
)
from aioprod.messages.negotiation import ApiVersions
from aioprod.reader.offsets import LATEST, At, look_up, topic_offsets
from aioprod.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.admin.groups import GroupDescription
    from aioprod.admin.offset_resets import OffsetChange
    from aioprod.options import AdminOptions

__all__ = ["Admin", "ClusterDescription", "GroupListing"]


class ClusterDescription(NamedTuple):
    """A cluster now: its id (None before Kafka 0.10.1), its controller if it is a broker that is up, its brokers."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]


_CLOSE: Final = "call `await admin.close()`."

INSTEAD: Final = {
    "list_topics": "call `await admin.topics()`, or partition_counts().",
    "list_offsets": "call `await admin.offsets(topic, at)`, with at='earliest', 'latest' or a time.",
    "incremental_alter_configs": "call `await admin.alter_configs(kind, name, {...})`.",
    "describe_consumer_groups": "call `await admin.describe_groups([group_id])`, and group_lag(group_id).",
    "describe_log_dirs": "call `await admin.log_dirs()`, or topic_sizes().",
    "list_consumer_groups": "call `await admin.groups()`.",
    "delete_consumer_groups": "call `await admin.delete_groups(*group_ids)`.",
    "list_consumer_group_offsets": "call `await admin.group_offsets(group_id)`.",
    "alter_consumer_group_offsets": "call `await admin.reset_offsets(group_id, {tp: offset})`.",
    "delete_consumer_group_offsets": "call `await admin.delete_offsets(group_id, partitions)`.",
    "stop": _CLOSE,
    "aclose": _CLOSE,
    "poll": "leave it out: each call waits for its response.",
}
"""Calls of other admin clients that `Admin` lacks -> what to call instead."""

if TYPE_CHECKING:
    _ForeignCallHints = ProcessBound
else:
    _ForeignCallHints = hinting_at(INSTEAD)


class Admin(SessionUser, _ForeignCallHints):
    """An admin client for one event loop; use it as `async with Admin("host:9092") as admin`.

    `options` are fields of `SessionConfig` (Java's names in snake_case); they win over those of `config`. Raises
    ConfigError. Connects to no broker before `start()`. All calls are retried for `default.api.timeout.ms` while
    brokers can't be reached or answer with errors that may pass, and raise RequestTimedOutError then. Other errors of
    brokers raise AuthorizationError, InvalidTopicError, UnknownTopicError, or BrokerError with its code.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: SessionConfig | Mapping[str, Any] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        """The class says what the arguments are."""
        self.config = SessionConfig.given(config, bootstrap_servers, options)
        self._session = Session(self.config, "admin client")

    # --- topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
        exists_ok: bool = False,
        timeout: float = 30.0,
    ) -> None:
        """Create a topic and wait until all of its partitions have leaders, for `timeout` at most.

        -1 leaves a number to the brokers, from 2.4 on; older ones raise UnsupportedVersionError. `config` has the
        topic's settings, `retention.ms` or `retention_ms`. Raises TopicExistsError when the topic exists,
        unless `exists_ok`: then it is not changed. Further MetadataTimeoutError when it was created and its
        leaders are not known in time, AuthorizationError also when it was created and may not be described.
        """
        _raise_single(
            await create_topics(self._session, {name: partitions}, replication_factor, config, exists_ok, timeout)
        )

    async def create_topics(
        self,
        topics: Iterable[str] | Mapping[str, int],
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
        exists_ok: bool = False,
        timeout: float = 30.0,
    ) -> None:
        """Create topics in one request, and wait for their leaders, as `create_topic` does.

        `topics` are names, or names with the number of partitions of each. A failure does not stop
        the others: TopicFailuresError has the error of each topic that failed.
        """
        counts = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(_names(topics), partitions)
        failures = await create_topics(self._session, counts, replication_factor, config, exists_ok, timeout)
        _raise_all(failures, len(counts), "created")

    async def delete_topic(self, name: str, *, missing_ok: bool = False, timeout: float = 30.0) -> None:
        """Delete a topic, for `timeout` at most; some brokers may still know it for a moment.

        Raises UnknownTopicError when the topic does not exist, unless `missing_ok`.
        """
        _raise_single(await delete_topics(self._session, [name], missing_ok, timeout))

    async def delete_topics(self, names: Iterable[str], *, missing_ok: bool = False, timeout: float = 30.0) -> None:
        """Delete topics in one request: as `delete_topic`. TopicFailuresError has the error of each that failed."""
        each = _names(names)
        _raise_all(await delete_topics(self._session, each, missing_ok, timeout), len(each), "deleted")

    async def create_partitions(self, topic: str, count: int, *, timeout: float = 30.0) -> None:
        """Increase the partitions of a topic to `count`, and wait until they have leaders, for `timeout` at most.

        Keys are mapped to other partitions from then on: see `aioprod.routing.moved_keys`. Raises BrokerError
        (INVALID_PARTITIONS) when the topic has as many or more, and what `create_topic` raises about leaders.
        """
        await grow_topic(self._session, topic, count, timeout)

    async def topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """The names of all topics, sorted; with Kafka's own topics if `internal`."""
        response = await all_topics(self._session, self._deadline(timeout))
        return sorted(topic.name for topic in response.topics if topic.name and (internal or not topic.is_internal))

    async def partition_counts(self, *, timeout: float | None = None) -> dict[str, int]:
        """The number of partitions of each topic, without Kafka's own topics."""
        response = await all_topics(self._session, self._deadline(timeout))
        return {
            topic.name: len(topic.partitions)
            for topic in sorted(response.topics, key=lambda topic: topic.name or "")
            if topic.name and topic.partitions and not topic.is_internal
        }

    async def describe_topics(
        self, names: Iterable[str] | None = None, *, internal: bool = False, timeout: float | None = None
    ) -> dict[str, tuple[PartitionInfo, ...]]:
        """The partitions of these topics, or of all that this client may see (Kafka's own if `internal`), by name.

        One request, however many they are. Raises UnknownTopicError, or TopicFailuresError for several, where a named
        one does not exist or this client may not see it.
        """
        response = await all_topics(self._session, self._deadline(timeout))
        if names is None:
            return described_topics(response, internal=internal)
        described = described_topics(response, internal=True)
        wanted = _names(names)
        failures: dict[str, AioprodError] = {
            name: UnknownTopicError(f"Topic {name!r} does not exist.", hint="Check its name, and DESCRIBE on it.")
            for name in wanted
            if name not in described
        }
        if len(wanted) == 1:
            _raise_single(failures)
        _raise_all(failures, len(wanted), "described")
        return {name: described[name] for name in wanted}

    async def partitions(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic by index, as the cluster describes them now."""
        return list(await self._session.partitions(topic))

    async def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic, which changes when it is deleted and created again; None before Kafka 2.8."""
        await self._session.partitions(topic)
        return self._session.cluster().topic_id(topic)

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None before Kafka 0.10.1."""
        return self._session.cluster().cluster_id

    @property
    def api_versions(self) -> ApiVersions | None:
        """The requests with their versions that a connected broker knows; None while none is connected."""
        return self._session.client.api_versions

    async def offsets(self, topic: str, at: At = "latest") -> dict[TopicPartition, int]:
        """The offset of each partition at its "earliest", its "latest", or at a time: its first record not older.

        Where all records are older that is the end. Raises ConfigError for another `at`.
        """
        return await topic_offsets(self._session, topic, at, "read_uncommitted")

    # --- the cluster and its groups

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The brokers that are up, and which of them is the controller (of a KRaft cluster: one that forwards)."""
        response = await request_any_broker(
            self._session,
            MetadataRequest(topics=(), allow_auto_topic_creation=False),
            lambda response: ItemResult(ErrorCode.of(response.error_code)),
            FailureWording("The cluster could not be described"),
            self._deadline(timeout),
        )
        nodes = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers}
        brokers = tuple(node for _, node in sorted(nodes.items()))
        return ClusterDescription(response.cluster_id, nodes.get(response.controller_id), brokers)

    async def groups(self, *, timeout: float | None = None) -> list[GroupListing]:
        """All groups, sorted by name, with their states and types; those of brokers that are down are missing."""
        return await listed_groups(self._session, self._deadline(timeout))

    async def group_offsets(
        self, group_id: str, *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group; empty for one that does not exist."""
        from aioprod.group.validation import checked_group  # It imports all modules of a member.

        coordinator = Coordinator(self._session.client, "group", checked_group(group_id))
        return await all_offsets(coordinator, self._deadline(timeout))

    async def group_lag(self, group_id: str, *, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        """The lag of a group in offsets for each partition with a committed offset; None for one that was deleted."""
        deadline = self._deadline(timeout)
        committed = await self.group_offsets(group_id, timeout=timeout)
        response = await all_topics(self._session, deadline)
        existing = {
            TopicPartition(one.name or "", row.partition_index) for one in response.topics for row in one.partitions
        }
        known = [tp for tp in committed if tp in existing]
        ends = await look_up(self._session, dict.fromkeys(known, LATEST), "read_uncommitted")
        return {tp: max(0, ends[tp] - at.offset) if tp in ends else None for tp, at in committed.items()}

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """The members of groups with what they are assigned, of both protocols (KIP-848).

        Raises BrokerError (GROUP_ID_NOT_FOUND) for a group that does not exist, AuthorizationError and
        RequestTimedOutError.
        """
        from aioprod.admin.groups import describe_groups  # It imports all modules of a member.

        names = [group_ids] if isinstance(group_ids, str) else group_ids
        return await describe_groups(self._session, names, self._deadline(timeout))

    async def reset_offsets(
        self,
        group_id: str,
        to: At | Mapping[TopicPartition, int] | None = None,
        *,
        shift_by: int | None = None,
        partitions: str | TopicPartition | Iterable[str | TopicPartition] | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetChange]:
        """Commit other offsets for a group that has no members; returns those before and after for each partition.

        `to` is "earliest", "latest", a time (ms since the epoch, or an aware datetime: the first record not older, or
        the end), or an offset for each partition; `shift_by` goes forward by so many offsets, or back if it is
        negative. `partitions` are TopicPartitions, and names of topics for all partitions of these; by default all for
        which the group has committed. With `dry_run` nothing is committed. Transactions that may still change the
        offsets are waited for.

        Nothing is committed when it raises ConfigError, UsageError, UnknownTopicError, or BrokerError for a group that
        has members (NON_EMPTY_GROUP) or does not exist (GROUP_ID_NOT_FOUND), or for an offset that is not in the log
        (OFFSET_OUT_OF_RANGE). After AuthorizationError, RequestTimedOutError and other BrokerErrors some may be:
        `may_be_stored` says so.
        """
        from aioprod.admin.offset_resets import reset_offsets  # It imports all modules of a member.

        return await reset_offsets(self._session, group_id, to, shift_by, partitions, dry_run, self._deadline(timeout))

    async def delete_offsets(
        self,
        group_id: str,
        partitions: TopicPartition | Iterable[TopicPartition],
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete what a group has committed for partitions of topics that none of its members reads (KIP-496).

        Where nothing was committed there is nothing to do. Raises BrokerError (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP
        for a group of other members than consumers), UnsupportedVersionError before Kafka 2.4, AuthorizationError and
        RequestTimedOutError. A single partition that fails raises its error, BrokerError (GROUP_SUBSCRIBED_TO_TOPIC),
        UnknownTopicError or AuthorizationError; of several GroupFailuresError has the error of each that failed.
        """
        from aioprod.admin.group_deletions import delete_offsets  # It imports all modules of a member.

        count, failures = await delete_offsets(self._session, group_id, partitions, self._deadline(timeout))
        _raise_for_group(failures, count, "offsets")

    async def delete_groups(self, *group_ids: str, missing_ok: bool = False, timeout: float | None = None) -> None:
        """Delete groups that have no members, with all that they have committed.

        One group that fails raises its error: BrokerError (NON_EMPTY_GROUP; GROUP_ID_NOT_FOUND unless `missing_ok`),
        AuthorizationError or RequestTimedOutError. Of several the others are deleted, and GroupFailuresError has the
        error of each that failed.
        """
        from aioprod.admin.group_deletions import delete_groups  # It imports all modules of a member.

        failures = await delete_groups(self._session, group_ids, missing_ok, self._deadline(timeout))
        _raise_for_group(failures, len(set(group_ids)), "groups")

    # --- settings, folders, records

    async def describe_configs(
        self, kind: ConfigKind, name: str, *, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        """All settings of a topic, or of a broker by its id, by name; sensitive ones have no value.

        Raises UnknownTopicError, AuthorizationError, RequestTimedOutError, and UsageError for another `kind`.
        """
        return await describe_configs(self._session, kind, name, self._deadline(timeout))

    async def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        to_set: Mapping[str, object] | None = None,
        *,
        reset: Iterable[str] = (),
        append: Mapping[str, object] | None = None,
        subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change some settings of a topic or a broker, and leave the others as they are (KIP-339).

        Names are `retention.ms` or `retention_ms`. `reset` brings defaults back; `append` and `subtract` change lists,
        such as `cleanup.policy`. With `validate_only` brokers only check the change. Raises ConfigError for a setting
        that is named twice, BrokerError (INVALID_CONFIG), UnknownTopicError, AuthorizationError, RequestTimedOutError.
        """
        await alter_configs(
            self._session,
            kind,
            name,
            to_set=to_set or {},
            reset=[reset] if isinstance(reset, str) else reset,
            append=append or {},
            subtract=subtract or {},
            validate_only=validate_only,
            deadline=self._deadline(timeout),
        )

    async def log_dirs(self, *, timeout: float | None = None) -> dict[int, tuple[LogDir, ...]]:
        """The folders of each broker that is up, by its id, with the sizes in bytes of the replicas in them."""
        return await log_dirs(self._session, self._deadline(timeout))

    async def topic_sizes(
        self, topics: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, dict[int, int]]:
        """The bytes of each partition on each broker, of some topics or of all."""
        return await topic_sizes(self._session, topics, self._deadline(timeout))

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records of each partition before an offset, -1 for all; returns the first offsets after that.

        Raises the error of the first partition that can't be emptied, when those of other leaders may be: BrokerError
        (OFFSET_OUT_OF_RANGE, POLICY_VIOLATION), AuthorizationError, UnknownTopicError, RequestTimedOutError.
        """
        return await delete_records(self._session, before)

    def _deadline(self, timeout: float | None) -> float:
        return self._session.clock() + (self._session.timeout_s if timeout is None else timeout)


def _names(topics: Iterable[str]) -> list[str]:
    """The names without duplicates; a single str is one name."""
    return [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))


def _raise_single(failures: Mapping[str, AioprodError]) -> None:
    for failure in failures.values():
        raise failure


def _raise_all(failures: Mapping[str, AioprodError], count: int, done: str) -> None:
    if failures:
        messages = " ".join(failures[name].message for name in sorted(failures))
        raise TopicFailuresError(
            f"{len(failures)} of {count} topics were not {done}. {messages}", failures=dict(failures)
        )


def _raise_for_group(failures: Mapping[Any, AioprodError], count: int, things: str) -> None:
    if count == 1:
        _raise_single(failures)
    if failures:
        messages = " ".join(failures[key].message for key in sorted(failures))
        raise GroupFailuresError(
            f"{len(failures)} of {count} {things} were not deleted. {messages}", failures=dict(failures)
        )
