"""Every message in every version compared with Kafka's own classes: field by field, byte by byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from aioprod import messages
from aioprod.errors import ErrorCode, UnsupportedVersionError
from aioprod.wire.codec import decode, encode
from aioprod.wire.frame import decode_response_header, encode_response, request_header
from aioprod.wire.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    TEXT,
    UUID,
    Array,
    Request,
    Response,
    Struct,
    WireType,
    fields_of,
)
from integration.support.java import JavaOracle
from integration.support.random_messages import random_message
from integration.write_golden import stale_files
from tests.support.golden import as_read, from_base64, from_json, to_base64, to_json
from tests.support.length import by_length

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]  # the first run fetches the jars

RANDOM_PER_VERSION = by_length(5, 50)
CONVERTED_PER_VERSION = by_length(2, 6)

Kind: TypeAlias = type[Request[Response]] | type[Response]

MESSAGES: list[Kind] = [getattr(messages, name) for name in messages.__all__ if name.endswith(("Request", "Response"))]

NOT_SPOKEN = {"DescribeLogDirs": 5}
"""Versions of 4.4 that bring nothing: whether a folder takes new replicas (KIP-1066)."""

_JAVA_NAMES = {BOOL: "BOOLEAN", INT8: "INT8", INT16: "INT16", INT32: "INT32", INT64: "INT64", UUID: "UUID"}
_JAVA_SIZED_NAMES = {STRING: "STRING", TEXT: "STRING", BYTES: "BYTES", RECORDS: "RECORDS"}


def describe_struct(struct: type[Struct], version: int, *, flexible: bool, nullable: bool = False) -> dict[str, Any]:
    """Our declaration of one version in the form of `SchemaText.java`."""
    fields = [field for field in fields_of(struct) if version in field.versions]
    rows = [
        (field.tag, [field.name, describe(field.type, version, flexible=flexible, nullable=version in field.nullable)])
        for field in fields
    ]
    return {
        "nullable": nullable,
        "fields": [row for tag, row in rows if tag is None],
        "tagged": {str(tag): row for tag, row in rows if tag is not None} if flexible else None,
    }


def describe(type_: WireType, version: int, *, flexible: bool, nullable: bool) -> Any:
    if isinstance(type_, Array):
        element = describe(type_.element, version, flexible=flexible, nullable=False)
        return {"array": element, "compact": flexible, "nullable": nullable}
    if isinstance(type_, type):
        return describe_struct(type_, version, flexible=flexible, nullable=nullable)
    if type_ in _JAVA_NAMES:
        return _JAVA_NAMES[type_]
    return ("COMPACT_" if flexible else "") + ("NULLABLE_" if nullable else "") + _JAVA_SIZED_NAMES[type_]


def versions(message: Kind) -> range:
    first, last = message.VERSIONS
    return range(first, last + 1)


def which(message: Kind) -> dict[str, object]:
    """The message as `JavaOracle` wants it named."""
    return {"api": message.API_KEY, "kind": "request" if issubclass(message, Request) else "response"}


@pytest.fixture(params=MESSAGES, ids=lambda message: message.__name__)
def message(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def test_all_apis_are_compared() -> None:
    assert len(MESSAGES) == 2 * 34
    assert len({message.API_KEY for message in MESSAGES}) == 34


def test_versions_and_fields_are_those_of_kafkas_schemas(
    oracle: JavaOracle, message: Kind, cases: Counter[str]
) -> None:
    java = oracle.call("schemas", **which(message))
    assert java["name"] == message.NAME
    spoken = {int(version) for version in java["versions"]} - {NOT_SPOKEN.get(message.NAME)}
    assert spoken == set(versions(message))
    if issubclass(message, Request):
        stable = message.VERSIONS[1] if message.STABLE_MAX is None else message.STABLE_MAX
        assert java["highest_stable"] == NOT_SPOKEN.get(message.NAME, stable)
    for version in versions(message):
        ours = describe_struct(message, version, flexible=message.is_flexible(version))
        assert ours == java["versions"][str(version)], f"{message.__name__} v{version}"
        cases["schemas of a message version equal to Java's"] += 1


def test_headers_are_kafkas(oracle: JavaOracle, message: Kind, cases: Counter[str]) -> None:
    for version in versions(message):
        for client_id, correlation_id in ((None, 0), ("é-1", -1), ("x" * 300, 2**31 - 1)):
            java = oracle.call(
                "headers", **which(message), version=version, client_id=client_id, correlation_id=correlation_id
            )
            flexible = message.is_flexible(version)
            ours = request_header(message.API_KEY, version, flexible, correlation_id, client_id)
            assert to_base64(ours) == java["request_bytes"]
            cases["request headers equal to Java's"] += 1
            if issubclass(message, Response):
                body = encode(message(), version)
                payload = from_base64(java["response_bytes"]) + body
                assert encode_response(message(), version, correlation_id)[4:] == payload
                assert decode_response_header(message, version, payload) == (correlation_id, memoryview(body))
                cases["response headers equal to Java's"] += 1


def test_a_message_of_which_nothing_is_set_is_kafkas(oracle: JavaOracle, message: Kind, cases: Counter[str]) -> None:
    for version in versions(message):
        assert to_base64(encode(message(), version)) == oracle.call("unset_message", **which(message), version=version)
        cases["messages of defaults equal to Java's"] += 1


def test_messages_that_java_makes(oracle: JavaOracle, message: Kind, cases: Counter[str]) -> None:
    for version in versions(message):
        about = {**which(message), "version": version, "seed": version, "big": True}
        made = oracle.call("random_messages", **about, count=RANDOM_PER_VERSION)
        again = [check_java_made(message, version, row) for row in made]
        assert oracle.call("same_messages", **about, messages=again) == [True] * RANDOM_PER_VERSION
        cases["random messages Java -> aioprod -> Java"] += RANDOM_PER_VERSION


def check_java_made(message: Kind, version: int, row: dict[str, Any]) -> str:
    """Read what Java wrote and return what we make of it."""
    data = from_base64(row["bytes"])
    made = from_json(message, version, row["json"])
    assert to_json(made, version) == row["json"]
    read = decode(message, version, data)
    assert read == as_read(made)
    assert decode(message, version, from_base64(row["bytes_unknown_tags"])) == read
    written = encode(made, version)
    assert written == data
    return to_base64(written)


def test_messages_that_we_make(oracle: JavaOracle, message: Kind, cases: Counter[str]) -> None:
    for version in versions(message):
        made = [random_message(message, version, seed) for seed in range(RANDOM_PER_VERSION)]
        encoded = [encode(one, version) for one in made]
        rows = [
            {"bytes": to_base64(data), "json": to_json(one, version)} for data, one in zip(encoded, made, strict=True)
        ]
        java = oracle.call("read_messages", **which(message), version=version, messages=rows)
        assert [read["same"] for read in java] == [True] * len(made)
        assert [read["bytes"] for read in java] == [row["bytes"] for row in rows]
        assert [decode(message, version, data) for data in encoded] == [as_read(one) for one in made]
        cases["random messages aioprod -> Java -> aioprod"] += len(made)


def test_a_value_without_a_place_in_a_version_is_refused_or_dropped_as_in_java(
    oracle: JavaOracle, message: Kind, cases: Counter[str]
) -> None:
    for version in versions(message):
        about = {**which(message), "version": version}
        made = oracle.call("random_messages", **about, seed=-version, big=False, count=CONVERTED_PER_VERSION)
        encoded = [row["bytes"] for row in made]
        java = oracle.call("convert_messages", **about, to=list(versions(message)), messages=encoded)
        for row, converted in zip(made, java, strict=True):
            ours = list(convert(message, from_json(message, version, row["json"])))
            assert ours == converted, f"{message.__name__} v{version}: {row['bytes']}"
            cases["messages written in each other version as Java does"] += len(ours)


def convert(message: Kind, made: Any) -> Iterator[str | None]:
    for other in versions(message):
        try:
            yield to_base64(encode(made, other))
        except UnsupportedVersionError:
            yield None


def test_the_golden_files_are_what_kafka_writes(oracle: JavaOracle) -> None:
    assert stale_files(oracle) == []


def test_error_codes_are_kafkas(oracle: JavaOracle, cases: Counter[str]) -> None:
    java = oracle.call("errors")
    ours = {code.value: (code.name, code.retriable, code.refreshes_metadata) for code in ErrorCode}
    assert ours == {row["code"]: (row["name"], row["retriable"], row["refreshes_metadata"]) for row in java}
    cases["error codes equal to Java's"] += len(ours)
