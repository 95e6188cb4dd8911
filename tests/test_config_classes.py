"""Classes by name: short names, Java's names, dotted names, and what goes wrong with them."""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from aioprod import serializers
from aioprod.config import KNOWN_CLASSES, Kind, ProducerConfig, close_instance, describe, instantiate, load_class
from aioprod.errors import ConfigError

CONFIG = ProducerConfig(bootstrap_servers=("localhost:9092",))
JAVA = "org.apache.kafka.common.serialization."


class Reporter:
    def __init__(self) -> None:
        self.configured: list[object] = []

    def configure(self, config: ProducerConfig) -> None:
        self.configured.append(config)

    def report(self, snapshot: dict[str, float]) -> None:
        del snapshot


class Outer:
    class Inner(Reporter):
        pass


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("str", serializers.StringSerializer),
        ("int", serializers.IntegerSerializer),
        ("long", serializers.LongSerializer),
        (" json ", serializers.JsonSerializer),
        ("DoubleSerializer", serializers.DoubleSerializer),
        (JAVA + "StringSerializer", serializers.StringSerializer),
        (JAVA + "ByteArraySerializer", serializers.BytesSerializer),
        (JAVA + "ByteBufferSerializer", serializers.BytesSerializer),
        (JAVA + "UUIDSerializer", serializers.UUIDSerializer),
        (JAVA + "VoidSerializer", serializers.VoidSerializer),
        ("aioprod.serializers:LongSerializer", serializers.LongSerializer),
        ("aioprod.serializers.LongSerializer", serializers.LongSerializer),
        ("json.dumps", importlib.import_module("json").dumps),
    ],
)
def test_load_serializer(name: str, expected: object) -> None:
    assert load_class(name, "serializer") is expected


@pytest.mark.parametrize("kind", ["serializer", "deserializer", "partitioner"])
def test_every_known_name_of_ours_loads(kind: Kind) -> None:
    for name in KNOWN_CLASSES[kind]:
        assert isinstance(load_class(name, kind), type), name


def test_partitioners_by_name_lie_in_routing() -> None:
    known = KNOWN_CLASSES["partitioner"]
    assert known["round_robin"] == "aioprod.routing:RoundRobinPartitioner"
    assert known["consistent"] == known["crc32"] == "aioprod.routing:Crc32Partitioner"
    java = "org.apache.kafka.clients.producer."
    assert known[java + "UniformStickyPartitioner"] == known["sticky"]
    assert known[java + "internals.DefaultPartitioner"] == known["default"]
    ours = {"Default", "UniformSticky", "RoundRobin", "Classic"}
    ours |= {"Murmur2", "Murmur2Random", "Crc32", "Crc32Random", "Fnv1a", "Murmur3"}
    assert set(known.values()) == {f"aioprod.routing:{name}Partitioner" for name in ours}


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        (
            "rund_robin",
            "partitioner",
            "'rund_robin' names no partitioner. Hint: Did you mean 'round_robin'?",
        ),
        ("x", "interceptor", "'x' names no interceptor"),
        ("", "reporter", "'' names no reporter. Hint: Give an object, a class, \"package.module:Class\"."),
        ("a..b", "serializer", "'a..b' names no serializer"),
        ("a:b:c", "serializer", "'a:b:c' names no serializer"),
        (JAVA + "ListSerializer", "serializer", "is a Java class that has no counterpart in aioprod"),
        ("org.apache.kafka.common.metrics.JmxReporter", "reporter", "is a Java class that has no counterpart"),
        ("no_such_module.Class", "partitioner", "can't be loaded: there is no module 'no_such_module'."),
        ("json:NoSuch", "partitioner", "can't be loaded: 'json' has no 'NoSuch'."),
        ("json:JSONEncoder.none", "partitioner", "can't be loaded: 'json' has no 'JSONEncoder.none'."),
    ],
)
def test_load_class_says_what_is_wrong(name: str, kind: Kind, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_class(name, kind)
    assert sentence in str(caught.value)


def test_a_module_that_fails_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_module_of_a_user.py").write_text("1 / 0\n")
    (tmp_path / "module_of_a_user_with_a_gap.py").write_text("import no_such_module\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ConfigError, match="importing 'failing_module_of_a_user' failed") as caught:
        load_class("failing_module_of_a_user.Class", "partitioner")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(ConfigError, match="there is no module 'no_such_module'"):
        load_class("module_of_a_user_with_a_gap.Class", "partitioner")


def test_instantiate_takes_names_classes_and_objects() -> None:
    for given in (Reporter, f"{__name__}:Reporter", f"{__name__}:Outer.Inner", Reporter()):
        made = instantiate(given, "reporter", CONFIG)
        assert isinstance(made, Reporter)
        assert made.configured == [CONFIG]


def test_instantiate_tells_a_serializer_whether_it_is_for_keys() -> None:
    class Recording(serializers.BytesSerializer):
        def configure(self, config: ProducerConfig, *, is_key: bool) -> None:
            self.got = (config, is_key)

    assert instantiate(Recording, "serializer", CONFIG, is_key=True).got == (CONFIG, True)


def test_a_function_is_a_serializer_as_it_is() -> None:
    assert instantiate(str.encode, "serializer", CONFIG, is_key=False) is str.encode


class Unmakeable:
    def __init__(self, needed: int) -> None:
        self.needed = needed


class Unconfigurable(Reporter):
    def configure(self, config: ProducerConfig) -> None:
        raise KeyError("lost")


class Choosy(Reporter):
    def configure(self, config: ProducerConfig) -> None:
        raise ConfigError("I want more.")


@pytest.mark.parametrize(
    ("given", "kind", "sentence"),
    [
        (Unmakeable, "reporter", "The reporter Unmakeable could not be created: TypeError"),
        (Unconfigurable, "reporter", "The reporter Unconfigurable could not be configured: KeyError: 'lost'."),
        (Choosy, "reporter", "I want more."),
        (5, "partitioner", "5 is not a partitioner: it has none of the methods partition."),
        (str.encode, "interceptor", "is not an interceptor: it has none of the methods on_send, on_acknowledgement."),
        (str, "serializer", "The class str is not a serializer: it has none of the methods serialize, __call__."),
        (object(), "serializer", "is not a serializer: it has none of the methods serialize, __call__."),
    ],
)
def test_instantiate_says_what_is_wrong(given: Any, kind: Kind, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        instantiate(given, kind, CONFIG)
    assert sentence in str(caught.value)


def test_close_instance(caplog: pytest.LogCaptureFixture) -> None:
    class Closable:
        def __init__(self, fails: bool) -> None:
            self.fails = fails
            self.closed = 0

        def close(self) -> None:
            self.closed += 1
            if self.fails:
                raise ValueError("stuck")

    fine, failing = Closable(False), Closable(True)
    for instance in (fine, failing, object()):
        close_instance(instance)
    assert (fine.closed, failing.closed) == (1, 1)
    assert [(record.levelno, record.name) for record in caplog.records] == [(logging.WARNING, "aioprod")]
    assert "Closable failed" in caplog.text


def test_describe() -> None:
    assert describe(Reporter) == "Reporter"
    assert describe(Reporter()) == "Reporter"
    assert describe(str.encode) == "str.encode"
