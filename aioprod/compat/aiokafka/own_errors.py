"""aiokafka's exceptions by their names, for programs without aiokafka.

The three tables say all that handlers rely on: names, codes, which class is under which, and what is `retriable`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

__all__ = ["BrokerResponseError", "IllegalOperation", "KafkaError", "for_code"]


class KafkaError(RuntimeError):
    """The base of all errors but IllegalOperation and ConsumerStoppedError; its text begins with its class."""

    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{type(self).__name__}: {super().__str__()}" if self.args else type(self).__name__


class IllegalOperation(Exception):  # noqa: N818 - aiokafka's name
    """The call has no meaning with the present settings or in the present state."""


class ConsumerStoppedError(Exception):
    """The consumer was stopped while it was waited for."""


class BrokerResponseError(KafkaError):
    """A broker answered with the error code `errno`, whose name is `message`."""

    errno: ClassVar[int]
    message: ClassVar[str]

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_OF_THE_CLIENT: Final = _names(
    """
    IllegalStateError IllegalArgumentError NoBrokersAvailable NodeNotReadyError KafkaProtocolError Cancelled
    TooManyInFlightRequests StaleMetadata MetadataEmptyBrokerList UnrecognizedBrokerVersion
    IncompatibleBrokerVersion CommitFailedError AuthenticationMethodNotSupported AuthenticationFailedError
    KafkaUnavailableError KafkaTimeoutError KafkaConnectionError UnsupportedCodecError KafkaConfigurationError
    QuotaViolationError NoOffsetForPartitionError RecordTooLargeError ProducerClosed ProducerFenced
    """
)

_OF_BROKERS: Final = _names(
    """
    UnknownError NoError OffsetOutOfRangeError CorruptRecordException UnknownTopicOrPartitionError
    InvalidFetchRequestError LeaderNotAvailableError NotLeaderForPartitionError RequestTimedOutError
    BrokerNotAvailableError ReplicaNotAvailableError MessageSizeTooLargeError StaleControllerEpochError
    OffsetMetadataTooLargeError StaleLeaderEpochCodeError GroupLoadInProgressError GroupCoordinatorNotAvailableError
    NotCoordinatorForGroupError InvalidTopicError RecordListTooLargeError NotEnoughReplicasError
    NotEnoughReplicasAfterAppendError InvalidRequiredAcksError IllegalGenerationError InconsistentGroupProtocolError
    InvalidGroupIdError UnknownMemberIdError InvalidSessionTimeoutError RebalanceInProgressError
    InvalidCommitOffsetSizeError TopicAuthorizationFailedError GroupAuthorizationFailedError
    ClusterAuthorizationFailedError InvalidTimestampError UnsupportedSaslMechanismError IllegalSaslStateError
    UnsupportedVersionError TopicAlreadyExistsError InvalidPartitionsError InvalidReplicationFactorError
    InvalidReplicationAssignmentError InvalidConfigurationError NotControllerError InvalidRequestError
    UnsupportedForMessageFormatError PolicyViolationError OutOfOrderSequenceNumber DuplicateSequenceNumber
    InvalidProducerEpoch InvalidTxnState InvalidProducerIdMapping InvalidTransactionTimeout ConcurrentTransactions
    TransactionCoordinatorFenced TransactionalIdAuthorizationFailed SecurityDisabled OperationNotAttempted
    KafkaStorageError LogDirNotFound SaslAuthenticationFailed UnknownProducerId ReassignmentInProgress
    DelegationTokenAuthDisabled DelegationTokenNotFound DelegationTokenOwnerMismatch
    DelegationTokenRequestNotAllowed DelegationTokenAuthorizationFailed DelegationTokenExpired InvalidPrincipalType
    NonEmptyGroup GroupIdNotFound FetchSessionIdNotFound InvalidFetchSessionEpoch ListenerNotFound
    """
)
"""In the order of their codes, from -1 on."""

_LATER: Final = {79: "MemberIdRequired"}

_RETRIABLE: Final = frozenset(
    _names(
        """
        NoBrokersAvailable NodeNotReadyError KafkaProtocolError Cancelled TooManyInFlightRequests StaleMetadata
        MetadataEmptyBrokerList KafkaConnectionError UnknownTopicOrPartitionError LeaderNotAvailableError
        NotLeaderForPartitionError RequestTimedOutError GroupLoadInProgressError GroupCoordinatorNotAvailableError
        NotCoordinatorForGroupError NotEnoughReplicasError NotEnoughReplicasAfterAppendError NotControllerError
        KafkaStorageError
        """
    )
)

_STALE: Final = frozenset(
    _names(
        """
        NoBrokersAvailable StaleMetadata KafkaConnectionError UnknownTopicOrPartitionError LeaderNotAvailableError
        NotLeaderForPartitionError KafkaStorageError
        """
    )
)
"""Errors after which metadata is to be fetched again."""

_ALIASES: Final = {
    "InvalidMessageError": "CorruptRecordException",
    "CoordinatorLoadInProgressError": "GroupLoadInProgressError",
    "CoordinatorNotAvailableError": "GroupCoordinatorNotAvailableError",
    "NotCoordinatorError": "NotCoordinatorForGroupError",
}


def _made(name: str, base: type[KafkaError], **fields: Any) -> type[KafkaError]:
    traits = {"retriable": name in _RETRIABLE, "invalid_metadata": name in _STALE, "__module__": __name__}
    return type(name, (base,), {**traits, **fields})


def _all() -> dict[str, type[KafkaError]]:
    made = {name: _made(name, KafkaError) for name in _OF_THE_CLIENT}
    made["CorrelationIdError"] = _made("CorrelationIdError", made["KafkaProtocolError"], retriable=True)
    for errno, name in [*enumerate(_OF_BROKERS, -1), *_LATER.items()]:
        made[name] = _made(name, BrokerResponseError, errno=errno, message=name)
    return made | {alias: made[name] for alias, name in _ALIASES.items()}


_MADE: Final = _all()
_BY_CODE: Final = {kind.errno: kind for kind in _MADE.values() if issubclass(kind, BrokerResponseError)}


def for_code(error_code: int) -> type[BrokerResponseError]:
    """The class of a broker's error code; UnknownError for one that aiokafka 0.14 does not know."""
    return _BY_CODE.get(error_code, _BY_CODE[-1])


def names() -> list[str]:
    """The names of all classes."""
    return ["KafkaError", "BrokerResponseError", "IllegalOperation", "ConsumerStoppedError", *_MADE]


def __getattr__(name: str) -> type[KafkaError]:
    if name in _MADE:
        return _MADE[name]
    raise AttributeError(f"aiokafka 0.14 has no exception {name!r}.")
