"""Validation of the arguments of a fake cluster's calls: an invalid one would let a test pass for the wrong reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from aioprod.cluster.names import topic_name_error
from aioprod.errors import ConfigError, ErrorCode, InvalidTopicError, UnknownTopicError, UsageError
from aioprod.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.types import TopicPartition
from aioprod.wire.schema import AnyRequest, Request, Response

if TYPE_CHECKING:
    from aioprod.testing.fake.faults import Fault
    from aioprod.testing.fake.state.log import Follower
    from aioprod.testing.fake.state.topics import FakeTopic

__all__ = [
    "check_count",
    "check_fault",
    "check_follower",
    "check_kind",
    "check_name",
    "check_node",
    "check_partition",
    "check_port",
    "check_racks",
    "check_served",
    "check_topic_partition",
    "known_topic",
]

_SELECTORS: Final = ("kind", "times", "node", "when", "partition", "apply")
"""The fields of a fault that select requests, or what becomes of its error: with these alone it would do nothing."""
_WITHOUT_ERRORS: Final = (SaslHandshakeRequest, SaslAuthenticateRequest)
"""The result of the authentication is the answer to these, and no fault's error."""


def check_fault(fault: Fault) -> None:
    """Raise ConfigError for a fault that can't hit a request, or that has no effect on it."""
    check_kind(fault.kind)
    call = f"fault({fault.kind.__name__}, ...)"
    _check_times(fault.times, call)
    types = get_type_hints(type(fault))
    for row in fields(fault):
        value = getattr(fault, row.name)
        # The cluster knows its nodes.
        if row.init and row.name not in ("kind", "times", "node") and not (value is None and row.default is None):
            _check_type(row.name, value, _without_none(types[row.name]), call)
    _check_effect(fault, call)


def _check_times(times: object, call: str) -> None:
    if times is not None and (type(times) is not int or times < 1):
        raise ConfigError(
            f"{call} has times={times!r}, with which it hits nothing: give a number of requests from 1 on.",
            hint="times=None hits all requests, until end() of the fault is called.",
        )


def _without_none(hint: object) -> object:
    """The type of a field, without the None that some have by default."""
    return get_args(hint)[0] if NoneType in get_args(hint) else hint


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < float("inf")


def _is_topic_partition(value: object) -> bool:
    return isinstance(value, TopicPartition) and type(value.partition) is int and isinstance(value.topic, str)


_VALUES: Final[Mapping[object, tuple[Callable[[Any], bool], str]]] = {
    bool: (lambda value: isinstance(value, bool), "it must be True or False"),
    bytes: (lambda value: isinstance(value, bytes), "give the bytes of a whole frame"),
    float: (_is_number, "give a time of at least 0"),
    int: (lambda value: type(value) is int and value >= 0, "give a number of {unit} from 0 on"),
    ErrorCode: (lambda value: type(value) is ErrorCode, "give an ErrorCode"),
    TopicPartition: (_is_topic_partition, "give a TopicPartition(topic, index)"),
    Callable[[Any], object]: (callable, "give a function that returns True or False for a request"),
    Callable[[Any], Response]: (callable, "give a function of the answer that returns another one"),
}
"""By the type of a field: what is valid, and the words for what is not."""


def _check_type(name: str, value: object, wanted: object, call: str) -> None:
    if get_origin(wanted) is Literal:
        is_valid, words = value in get_args(wanted), f"it must be one of {', '.join(get_args(wanted))}"
    else:
        check, words = _VALUES[wanted]
        is_valid, words = check(value), words.format(unit=name.rpartition("_")[2])
    if not is_valid:
        raise ConfigError(
            f"{call} has {name}={value!r}: {words}.", hint=_error_hint(value) if wanted is ErrorCode else None
        )


def _check_effect(fault: Fault, call: str) -> None:
    has_error = fault.error != ErrorCode.NONE
    if has_error and fault.kind in _WITHOUT_ERRORS:
        raise ConfigError(
            f"{call} has an error, which has no effect: the credentials decide whether a log-in succeeds.",
            hint="Change the answer with edit=, or the users of the cluster's security.",
        )
    for name in ("partition", "apply"):
        if getattr(fault, name) and not has_error:
            raise ConfigError(f"{call} has {name}={getattr(fault, name)!r} without an error, so it has no effect.")
    effects = [row for row in fields(fault) if row.init and row.name not in _SELECTORS]
    if all(getattr(fault, row.name) == row.default for row in effects):
        raise ConfigError(
            f"{call} does nothing.", hint=f"Set at least one of {', '.join(row.name for row in effects)}."
        )


