"""Sends a record whose handler has failed for good to the dead letters."""

from __future__ import annotations

import asyncio
from typing import Final

from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    ConfigError,
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    ProducerFencedError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.group.member_log import MemberLog, place_fields
from aioprod.group.membership import Membership, ReadingMember
from aioprod.group.work.commits import MarksTooLongError, NoRoomYetError, WorkCommits
from aioprod.group.work.dead_letters import DeadLetters
from aioprod.group.work.queues import Job
from aioprod.net.protocol.backoff import Backoff

__all__ = ["LetterSender"]

_BACKOFF: Final = Backoff(0.5, 30.0)
"""The delays between two tries to send a letter."""
_FATAL: Final = (
    AuthorizationError,
    ConfigError,
    InvalidRecordError,
    ProducerFencedError,
    UnsupportedVersionError,
    UsageError,
)
"""Errors that another try does not mend; InvalidRecordError: the letter itself can't be sent."""
_REJECTED: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Codes of brokers that do not accept the letter, however often it is sent."""


class LetterSender:
    """Sends letters until they are acknowledged; with a transactional producer together with their offsets."""

    def __init__(
        self,
        group_id: str,
        letters: DeadLetters,
        membership: Membership,
        commits: WorkCommits,
        log: MemberLog,
    ) -> None:
        self._group_id = group_id
        self._letters = letters
        self._membership = membership
        self._commits = commits
        self._log = log

    async def send(self, job: Job, error: BaseException) -> None:
        """Send the letter of a record; raises what no other try mends, or what leaves a transaction unknown.

        Raises NoRoomYetError where it can be sent when records before it are finished.
        """
        failures = 0
        while True:
            try:
                await self._send(job, error)
            except MarksTooLongError:
                continue
            except NoRoomYetError:
                raise
            except AioprodError as failure:
                is_unknown = self._letters.is_transactional and failure.may_be_stored
                if is_unknown or self._letters.has_failed or _is_fatal(failure):
                    raise failure from error
                delay_s = _BACKOFF.nominal_s(failures)
                failures += 1
                text = "could not send the dead letter of %s, and sends it again in %.1f s: %s"
                self._log.warning(text, job.place, delay_s, failure, extra=place_fields([job.tp]))
                await asyncio.sleep(delay_s)
            else:
                return

    async def _send(self, job: Job, error: BaseException) -> None:
        letters = self._letters
        if not letters.is_transactional:
            await letters.send(job.record, self._group_id, job.failures, error)
            return
        async with self._commits.transaction_of(job) as transaction, letters.transaction():
            await letters.send(job.record, self._group_id, job.failures, error)
            metadata = self._membership.metadata
            if metadata.generation_id < 0:
                # Brokers would take it for a commit with the group's name alone, and not fence this member.
                raise AioprodError(f"This consumer is not a member of group {self._group_id!r} now.")
            reading = ReadingMember.of(metadata, transaction.topic_ids)
            await letters.producer.send_offsets_to_transaction(transaction.offsets, reading)
            transaction.complete()


def _is_fatal(failure: AioprodError) -> bool:
    return isinstance(failure, _FATAL) or (isinstance(failure, DeliveryError) and failure.code in _REJECTED)
