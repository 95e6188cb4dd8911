"""Validation of the arguments of a fake cluster's calls: an invalid one would let a test pass for the wrong reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aioprod.cluster.names import topic_name_error
from aioprod.errors import ConfigError, ErrorCode, InvalidTopicError, UnknownTopicError, UsageError
from aioprod.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.types import TopicPartition
from aioprod.wire.schema import AnyRequest, Request

if TYPE_CHECKING:
    from aioprod.testing.fake.faults import Fault
    from aioprod.testing.fake.state.topics import FakeTopic

__all__ = [
    "check_count",
    "check_fault",
    "check_kind",
    "check_name",
    "check_node",
    "check_partition",
    "check_port",
    "check_served",
    "check_topic_partition",
    "known_topic",
]

_DROPS: Final = ("before", "after", "lurking")
_EFFECTS: Final = (
    "error", "delay_s", "hold", "drop", "half_open", "silent", "reply", "cut_after_bytes", "edit", "throttle_ms"
)  # fmt: skip
_WITHOUT_ERRORS: Final = (SaslHandshakeRequest, SaslAuthenticateRequest)
"""The result of the authentication is the answer to these, and no fault's error."""


def check_fault(fault: Fault) -> None:
    """Raise ConfigError for a fault that can't hit a request, or that has no effect on it."""
    check_kind(fault.kind)
    call = f"fault({fault.kind.__name__}, ...)"
    _check_selection(fault, call)
    _check_numbers(fault, call)
    if type(fault.error) is not ErrorCode:
        raise ConfigError(f"{call} has error={fault.error!r}: give an ErrorCode.", hint=_error_hint(fault.error))
    if fault.drop is not None and fault.drop not in _DROPS:
        raise ConfigError(f"{call} has drop={fault.drop!r}: it must be one of {', '.join(_DROPS)}.")
    if fault.reply is not None and not isinstance(fault.reply, bytes):
        raise ConfigError(f"{call} has reply={fault.reply!r}: give the bytes of a whole frame.")
    if fault.edit is not None and not callable(fault.edit):
        raise ConfigError(f"{call} has edit={fault.edit!r}: give a function of the answer that returns another one.")
    for name in ("apply", "hold", "half_open", "silent"):
        if not isinstance(getattr(fault, name), bool):
            raise ConfigError(f"{call} has {name}={getattr(fault, name)!r}: it must be True or False.")
    _check_effect(fault, call)


def _check_selection(fault: Fault, call: str) -> None:
    if fault.times is not None and (type(fault.times) is not int or fault.times < 1):
        raise ConfigError(
            f"{call} has times={fault.times!r}, with which it hits nothing: give a number of requests from 1 on.",
            hint="times=None hits all requests, until end() of the fault is called.",
        )
    if fault.when is not None and not callable(fault.when):
        raise ConfigError(f"{call} has when={fault.when!r}: give a function that returns True or False for a request.")
    if fault.partition is not None:
        check_topic_partition(fault.partition, f"{call} has partition={fault.partition!r}")


def _check_numbers(fault: Fault, call: str) -> None:
    for name, value in (("delay_s", fault.delay_s), ("throttle_ms", fault.throttle_ms)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ConfigError(f"{call} has {name}={value!r}: give a time of at least 0.")
    size = fault.cut_after_bytes
    if size is not None and (type(size) is not int or size < 0):
        raise ConfigError(f"{call} has cut_after_bytes={size!r}: give a number of bytes from 0 on.")


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
    # reply=b"" and cut_after_bytes=0 have an effect too.
    is_cut = fault.reply is not None or fault.cut_after_bytes is not None
    if not is_cut and not any(getattr(fault, name) for name in _EFFECTS):
        raise ConfigError(f"{call} does nothing.", hint=f"Set at least one of {', '.join(_EFFECTS)}.")


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
    if not isinstance(tp, TopicPartition) or type(tp.partition) is not int or not isinstance(tp.topic, str):
        raise ConfigError(f"{prefix}: give a TopicPartition(topic, index).")
