"""`aioprod read`: which records are printed, and how."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioprod import Producer
from aioprod.cli.__main__ import main
from aioprod.cli.read.command import make_parser, render_of
from aioprod.cli.read.output import Format, as_hex, as_json, as_value
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.programs import program


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1, auto_create_topics_enable=False) as cluster:
        cluster.create_topic("t", partitions=2)
        fill(cluster, 0, range(5))
        fill(cluster, 1, range(100, 102))
        yield cluster


def fill(cluster: FakeClusterThread, partition: int, numbers: range) -> None:
    async def send() -> None:
        async with Producer(cluster.bootstrap) as producer:
            for number in numbers:
                await producer.send(
                    "t", b"%d" % number, key=b"k", partition=partition, timestamp=1000 + number, headers=[("h", b"x")]
                )

    asyncio.run(send())


def read(
    cluster: FakeClusterThread, capfdbinary: pytest.CaptureFixture[bytes], *arguments: str, status: int = 0
) -> bytes:
    assert main(["read", "t", "-b", cluster.bootstrap, *arguments]) == status
    return capfdbinary.readouterr().out


def numbers(output: bytes) -> list[int]:
    return sorted(map(int, output.split()))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [0, 1, 2, 3, 4, 100, 101]),
        (["--partition", "0"], [0, 1, 2, 3, 4]),
        (["--partition", "0-1"], [0, 1, 2, 3, 4, 100, 101]),
        (["--from", "3"], [3, 4]),
        (["--from", "latest"], []),
        (["--from", "1", "--until", "2"], [1, 101]),
        (["--from", "1970-01-01T00:00:01.003+00:00"], [3, 4, 100, 101]),
        (["--until", "1970-01-01T00:00:01.003+00:00"], [0, 1, 2]),
        (["--partition", "0", "--count", "2"], [0, 1]),
        (["--partition", "0", "--tail", "2", "--count", "2"], [3, 4]),
    ],
)
def test_which_records(
    cluster: FakeClusterThread, capfdbinary: pytest.CaptureFixture[bytes], arguments: list[str], expected: list[int]
) -> None:
    assert numbers(read(cluster, capfdbinary, *arguments)) == expected


def test_json(cluster: FakeClusterThread, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (line,) = read(cluster, capfdbinary, "--json", "--partition", "0", "--count", "1").splitlines()
    assert json.loads(line) == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": 1000,
        "key": "k",
        "value": "0",
        "headers": [["h", "x"]],
    }


def test_a_format_and_hexadecimal(cluster: FakeClusterThread, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    template = r"%t-%p@%o:%k/%K=%s/%S %h %T %%\t\x41\n"
    assert read(cluster, capfdbinary, "--format", template, "--from", "4") == b"t-0@4:k/1=4/1 h=x 1004 %\tA\n"
    assert read(cluster, capfdbinary, "--hex", "--from", "4") == b"6b\t34\n"


def test_what_is_no_text_is_shown() -> None:
    record = ConsumedRecord("t", 0, 1, None, b"\xff", [("n", None)], 5)
    assert Format("%k%K %s %S %h").render("t", 0, record) == b"-1 \xff 1 n=NULL"
    assert as_hex("t", 0, record) == b"-\tff\n"
    assert json.loads(as_json("t", 0, record))["value"] == {"base64": "/w=="}
    assert as_value("t", 0, ConsumedRecord("t", 0, 1, None, None, [], 5)) == b"\n"


@pytest.mark.parametrize(
    ("is_terminal", "arguments", "written"),
    [
        (True, [], rb"\x1b[2J\x07\xff\x9b"),
        (True, ["--format", r"%S\t%k\x41%s"], b"7\t\\nA" + rb"\x1b[2J\x07\xff\x9b"),
        (True, ["--raw"], b"\x1b[2J\x07\xff\x9b"),
        (True, ["--raw", "--format", "%s"], b"\x1b[2J\x07\xff\x9b"),
        (False, [], b"\x1b[2J\x07\xff\x9b"),
        (False, ["--format", "%s"], b"\x1b[2J\x07\xff\x9b"),
    ],
)
def test_control_characters_are_escaped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, arguments: list[str], written: bytes
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    record = ConsumedRecord("t", 0, 1, b"\n", b"\x1b[2J\x07\xff\x9b", [], 5)
    render = render_of(make_parser().parse_args(["t", "-b", "localhost:1", *arguments]))
    assert render("t", 0, record).removesuffix(b"\n") == written


@pytest.mark.parametrize("template", ["%x", "100%", r"\q"])
def test_a_template_that_is_wrong(template: str) -> None:
    with pytest.raises(ArgumentTypeError):
        Format(template)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--partition", "x"], "'x' is not a partition: write them as 0,2-4"),
        (["--partition", "4-2"], "'4-2' is not a range of partitions"),
        (["--count", "0"], "'0' is not a number of records"),
        (["--from", "soon"], "'soon' is not a time"),
        (["--from", "-5"], "'-5' is no place: --tail 5 reads the last of each partition, then those that come"),
        (["--format", "%x"], "%x in '%x' is not part of a record"),
        (["--group", "g", "--tail", "3"], "--group reads what the group assigns"),
    ],
)
def test_invalid_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["read", "t", "-b", "localhost:1", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_topic_and_a_partition_that_do_not_exist(
    cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", "other", "-b", cluster.bootstrap]) == 1
    assert "'other'" in capsys.readouterr().err
    assert main(["read", "t", "-b", cluster.bootstrap, "--partition", "7"]) == 1
    assert "Topic 't' has no partition 7: it has 2 (0 to 1)." in capsys.readouterr().err


def test_a_group_commits_what_was_written(
    cluster: FakeClusterThread, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert numbers(read(cluster, capfdbinary, "--group", "g", "--count", "7")) == [0, 1, 2, 3, 4, 100, 101]
    assert cluster.committed_offset("g", TopicPartition("t", 0)) == 5
    assert cluster.committed_offset("g", TopicPartition("t", 1)) == 2
    fill(cluster, 0, range(5, 9))
    assert numbers(read(cluster, capfdbinary, "--group", "g", "--count", "2")) == [5, 6]
    assert cluster.committed_offset("g", TopicPartition("t", 0)) == 7


@pytest.mark.parametrize("group", [[], ["--group", "mine"]])
def test_the_file_of_a_consumer_is_read_as_it_is(
    group: list[str], cluster: FakeClusterThread, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text(
        "group.id=theirs\nenable.auto.commit=true\nauto.offset.reset=latest\nisolation.level=read_committed\n"
        "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer\n"
        "value.deserializer=io.confluent.kafka.serializers.KafkaAvroDeserializer\n"
        "max.poll.records=5\nfetch.min.bytes=1\npartition.assignment.strategy="
        "org.apache.kafka.clients.consumer.RangeAssignor\n"
    )
    found = read(cluster, capfdbinary, "-F", str(path), *group, "--count", "7")
    assert numbers(found) == [0, 1, 2, 3, 4, 100, 101]
    assert cluster.committed_offset("theirs", TopicPartition("t", 0)) is None
    if group:
        assert cluster.committed_offset("mine", TopicPartition("t", 0)) == 5


def test_records_that_come_are_followed_until_ctrl_c(cluster: FakeClusterThread) -> None:
    with program("read", "t", "-b", cluster.bootstrap, "--partition", "1", "--follow") as running:
        assert running.stdout is not None
        assert [running.stdout.readline() for _ in range(2)] == [b"100\n", b"101\n"]
        fill(cluster, 1, range(102, 104))
        assert [running.stdout.readline() for _ in range(2)] == [b"102\n", b"103\n"]
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, b"aioprod read: interrupted\n")


def test_a_pipe_that_closes_ends_it_quietly(cluster: FakeClusterThread) -> None:
    fill(cluster, 0, range(5, 300))
    template = "%s" + "x" * 5000 + r"\n"
    with program("read", "t", "-b", cluster.bootstrap, "--format", template, "--follow") as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == b""
        assert running.wait(60) == 1


def test_the_same_lines_come_back(
    cluster: FakeClusterThread, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    cluster.create_topic("lines", partitions=1)
    lines = os.urandom(20_000).replace(b"\r", b"")
    (tmp_path / "lines").write_bytes(lines + b"\n")
    assert main(["produce", "lines", "-b", cluster.bootstrap, str(tmp_path / "lines")]) == 0
    assert main(["read", "lines", "-b", cluster.bootstrap]) == 0
    assert capfdbinary.readouterr().out == lines + b"\n"
