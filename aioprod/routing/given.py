"""The partitioner that a user gives: an object, a class or a name, or a plain function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from aioprod.cluster.model import Cluster
from aioprod.config import ProducerConfig, describe, instantiate, load_class
from aioprod.errors import ConfigError

__all__ = ["FunctionPartitioner", "partitioner_of"]


class FunctionPartitioner:
    """Asks a function `f(topic, key, value, cluster)`, by whose name it goes in messages."""

    def __init__(self, function: Callable[[str, bytes | None, bytes | None, Cluster], int]) -> None:
        self.partition = function
        self.__qualname__ = describe(function)


def partitioner_of(given: Any, config: ProducerConfig) -> Any:
    """The partitioner that `given` stands for, configured; raises ConfigError.

    A function is taken if it can be called as `f(topic, key, value, cluster)`; `config` is not shown to it.
    """
    target = load_class(given, "partitioner") if isinstance(given, str) else given
    if isinstance(target, type) or hasattr(target, "partition") or not callable(target):
        return instantiate(target, "partitioner", config)
    _check(target)
    return FunctionPartitioner(target)


def _check(function: Callable[..., Any]) -> None:
    name = describe(function)
    if inspect.iscoroutinefunction(function):
        raise ConfigError(
            f"The partitioner {name} is a coroutine function: it has to answer at once.",
            hint="Give a plain function f(topic, key, value, cluster) that returns the index of a partition.",
        )
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # Some functions that are not written in Python don't tell theirs.
    if _takes(signature, 4):
        return
    hint = "It gets the topic, the serialized key and value, and the cluster, and returns the index of a partition."
    if _takes(signature, 3):
        # aiokafka's and kafka-python's: f(key, all_partitions, available).
        hint = (
            "One for (key, all_partitions, available) is given so: lambda topic, key, value, cluster: "
            f"{name}(key, [p.partition for p in cluster.partitions_for_topic(topic)], "
            "[p.partition for p in cluster.available_partitions_for_topic(topic)])."
        )
    raise ConfigError(
        f"The partitioner {name}{signature} can't be called with (topic, key, value, cluster).", hint=hint
    )


def _takes(signature: inspect.Signature, arguments: int) -> bool:
    try:
        signature.bind(*range(arguments))
    except TypeError:
        return False
    return True
