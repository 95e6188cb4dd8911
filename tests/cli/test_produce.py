"""`aioprod produce`: what files and pipes become, and what is said of it."""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioprod.cli.__main__ import main
from aioprod.cli.produce import chunks
from aioprod.errors import ErrorCode
from aioprod.messages import InitProducerIdRequest, ProduceRequest
from aioprod.producer.batching.bulk_values import BYTES_PER_TURN
from aioprod.producer.bulk.send_many import RECORDS_PER_TURN
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from tests.support.programs import program


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1, auto_create_topics_enable=False) as cluster:
        cluster.create_topic("t", partitions=1, max_message_bytes=5_000_000)
        yield cluster


def produce(cluster: FakeClusterThread, *arguments: str, topic: str = "t") -> int:
    return main(["produce", topic, "-b", cluster.bootstrap, *arguments])


def values(cluster: FakeClusterThread) -> list[bytes | None]:
    return [record.value for record in cluster.topics["t"].records()]


def keyed(cluster: FakeClusterThread) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in cluster.topics["t"].records()]


def file(tmp_path: Path, content: bytes | str) -> str:
    path = tmp_path / "input"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


# --- what records are made of


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\xff\n", [b"", b"\xff"]),
        (b"a\r\n\r\n\n\nb\r\n", [b"a\r", b"\r", b"", b"", b"b\r"]),
        (b"\n" * 3_000, [b""] * 3_000),
        (b"x" * 3_000_000 + b"\ny\n" * 3, None),
    ],
)
def test_each_line_is_a_value(
    cluster: FakeClusterThread, tmp_path: Path, content: bytes, expected: list[bytes] | None
) -> None:
    assert produce(cluster, file(tmp_path, content), "-X", "max.request.size=4000000") == 0
    assert values(cluster) == (content.split(b"\n")[:-1] if expected is None else expected)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_go_on_in_the_next_chunk(
    cluster: FakeClusterThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK", 7)
    lines = [b"", b"six..." + b"\r", b"a line of several chunks", b"", b"1", b"2", b"3", b"seven..", b"the end"]
    path = file(tmp_path, b"\n".join(lines) + end)
    assert produce(cluster, path) == 0
    assert produce(cluster, path, "--null-value", "1") == 0
    assert values(cluster) == lines + [None if line == b"1" else line for line in lines]


def test_lines_have_headers_a_partition_and_a_time_in_common(
    cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--header", "a=b", "--timestamp", "1970-01-01T00:00:01+00:00", "--partition", "0", "--json"]
    assert produce(cluster, file(tmp_path, b"one\n\nthree\n"), *arguments) == 0
    found = [(record.value, list(record.headers), record.timestamp) for record in cluster.topics["t"].records()]
    assert found == [(value, [("a", b"b")], 1000) for value in (b"one", b"", b"three")]
    assert json.loads(capsys.readouterr().out)["bytes"] == 8


def test_lines_keep_their_order_over_many_calls(cluster: FakeClusterThread, tmp_path: Path) -> None:
    lines = [b"%d" % number for number in range(RECORDS_PER_TURN * 7 + 3)]
    assert (
        produce(cluster, file(tmp_path, b"\n".join(lines)), "-X", "buffer.memory=150000", "-X", "batch.size=900") == 0
    )
    assert values(cluster) == lines


@pytest.mark.parametrize("end", ["", "x" * BYTES_PER_TURN * 3])
@pytest.mark.parametrize("arguments", [(), ("--header", "trace=" + "x" * (3 * BYTES_PER_TURN // RECORDS_PER_TURN))])
def test_no_call_takes_so_much_that_the_next_one_overtakes_it(
    cluster: FakeClusterThread, tmp_path: Path, end: str, arguments: tuple[str, ...]
) -> None:
    """So many records, or bytes, would take a call three turns of the loop, and the next call begins in the second."""
    lines = [f"{number}{end if number == 5 else ''}".encode() for number in range(RECORDS_PER_TURN * 3)]
    path = file(tmp_path, b"\n".join(lines))
    assert produce(cluster, path, *arguments, "-X", "max.request.size=4000000") == 0
    assert values(cluster) == lines


def test_keys_nulls_headers_and_types(cluster: FakeClusterThread, tmp_path: Path) -> None:
    path = file(tmp_path, "1::2\n3::NULL\n")
    arguments = ["--key-separator", "::", "--null-value", "NULL", "--key-type", "long", "--value-type", "integer"]
    assert produce(cluster, path, *arguments, "--header", "a=b=c", "--timestamp", "1970-01-01T00:00:01+00:00") == 0
    assert keyed(cluster) == [(struct.pack(">q", 1), struct.pack(">i", 2)), (struct.pack(">q", 3), None)]
    assert {tuple(record.headers) for record in cluster.topics["t"].records()} == {(("a", b"b=c"),)}
    assert {record.timestamp for record in cluster.topics["t"].records()} == {1000}


def test_json_lines_as_records_and_as_values(cluster: FakeClusterThread, tmp_path: Path) -> None:
    rows = [
        {"key": "k", "value": {"ä": [1, 2]}, "headers": {"h": "x", "n": None}, "timestamp": 7, "partition": 0},
        {"value": None, "key": 5},
    ]
    path = file(tmp_path, "\n".join([json.dumps(rows[0]), "", json.dumps(rows[1])]))
    assert produce(cluster, path, "--format", "jsonl", "--header", "all=1") == 0
    first, second = cluster.topics["t"].records()
    assert (first.key, first.value, first.timestamp) == (b"k", '{"ä":[1,2]}'.encode(), 7)
    assert list(first.headers) == [("all", b"1"), ("h", b"x"), ("n", None)]
    assert (second.key, second.value) == (b"5", None)
    assert produce(cluster, file(tmp_path, '{"id": 3, "x": 1}\n'), "--format", "jsonl", "--key-field", "id") == 0
    assert keyed(cluster)[-1] == (b"3", b'{"id": 3, "x": 1}')


def test_rows_of_csv(cluster: FakeClusterThread, tmp_path: Path) -> None:
    path = file(tmp_path, 'id,what\r\n1,"a, ""b"""\r\n2,"two\nlines"\r\n')
    assert produce(cluster, path, "--format", "csv", "--key-field", "id") == 0
    found = [(key, json.loads(value or b"")) for key, value in keyed(cluster)]
    assert found == [(b"1", {"id": "1", "what": 'a, "b"'}), (b"2", {"id": "2", "what": "two\nlines"})]


def test_a_rate_sends_all(cluster: FakeClusterThread, tmp_path: Path) -> None:
    assert produce(cluster, file(tmp_path, "a\nb\nc\n"), "--rate", "1000") == 0
    assert values(cluster) == [b"a", b"b", b"c"]


# --- the report


def test_the_report_as_json(cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert produce(cluster, file(tmp_path, "aa\nb\n"), "--json") == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert said.err == ""
    assert report.pop("seconds") >= 0
    assert report == {
        "topic": "t",
        "delivered": 2,
        "failed": 0,
        "aborted": False,
        "interrupted": False,
        "bytes": 3,
        "partitions": [{"partition": 0, "records": 2, "first_offset": 0, "last_offset": 1}],
        "error": None,
    }


def test_the_report_for_people(cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert produce(cluster, file(tmp_path, "a\n")) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("1 record delivered to t, 1 byte in ")


# --- what is wrong


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "line", "said"),
    [
        ("1:2\n3:4\n5\n", ["--key-separator", ":"], 3, "The key is not followed by the separator ':'."),
        ("1\nx\n", ["--value-type", "long"], 2, "The value is not of type long."),
        ('{"value": 1}\n\n{"value"}\n', ["--format", "jsonl"], 3, "It is not JSON: "),
        ('{"value": 1}\n{"v": 1}\n', ["--format", "jsonl"], 2, "It is not a record: "),
        ("a,b\n1,2\n3\n", ["--format", "csv"], 3, "The row has 1 fields, and the first row 2."),
        ('a,b\n1,2\n3,"x\n', ["--format", "csv"], 3, "A quoted field does not end."),
        ("a\n", ["--format", "csv", "--key-field", "b"], 1, "The first row has no column 'b'."),
    ],
)
def test_an_invalid_line_is_named_and_those_before_it_are_sent(
    cluster: FakeClusterThread,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    arguments: list[str],
    line: int,
    said: str,
) -> None:
    path = file(tmp_path, content)
    assert produce(cluster, path, *arguments) == 1
    assert f"aioprod produce: line {line} of {path}: {said}" in complaint(capsys)
    expected = {3: 2, 2: 1, 1: 0}[line] - ("csv" in arguments and line > 1) - (said == "It is not JSON: ")
    assert len(values(cluster)) == expected


def test_a_record_that_is_too_large_in_a_late_line(
    cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [b"x" * 10] * 7000
    lines[6999] = b"y" * 2000
    path = file(tmp_path, b"\n".join([*lines, b"after"]))
    assert produce(cluster, path, "-X", "max.request.size=1500") == 1
    assert f"line 7,000 of {path}: " in complaint(capsys)
    assert values(cluster)[:6999] == lines[:6999]


def test_a_failure_of_the_broker_names_the_line(
    cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
    assert produce(cluster, file(tmp_path, "a\n"), "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["delivered"], report["failed"]) == (0, 1)
    assert report["error"]["line"] == 1


def test_a_topic_that_does_not_exist(
    cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert produce(cluster, file(tmp_path, "a\n"), "-X", "max.block.ms=300", topic="other") == 1
    assert "'other'" in complaint(capsys)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-file"], "'no-such-file' can't be read: No such file or directory."),
        (["--transactional"], "--transactional needs a name."),
        (["--format", "csv", "--key-separator", ":"], "--key-separator is for lines."),
        (["--key-field", "x"], "--key-field is for jsonl and csv."),
        (["--rate", "0"], "'0' is not a rate"),
        (["--partition", "-1"], "'-1' is not a partition"),
        (["--header", "x"], "'x' is not a header"),
        (["--timestamp", "soon"], "'soon' is not a time"),
        (["-X", "nonsense=1"], "'nonsense' is not a setting."),
    ],
)
def test_invalid_arguments_end_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["produce", "t", "-b", "localhost:1", *arguments])
    assert ended.value.code == 2
    assert said in complaint(capsys)


def test_an_input_that_fails_halfway(
    cluster: FakeClusterThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chunks = iter([b"a\nb\n"])

    def read(descriptor: int, size: int) -> bytes:
        try:
            return next(chunks)
        except StopIteration:
            raise OSError(5, "Input/output error") from None

    monkeypatch.setattr(os, "read", read)
    path = file(tmp_path, "a\nb\n")
    assert produce(cluster, path) == 1
    said = complaint(capsys)
    assert said.startswith("2 records delivered to t, ")
    assert f"'{path}' can't be read any further: Input/output error." in said
    assert values(cluster) == [b"a", b"b"]


# --- transactions, signals, pipes


def test_a_transaction_stores_all_or_nothing(
    cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert produce(cluster, file(tmp_path, "a\nb\n"), "--transactional-id", "load") == 0
    assert values(cluster) == [b"a", b"b"]
    path = file(tmp_path, '{"value": "c"}\nnonsense\n')
    assert produce(cluster, path, "--transactional-id", "load", "--format", "jsonl") == 1
    assert values(cluster) == [b"a", b"b"]
    assert "the transaction was aborted" in complaint(capsys)


@pytest.mark.parametrize(("given", "used"), [((), 900_000), (("-X", "transaction.timeout.ms=5000"), 5000)])
def test_a_transaction_may_last_as_long_as_brokers_allow(
    cluster: FakeClusterThread, tmp_path: Path, given: tuple[str, ...], used: int
) -> None:
    assert produce(cluster, file(tmp_path, "a\n"), "--transactional-id", "load", *given) == 0
    (request,) = cluster.seen_of(InitProducerIdRequest)
    assert request.transaction_timeout_ms == used


def test_ctrl_c_delivers_what_was_read_and_says_so(cluster: FakeClusterThread) -> None:
    with program("produce", "t", "-b", cluster.bootstrap, "--json") as running:
        assert running.stdin is not None
        running.stdin.write(b"a\nb\n")
        running.stdin.flush()
        while len(cluster.topics["t"].records()) < 2:
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.stdout is not None
        report = json.loads(running.stdout.read())
        running.stdin.close()
        assert running.wait(60) == 130
    assert (report["delivered"], report["interrupted"]) == (2, True)


def test_stdin_is_read_by_default(cluster: FakeClusterThread) -> None:
    with program("produce", "t", "-b", cluster.bootstrap) as running:
        said = running.communicate(b"one\ntwo", timeout=60)[1]
    assert running.returncode == 0
    assert b"2 records delivered" in said
    assert values(cluster) == [b"one", b"two"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pipes have a size of their own")
@pytest.mark.parametrize(("before", "after"), [(1 << 16, 1 << 19), (1 << 20, 1 << 20)])
def test_a_pipe_is_widened_to_hold_a_chunk(cluster: FakeClusterThread, before: int, after: int) -> None:
    import fcntl

    reading, writing = os.pipe()
    try:
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, before)
        with open(writing, "wb") as lines:
            lines.write(b"a\nb\n")
        assert produce(cluster, f"/dev/fd/{reading}") == 0
        assert fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ) == after
    finally:
        os.close(reading)
    assert values(cluster) == [b"a", b"b"]


def test_what_is_no_file_is_said(
    cluster: FakeClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        produce(cluster, str(tmp_path))
    assert ended.value.code == 2
    assert "can't be read: Is a directory" in complaint(capsys)