def _error_hint(given: object) -> str | None:
    known = ErrorCode.of(given) if type(given) is int else given
    return f"Did you mean ErrorCode.{known.name}?" if isinstance(known, ErrorCode) else None


def check_kind(kind: object) -> None:
    """Raise ConfigError for anything but a class of requests."""
    if isinstance(kind, type) and issubclass(kind, Request):
        return
    name = kind if isinstance(kind, str) else type(kind).__name__
    raise ConfigError(
        f"{kind!r:.100} is not a class of requests.", hint=f"Give the class: from aioprod.messages import {name}."
    )


def check_served(kind: type[AnyRequest], served: Collection[type[AnyRequest]]) -> None:
    """Raise ConfigError for requests that fake brokers don't support."""
    check_kind(kind)
    if kind not in served:
        names = ", ".join(sorted(one.__name__ for one in served))
        raise ConfigError(f"A fake broker does not serve {kind.__name__}.", hint=f"It serves {names}.")


def check_node(node_id: object, nodes: Iterable[int]) -> None:
    """Raise UsageError for an unknown node id."""
    known = sorted(nodes)
    if type(node_id) is not int or node_id not in known:
        raise UsageError(f"There is no broker {node_id!r}: this cluster's are {known}.")


def check_count(name: str, count: object) -> None:
    """Raise ConfigError for anything but an integer of at least 1."""
    if type(count) is not int or count < 1:
        raise ConfigError(f"{name} is {count!r}: give a number from 1 on.")


def check_port(port: object, brokers: int) -> None:
    """Raise ConfigError for a port after which there are not enough for the brokers; 0 is for free ones."""
    if type(port) is not int or not 0 <= port <= 65_536 - brokers:
        raise ConfigError(f"port is {port!r}: give the first of {brokers} ports from 1 to 65535, or 0 for free ones.")


def check_racks(racks: Sequence[str | None], brokers: int) -> None:
    """Raise ConfigError unless there are no racks, or one of each broker."""
    are_racks = isinstance(racks, list | tuple) and all(rack is None or isinstance(rack, str) for rack in racks)
    if not are_racks or (racks and len(racks) != brokers):
        raise ConfigError(f"racks is {racks!r}: give the rack of each of the {brokers} brokers, None for none.")


def check_follower(follower: Follower, next_offset: int) -> None:
    """Raise ConfigError for offsets that a follower of a log up to `next_offset` can't have."""
    end = follower.log_end
    for name, offset, most in (("log_end", end, next_offset), ("high_watermark", follower.high_watermark, end)):
        if type(offset) is not int or not 0 <= offset <= most:
            raise ConfigError(f"{name} is {offset!r}: give an offset from 0 to {most}.")


def check_name(topic: object) -> None:
    """Raise InvalidTopicError for an invalid topic name."""
    problem = topic_name_error(topic) if isinstance(topic, str) else f"A topic's name must be a str, not {topic!r}."
    if problem is not None:
        raise InvalidTopicError(problem)


def known_topic(name: Any, topics: Mapping[str, FakeTopic]) -> FakeTopic:
    """The topic of this name; raises UnknownTopicError if there is none."""
    if isinstance(name, str) and name in topics:
        return topics[name]
    known = f"it has {', '.join(sorted(topics))}" if topics else "it has none"
    raise UnknownTopicError(f"This cluster has no topic {name!r}: {known}.")


def check_partition(topic: FakeTopic, partition: object) -> None:
    """Raise UsageError for a partition that a topic does not have."""
    count = len(topic.partitions)
    if type(partition) is not int or not 0 <= partition < count:
        raise UsageError(f"There is no partition {partition!r} of topic {topic.name!r}: it has 0 to {count - 1}.")


def check_topic_partition(tp: object, prefix: str) -> None:
    """Raise ConfigError for anything but a TopicPartition; `prefix` begins its text."""
    if not _is_topic_partition(tp):
        raise ConfigError(f"{prefix}: give a TopicPartition(topic, index).")
