"""Assignments in files: JSON with each member's partitions, and, where that is known, what each partition weighs.

{"assignment": {"a": {"orders": [0, 1]}, "b": {"orders": [2]}}, "sizes": {"orders": [700, 200, 100]}}
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aioprod.types import TopicPartition

__all__ = ["Stored", "read_assignment", "read_sizes", "written"]


class Stored(NamedTuple):
    """What such a file says; `sizes` is None where it says none."""

    assignment: dict[str, list[TopicPartition]]
    sizes: dict[TopicPartition, float] | None


def written(
    strategy: str, assignment: Mapping[str, Sequence[TopicPartition]], sizes: Mapping[TopicPartition, float] | None
) -> str:
    """The text of such a file."""
    members: dict[str, dict[str, list[int]]] = {}
    for member, partitions in assignment.items():
        of_topics = members.setdefault(member, {})
        for topic, partition in sorted(partitions):
            of_topics.setdefault(topic, []).append(partition)
    said: dict[str, object] = {"strategy": strategy, "assignment": members}
    if sizes is not None:
        weights: dict[str, list[float]] = {}
        for tp in sorted(sizes):
            weights.setdefault(tp.topic, []).append(sizes[tp])
        said["sizes"] = weights
    return json.dumps(said, indent=None if len(members) > 100 else 2) + "\n"


def read_assignment(path: str) -> Stored:
    """Read such a file; ArgumentTypeError where it is none."""
    said = _read(path)
    members = said.get("assignment")
    if not isinstance(members, dict):
        raise ArgumentTypeError(f"{path!r} has no object 'assignment': give a file that assign --json has written")
    assignment = {
        member: [
            TopicPartition(topic, partition)
            for topic, partitions in _object(of_topics, f"{path!r}: of member {member!r}").items()
            for partition in _partitions(partitions, f"{path!r}: of {topic!r} of member {member!r}")
        ]
        for member, of_topics in members.items()
    }
    return Stored(assignment, _sizes(said["sizes"], path) if "sizes" in said else None)


def read_sizes(path: str) -> dict[TopicPartition, float]:
    """Read `{"orders": [700, 200, 100]}`: per topic the size of each partition; ArgumentTypeError where it is not."""
    said = _read(path)
    return _sizes(said.get("sizes", said), path)


def _read(path: str) -> dict[str, Any]:
    try:
        said = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ArgumentTypeError(f"{path!r} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"{path!r} is not JSON: {error}") from error
    return _object(said, f"{path!r}")


def _object(said: Any, what: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise ArgumentTypeError(f"{what} a JSON object is needed, as assign --json writes it, not {_cut(said)}")
    return said


def _partitions(said: Any, what: str) -> list[int]:
    if not isinstance(said, list) or not all(type(index) is int and index >= 0 for index in said):
        raise ArgumentTypeError(f"{what} a list of partitions is needed, such as [0, 1], not {_cut(said)}")
    return said


def _sizes(said: Any, path: str) -> dict[TopicPartition, float]:
    sizes = {}
    for topic, each in _object(said, f"{path!r}: of sizes").items():
        if not isinstance(each, list):
            raise ArgumentTypeError(f"{path!r}: of {topic!r} a list with a size for each partition is needed")
        sizes.update({TopicPartition(topic, index): size for index, size in enumerate(each)})
    return sizes


def _cut(said: Any) -> str:
    text = json.dumps(said)
    return text if len(text) <= 40 else f"{text[:40]}..."
