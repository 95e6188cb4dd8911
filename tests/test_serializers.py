"""Java's byte formats, their twins, and the adapter around any other serializer."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod import serializers
from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError, SerializationError, UsageError
from aioprod.serializers import HeaderList, Serializer, as_deserializer, as_serializer, make_serializer

UUID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")

VECTORS = [
    ("Bytes", b"\x00\xff", b"\x00\xff"),
    ("String", "héllo €", "héllo €".encode()),
    ("String", "", b""),
    ("Short", -2, b"\xff\xfe"),
    ("Integer", 1, b"\x00\x00\x00\x01"),
    ("Integer", -(2**31), b"\x80\x00\x00\x00"),
    ("Long", 2**40, b"\x00\x00\x01\x00\x00\x00\x00\x00"),
    ("Float", 1.5, b"\x3f\xc0\x00\x00"),
    ("Double", -2.0, b"\xc0\x00\x00\x00\x00\x00\x00\x00"),
    ("Double", float("inf"), b"\x7f\xf0\x00\x00\x00\x00\x00\x00"),
    ("Boolean", True, b"\x01"),
    ("Boolean", False, b"\x00"),
    ("UUID", UUID, b"123e4567-e89b-12d3-a456-426614174000"),
    ("Json", {"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'.encode()),
]


def serialize(name: str, value: object) -> Any:
    return getattr(serializers, f"{name}Serializer")().serialize("t", [], value)


def deserialize(name: str, data: bytes) -> Any:
    return getattr(serializers, f"{name}Deserializer")().deserialize("t", [], data)


@pytest.mark.parametrize(("name", "value", "data"), VECTORS)
def test_formats_in_both_directions(name: str, value: object, data: bytes) -> None:
    assert serialize(name, value) == data
    assert type(serialize(name, value)) is bytes
    assert deserialize(name, data) == value


@settings(max_examples=50)
@given(st.sampled_from([("Short", 16), ("Integer", 32), ("Long", 64)]), st.integers(-(2**70), 2**70))
def test_whole_numbers_come_back_or_are_refused(format_and_bits: tuple[str, int], value: int) -> None:
    name, bits = format_and_bits
    if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        assert deserialize(name, serialize(name, value)) == value
    else:
        with pytest.raises(SerializationError, match=rf"does not fit in {bits // 8} bytes"):
            serialize(name, value)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("Bytes", "text", "expected bytes, not str."),
        ("String", b"bytes", "expected str, not bytes."),
        ("String", "\ud800", "the string can't be encoded in utf-8: surrogates not allowed."),
        ("Integer", True, "expected int, not bool."),
        ("Integer", 1.0, "expected int, not float."),
        ("Long", "1", "expected int, not str."),
        ("Float", "1.5", "expected float, not str."),
        ("Double", True, "expected float, not bool."),
        ("Float", 1e300, "the number does not fit in 4 bytes."),
        ("Double", 10**400, "the number does not fit in 8 bytes."),
        ("Boolean", 1, "expected bool, not int."),
        ("UUID", str(UUID), "expected uuid.UUID, not str."),
        ("Void", 1, "expected None, not int."),
        ("Json", {1, 2}, "it can't be written as JSON: Object of type set is not JSON serializable."),
        ("Json", float("nan"), "it can't be written as JSON"),
        ("Json", "\ud800", "it can't be written as JSON"),
    ],
)
def test_values_that_have_no_bytes(name: str, value: object, sentence: str) -> None:
    with pytest.raises(SerializationError) as caught:
        serialize(name, value)
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("String", b"\xff", "the bytes are not a string in utf-8: invalid start byte."),
        ("Short", b"1", "expected 2 bytes, not 1."),
        ("Integer", b"", "expected 4 bytes, not 0."),
        ("Long", bytes(9), "expected 8 bytes, not 9."),
        ("Float", bytes(8), "expected 4 bytes, not 8."),
        ("Double", bytes(4), "expected 8 bytes, not 4."),
        ("Boolean", b"\x02", "expected one byte, 0 or 1."),
        ("Boolean", b"", "expected one byte, 0 or 1."),
        ("UUID", b"no uuid", "the bytes are not the text of a UUID."),
        ("UUID", b"\xff", "the bytes are not the text of a UUID."),
        ("Void", b"", "expected a null, not bytes."),
        ("Json", b"{", "the bytes are not JSON"),
    ],
)
def test_bytes_that_stand_for_nothing(name: str, data: bytes, sentence: str) -> None:
    with pytest.raises(SerializationError) as caught:
        deserialize(name, data)
    assert sentence in caught.value.message


def test_bytes_are_taken_from_any_buffer() -> None:
    mutable = bytearray(b"abc")
    taken = serialize("Bytes", mutable)
    mutable[0] = 0
    assert taken == serialize("Bytes", memoryview(b"abc")) == b"abc"


def test_encodings() -> None:
    assert serializers.StringSerializer("utf-16-be").serialize("t", [], "a") == b"\x00a"
    assert serializers.StringDeserializer("latin-1").deserialize("t", [], b"\xe9") == "é"
    assert serializers.UUIDDeserializer("utf-16-be").deserialize("t", [], str(UUID).encode("utf-16-be")) == UUID


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({}, b"\xc3\xa9", b"\xc3\xa9"),
        ({"serializer.encoding": "ISO-8859-1"}, b"\xe9", b"\xe9"),
        ({"key.serializer.encoding": "ISO-8859-1"}, b"\xe9", b"\xc3\xa9"),
        ({"value.serializer.encoding": "UTF-16BE", "serializer.encoding": "latin-1"}, b"\xe9", b"\x00\xe9"),
    ],
)
def test_encodings_from_the_configuration(options: dict[str, str], key: bytes, value: bytes) -> None:
    classes = {"key.serializer": "str", "value.serializer": "str"}
    config = ProducerConfig.from_dict({"bootstrap.servers": "localhost:9092"} | classes | options)
    for is_key, expected in ((True, key), (False, value)):
        serializer = make_serializer(config, is_key=is_key)
        assert serializer is not None
        assert serializer.serialize("t", [], "é") == expected


def test_no_serializer_is_made_unless_named() -> None:
    config = ProducerConfig.from_options(bootstrap_servers="localhost:9092", value_serializer="json")
    assert make_serializer(config, is_key=True) is None
    assert isinstance(make_serializer(config, is_key=False), Serializer)


def with_header(topic: str, headers: HeaderList, value: str) -> bytes:
    headers.append(("topic", topic.encode()))
    return value.encode()


class ThreeArguments:
    def serialize(self, topic: str, headers: HeaderList, value: str) -> bytes:
        return with_header(topic, headers, value)

    def deserialize(self, topic: str, headers: HeaderList, data: bytes) -> str:
        headers.append(("topic", topic.encode()))
        return data.decode()


class Callable1:
    def __call__(self, value: str) -> bytes:
        return value.encode()


@pytest.mark.parametrize("target", [with_header, ThreeArguments(), functools.partial(with_header)])
def test_topic_and_headers_go_to_who_takes_three_arguments(target: object) -> None:
    headers: HeaderList = [("a", None)]
    assert as_serializer(target, is_key=False).serialize("orders", headers, "v") == b"v"
    assert headers == [("a", None), ("topic", b"orders")]


@pytest.mark.parametrize(
    "target", [str.encode, lambda value: value.encode(), lambda *several: several[0].encode(), Callable1()]
)
def test_the_value_alone_goes_to_who_takes_one_argument(target: object) -> None:
    serializer = as_serializer(target, is_key=False)
    assert serializer.serialize("t", [], "v") == b"v"
    assert not serializer.is_async


def test_a_function_in_c_without_a_signature_gets_the_value() -> None:
    assert as_serializer(bytes, is_key=False).serialize("t", [], [1, 2]) == b"\x01\x02"


@pytest.mark.parametrize("result", [b"v", bytearray(b"v"), memoryview(b"v"), type("Bytes", (bytes,), {})(b"v")])
def test_what_goes_on_is_exactly_bytes(result: Any) -> None:
    serialized = as_serializer(lambda value: result, is_key=False).serialize("t", [], "v")
    assert serialized == b"v"
    assert type(serialized) is bytes


def test_none_is_null_without_asking() -> None:
    assert as_serializer(serializers.VoidSerializer(), is_key=True).serialize("t", [], None) is None
    assert as_deserializer(serializers.VoidDeserializer(), is_key=True).deserialize("t", [], None) is None
    assert as_serializer(lambda value: None, is_key=True).serialize("t", [], "v") is None


def two(first: Any, second: Any) -> bytes:
    raise AssertionError


def keyword(value: Any, *, needed: Any) -> bytes:
    raise AssertionError


class Java:
    def serialize(self, topic: str, value: Any) -> bytes:
        raise AssertionError


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (5, "5 is not a serializer: it has no method 'serialize' and can't be called."),
        (two, "The serializer two must take one argument, the value, or three, (topic, headers, value)."),
        (keyword, "The serializer keyword must take one argument"),
        (Java(), "Java.serialize must take (topic, headers, value)."),
    ],
)
def test_what_is_no_serializer(target: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        as_serializer(target, is_key=False)
    assert sentence in str(caught.value)


def test_errors_name_the_record_and_keep_their_cause() -> None:
    def failing(value: str) -> bytes:
        raise KeyError(value)

    with pytest.raises(SerializationError) as caught:
        as_serializer(failing, is_key=True).serialize("orders", [], "k")
    assert "The key of a record for topic 'orders' could not be serialized by " in caught.value.message
    assert caught.value.message.endswith("failing: KeyError: 'k'.")
    assert isinstance(caught.value.__cause__, KeyError)


def test_errors_of_our_own_keep_their_hint() -> None:
    with pytest.raises(SerializationError) as caught:
        as_serializer(serializers.BytesSerializer(), is_key=False).serialize("orders", [], "text")
    subject = "The value of a record for topic 'orders' could not be serialized by BytesSerializer"
    assert caught.value.message == f"{subject}: expected bytes, not str."
    assert caught.value.hint
    assert isinstance(caught.value, TypeError)


def test_a_result_of_another_type_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"by .*<lambda>: it returned str instead of bytes or None\."):
        as_serializer(lambda value: value, is_key=False).serialize("t", [], "v")


async def asynchronous(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return None if value == "null" else value


class AsynchronousMethod:
    async def serialize(self, topic: str, headers: HeaderList, value: Any) -> Any:
        headers.append((topic, None))
        return await asynchronous(value)


class AsynchronousCall:
    async def __call__(self, value: Any) -> Any:
        return await asynchronous(value)


class Future:
    def __await__(self) -> Generator[None, None, bytes]:
        raise AssertionError


async def settle(pending: object) -> Any:
    assert isinstance(pending, Awaitable)
    return await pending


ASYNCHRONOUS = [asynchronous, AsynchronousMethod(), AsynchronousCall(), functools.partial(asynchronous)]


@pytest.mark.parametrize("target", ASYNCHRONOUS)
async def test_coroutine_functions(target: object) -> None:
    serializer = as_serializer(target, is_key=False)
    assert serializer.is_async
    assert serializer.serialize("t", [], None) is None
    assert await settle(serializer.serialize("t", [], b"v")) == b"v"
    assert await settle(serializer.serialize("t", [], "null")) is None
    with pytest.raises(SerializationError, match=r"value of a record for topic 't' .*: ValueError: bad\."):
        await settle(serializer.serialize("t", [], ValueError("bad")))
    with pytest.raises(SerializationError, match="it returned int"):
        await settle(serializer.serialize("t", [], 5))


async def test_a_function_that_returns_an_awaitable() -> None:
    serializer = as_serializer(lambda value: asynchronous(value), is_key=False)
    assert not serializer.is_async
    assert await settle(serializer.serialize("t", [], b"v")) == b"v"


@pytest.mark.parametrize("target", [*ASYNCHRONOUS, lambda value: asynchronous(value), lambda value: Future()])
def test_callers_who_cannot_wait_are_told(target: object) -> None:
    serializer = as_serializer(target, is_key=True)
    assert serializer.serialize_now("orders", [], None) is None
    with pytest.raises(UsageError, match=r"^The key serializer for topic 'orders' has to be awaited"):
        serializer.serialize_now("orders", [], b"k")


def test_callers_who_cannot_wait_get_bytes_at_once() -> None:
    serializer = as_serializer(str.encode, is_key=False)
    assert serializer.serialize_now("t", [], "v") == b"v"
    with pytest.raises(SerializationError, match="value of a record for topic 't'"):
        serializer.serialize_now("t", [], 5)


@pytest.mark.parametrize("target", [ThreeArguments(), bytes.decode, lambda data: data.decode()])
def test_deserializers(target: Callable[..., Any]) -> None:
    headers: HeaderList = []
    deserializer = as_deserializer(target, is_key=False)
    assert not deserializer.is_async
    assert deserializer.deserialize("t", headers, b"v") == "v"
    assert deserializer.deserialize("t", headers, None) is None
    assert headers == ([("topic", b"t")] if isinstance(target, ThreeArguments) else [])
    with pytest.raises(SerializationError, match="value of a record from topic 't' could not be deserialized by"):
        deserializer.deserialize("t", [], b"\xff")


async def test_deserializers_that_wait_at_times() -> None:
    """An object that is not a coroutine function, and returns an awaitable where it has to look something up."""

    async def later(data: bytes) -> str:
        if data == b"bad":
            raise ValueError("no such thing")
        return data.decode()

    known = as_deserializer(lambda data: "known" if data == b"" else later(data), is_key=False)
    assert known.deserialize("t", [], b"") == "known"
    assert await known.deserialize("t", [], b"text") == "text"
    with pytest.raises(SerializationError, match=r"from topic 't' could not be deserialized .*no such thing"):
        await known.deserialize("t", [], b"bad")


def test_errors_keep_their_kind() -> None:
    class OwnError(SerializationError):
        pass

    def fail(_: object) -> bytes:
        raise OwnError("it is odd.", hint="Make it even.")

    with pytest.raises(OwnError, match=r"for topic 't' could not be serialized .*: it is odd") as raised:
        as_serializer(fail, is_key=False).serialize("t", [], 1)
    assert raised.value.hint == "Make it even."
    assert isinstance(raised.value.__cause__, OwnError)


async def test_asynchronous_deserializers() -> None:
    async def decode(data: bytes) -> str:
        return data.decode()

    deserializer = as_deserializer(decode, is_key=True)
    assert deserializer.is_async
    assert await deserializer.deserialize("t", [], b"v") == "v"
    assert await deserializer.deserialize("t", [], None) is None
    with pytest.raises(SerializationError, match="key of a record from topic 't' could not be deserialized by"):
        await deserializer.deserialize("t", [], b"\xff")


def test_close(caplog: pytest.LogCaptureFixture) -> None:
    class Closable(serializers.BytesSerializer):
        closed = 0

        def close(self) -> None:
            self.closed += 1
            raise OSError("stuck")

    target = Closable()
    as_serializer(target, is_key=False).close()
    as_serializer(str.encode, is_key=False).close()
    assert target.closed == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
