"""`aioprod perf`: a load on fake brokers, and what is said of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aioprod.cli.__main__ import main
from aioprod.cli.perf.load import STYLES
from aioprod.errors import ErrorCode
from aioprod.messages import ProduceRequest
from aioprod.testing import Security
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from tests.support.programs import interruptible

RECORDS = 250


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1, auto_create_topics_enable=False) as cluster:
        cluster.create_topic("orders", partitions=2)
        yield cluster


def stored(cluster: FakeClusterThread) -> list[Any]:
    return list(cluster.topics["orders"].records())


def perf(cluster: FakeClusterThread, *arguments: str) -> int:
    return main(["perf", "orders", "-b", cluster.bootstrap, *arguments])


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said on stderr of a call that is wrong."""
    with pytest.raises(SystemExit) as ended:
        main(["perf", "orders", *arguments])
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("style", STYLES)
def test_each_style_sends_the_load_and_reports_it(
    cluster: FakeClusterThread, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--records", str(RECORDS), "--size", "70", "--key-size", "5", "--chunk", "60"]
    assert perf(cluster, *arguments, "--style", style, "--json") == 0
    found = document(capsys)
    assert (found["records"], found["failed"], found["interrupted"]) == (RECORDS, 0, False)
    assert found["config"]["style"] == style
    latency = found["latency_ms"]
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    assert {"seconds", "records_per_s", "mb_per_s", "cpu_s", "peak_rss_mb", "loop_gap_ms"} <= found.keys()
    assert found["round_trip"]["request_p50_ms"] > 0
    assert found["round_trip"]["batch_bytes_avg"] > 70
    assert 0 <= found["round_trip"]["full_ratio"] <= 1
    records = stored(cluster)
    assert {(len(record.key), len(record.value)) for record in records} == {(5, 70)}
    assert len(records) == RECORDS


def test_a_load_waits_for_room(cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
    small = [word for setting in ("buffer.memory=40000", "batch.size=10000") for word in ("-X", setting)]
    assert perf(cluster, "--records", "200", "--size", "2000", *small, "--json") == 0
    assert document(capsys)["records"] == len(stored(cluster)) == 200


def test_the_report_for_people_begins_as_that_of_kafkas_tool(
    cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perf(cluster, "--records", "20") == 0
    said = capsys.readouterr().out
    assert said.startswith("20 records sent, ")
    assert " ms 99.9th." in said
    assert "CPU time" in said
    assert "the latencies are mostly the time in this client's own buffer" in said
    assert perf(cluster, "--records", "20", "--rate", "1000") == 0
    assert "own buffer" not in capsys.readouterr().out


def test_a_load_that_the_round_trip_limits_says_so(
    cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fault(ProduceRequest, times=None, delay_s=0.05)
    one = ["-X", "max.in.flight.requests.per.connection=1"]
    assert perf(cluster, "--seconds", "1", *one) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Half of the requests were answered within \d+\.\d ms, with batches of [\d.]+ k?M?B on", said)
    assert "waited for a place in flight. The round trip limits it." in said


def test_values_are_the_lines_of_a_payload_file(cluster: FakeClusterThread, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n")
    assert perf(cluster, "--records", "5", "--payload-file", str(tmp_path / "lines")) == 0
    values = sorted(record.value for record in stored(cluster))
    assert values == [b"one", b"one", b"one", b"two", b"two"]


def test_the_same_seed_sends_the_same_bytes(cluster: FakeClusterThread) -> None:
    for seed in ("7", "7", "8"):
        assert perf(cluster, "--records", "1", "--seed", seed) == 0
    first, again, other = (record.value for record in sorted(stored(cluster), key=lambda record: record.timestamp))
    assert len({first, again, other}) == 2


def test_end_to_end_reads_each_record_back(cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
    assert perf(cluster, "--records", "3") == 0  # These are there before, and are not read.
    capsys.readouterr()
    assert perf(cluster, "--e2e", "--records", "10", "--json") == 0
    found = document(capsys)
    assert (found["records"], found["failed"]) == (10, 0)
    assert found["config"]["settings"]["linger.ms"] == 0
    assert len(stored(cluster)) == 13


def test_records_that_fail_are_counted_and_the_status_is_1(
    cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
    assert perf(cluster, "--records", "10", "--json") == 1
    found = document(capsys)
    assert found["failed"] > 0
    assert found["records"] + found["failed"] == 10
    assert sum(found["errors"].values()) == found["failed"]


def test_a_topic_that_does_not_exist_is_an_error_and_no_report(
    cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["perf", "order", "-b", cluster.bootstrap]) == 1
    said = capsys.readouterr()
    assert not said.out
    assert "order" in said.err


def test_secrets_are_in_no_report(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    security = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])
    monkeypatch.setenv("KAFKA_PASSWORD", security.users["alice"])
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    given = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    with running_fake_cluster(1, security=security) as cluster:
        for password in ("env:KAFKA_PASSWORD", security.users["alice"]):
            assert perf(cluster, "--records", "1", "--json", *given, "-X", f"sasl.password={password}") == 0
            said = capsys.readouterr()
            assert json.loads(said.out)["config"]["settings"]["sasl.password"] == "[hidden]"
            assert security.users["alice"] not in said.out + said.err


def test_a_picture_of_the_latencies(cluster: FakeClusterThread, tmp_path: Path) -> None:
    assert perf(cluster, "--records", "50", "--picture", str(tmp_path / "perf.png")) == 0
    assert (tmp_path / "perf.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_picture_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aioprod.console.pictures.can_draw", lambda: False)
    assert "pip install 'aioprod[cli]'" in refused(capsys, "-b", "a:1", "--picture", "x.png")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--records", "0"], "'0' is not a whole number from 1 on"),
        (["--rate", "fast"], "'fast' is not a number from 0.001 on"),
        (["--records", "1", "--seconds", "1"], "not allowed with"),
        (["--size", "5", "--payload-file", "x"], "not allowed with"),
        (["--payload-file", "/nowhere/lines"], "can't be read: No such file"),
        (["--payload-file", os.devnull], "has no line"),
        (["--compare", "librdkafka"], "'librdkafka' is not a client to compare with: take confluent or aiokafka"),
        (["--compare", "confluent", "--e2e"], "--compare goes neither with --e2e nor with --picture"),
        (["--compare", "aiokafka", "-X", "metadata.max.age.ms=9"], "can't hand over metadata.max.age.ms to aiokafka"),
        (["-X", "linger.ms=soon"], "linger.ms must be"),
    ],
)
def test_wrong_arguments_end_with_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(capsys, "-b", "127.0.0.1:1", *arguments)


def test_a_client_that_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aioprod.cli.perf.peers.find_spec", lambda name: None)
    assert "aiokafka is not installed: pip install aiokafka" in refused(capsys, "--compare", "aiokafka")


def test_ctrl_c_reports_what_was_done_until_then(cluster: FakeClusterThread) -> None:
    """The third request is there: with one at a time the first is answered, and what became of it is counted."""
    arguments = ["--seconds", "600", "--rate", "1000", "--json", "-X", "max.in.flight.requests.per.connection=1"]
    with subprocess.Popen(
        [sys.executable, "-m", "aioprod", "perf", "orders", "-b", cluster.bootstrap, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    ) as process:
        try:
            while process.poll() is None and produce_requests(cluster) < 3:
                cluster.call(asyncio.sleep, 0.01)
            process.send_signal(signal.SIGINT)
            out, said = process.communicate()
        finally:
            process.kill()
    assert process.returncode == 130
    found = json.loads(out)
    assert found["interrupted"] is True
    assert found["records"] > 0
    assert said.endswith("aioprod perf: interrupted\n")


def produce_requests(cluster: FakeClusterThread) -> int:
    return sum(isinstance(seen.message, ProduceRequest) for seen in list(cluster.seen))
