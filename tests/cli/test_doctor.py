"""`aioprod doctor` names the cause of each of these broken set-ups."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from aioprod.cli.__main__ import main
from aioprod.cli.doctor import command
from aioprod.cli.doctor.findings import Finding, Findings
from aioprod.cli.doctor.probe import listener_at
from aioprod.cli.doctor.topic import _check_in_sync
from aioprod.cluster import Node, PartitionInfo
from aioprod.errors import ErrorCode
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import Security
from aioprod.testing.acls import Acl
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from tests.support.doctor import Visit


@pytest.fixture
def visit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Visit:
    return Visit(capsys, tmp_path)


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does `answer` with each connection; its address."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def http(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def ssh(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def mail(connection: socket.socket) -> None:
    connection.sendall(b"220 mail ESMTP\r\n")


def hang_up(connection: socket.socket) -> None:
    pass


@pytest.fixture
def plain() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1, auto_create_topics_enable=False) as cluster:
        cluster.create_topic("t", partitions=1)
        yield cluster


def test_a_healthy_cluster(plain: FakeClusterThread, visit: Visit) -> None:
    visit(plain.bootstrap, "--topic", "t", "--transactional-id", "doctor")
    assert {one["status"] for one in visit.findings} == {"ok"}
    checks = [one["check"] for one in visit.findings]
    assert checks == [
        *("name", "tcp", "protocol", "kafka", "versions", "brokers", "controller", "partitions", "distance"),
        *("describe", "write", "idempotent", "round trip", "clock", "transactions"),
    ]


def test_the_round_trip_and_what_it_allows(plain: FakeClusterThread, visit: Visit) -> None:
    plain.fault(MetadataRequest, times=None, delay_s=0.05)
    visit(plain.bootstrap, max_request_size=2000, max_in_flight_requests_per_connection=3)
    status, found, _ = visit.of("distance")
    assert status == "ok"
    said = re.fullmatch(
        r"The round trip lets a partition carry 3 requests of 2 kB in (\d+) ms = ([\d.]+) kB/s at most\.", found
    )
    assert said is not None, found
    assert int(said[1]) >= 50
    assert 0 < float(said[2]) <= 120


def test_what_is_not_wanted_is_skipped_with_the_reason(plain: FakeClusterThread, visit: Visit) -> None:
    visit(plain.bootstrap)
    assert visit.of("write") == ("skipped", "Records would be written: name a topic for them by --topic.", "")
    assert visit.of("transactions")[0] == "skipped"
    assert plain.seen_of(ProduceRequest) == []


def test_the_report_for_people(plain: FakeClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", plain.bootstrap]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ok       name          {plain.bootstrap}: 127.0.0.1 is 127.0.0.1 (IPv4)."
    assert lines[-1] == "9 ok, 0 warnings, 0 failed"


# --- the twelve broken set-ups


def test_1_the_wrong_port(visit: Visit) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        visit(f"127.0.0.1:{free.getsockname()[1]}", status=1)
    status, found, advice = visit.of("tcp")
    assert (status, found) == ("failed", "Nothing can be reached at any of its addresses.")
    assert any("rejects connections: nothing listens on port" in one["found"] for one in visit.findings)
    assert "Check the port" in advice
    assert visit.of("write")[0] == "skipped"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http, "A web server speaks there, it says 'HTTP/1.1 400 Bad Request'."),
        (ssh, "An SSH server speaks there, it says 'SSH-2.0-OpenSSH_9.6'."),
        (mail, "Something else than Kafka speaks there, it says '220 mail ESMTP'."),
        (hang_up, "What listens there says nothing, neither to a Kafka request nor to a TLS handshake."),
    ],
)
def test_2_another_server(visit: Visit, answer: Callable[[socket.socket], None], said: str) -> None:
    with listening(answer) as server:
        visit(server, status=1)
    assert visit.of("protocol")[:2] == ("failed", said)


def test_3_tls_on_a_plain_listener(plain: FakeClusterThread, visit: Visit) -> None:
    visit(plain.bootstrap, status=1, security_protocol="SSL")
    assert visit.of("protocol") == (
        "failed",
        "It has no TLS, and security.protocol=SSL wants it.",
        "Set security.protocol=PLAINTEXT, or take the TLS port.",
    )


@contextmanager
def secured(**options: Any) -> Iterator[tuple[FakeClusterThread, Security]]:
    security = Security(**options)
    with running_fake_cluster(1, security=security, auto_create_topics_enable=False) as cluster:
        cluster.create_topic("t", partitions=1)
        yield cluster, security


def test_4_plain_on_a_tls_listener(visit: Visit) -> None:
    with secured(protocol="SSL") as (cluster, _):
        visit(cluster.bootstrap, status=1)
    assert visit.of("protocol") == (
        "failed",
        "It speaks TLS, and security.protocol=PLAINTEXT does not.",
        "Set security.protocol=SSL, or SASL_SSL with a log-in.",
    )


def test_tls_and_a_log_in_that_work(visit: Visit) -> None:
    with secured() as (cluster, security):
        visit(cluster.bootstrap, "--topic", "t", **security.client_options("alice", "SCRAM-SHA-256"))
    assert visit.of("log-in")[:2] == ("ok", "SCRAM-SHA-256 is accepted.")
    assert "the certificate is valid until" in visit.of("tls")[1]


def test_a_certificate_that_ends_soon(visit: Visit) -> None:
    security = Security(protocol="SSL")
    soon = security.authority.issue("broker", ["localhost", "127.0.0.1"], ends_days=3)
    with secured(protocol="SSL", authority=security.authority, identity=soon) as (cluster, security):
        visit(cluster.bootstrap, **security.client_options())
    status, found, advice = visit.of("tls")
    assert (status, advice) == ("warning", "Have it renewed.")
    assert "ends in 3.0 days" in found


def test_5_an_expired_certificate(visit: Visit) -> None:
    security = Security(protocol="SSL")
    expired = security.authority.issue("broker", ["localhost", "127.0.0.1"], begins_days=-9, ends_days=-2)
    with secured(protocol="SSL", authority=security.authority, identity=expired) as (cluster, security):
        visit(cluster.bootstrap, status=1, **security.client_options())
    status, found, advice = visit.of("tls")
    assert status == "failed"
    assert "expired" in found
    assert advice == "Have the broker's certificate renewed, or look at the clock of this machine."


def test_6_a_certificate_for_another_host(visit: Visit) -> None:
    security = Security(protocol="SSL")
    other = security.authority.issue("broker", ["kafka.example"])
    with secured(protocol="SSL", authority=security.authority, identity=other) as (cluster, security):
        visit(cluster.bootstrap, status=1, **security.client_options())
    status, found, _ = visit.of("tls")
    assert status == "failed"
    assert "is for another host" in found


def test_7_a_wrong_password(visit: Visit) -> None:
    with secured() as (cluster, security):
        options = security.client_options("alice", "SCRAM-SHA-256") | {"sasl_password": "another-secret"}
        visit(cluster.bootstrap, status=1, **options)
    status, found, advice = visit.of("log-in")
    assert status == "failed"
    assert "rejected the log-in of user 'alice' by SCRAM-SHA-256" in found
    assert "sasl.password" in advice


def test_8_a_mechanism_that_is_not_offered(visit: Visit) -> None:
    with secured(mechanisms=["SCRAM-SHA-512"]) as (cluster, security):
        options = security.client_options("alice", "SCRAM-SHA-512") | {"sasl_mechanism": "PLAIN"}
        visit(cluster.bootstrap, status=1, **options)
    status, found, _ = visit.of("log-in")
    assert status == "failed"
    assert "does not take sasl.mechanism=PLAIN; it takes SCRAM-SHA-512" in found


def test_9_an_advertised_listener_that_can_not_be_reached(plain: FakeClusterThread, visit: Visit) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        plain.call(plain.state.nodes.__setitem__, 1, ("127.0.0.1", port))
        visit(plain.bootstrap, status=1)
    status, found, advice = visit.of("advertised")
    assert status == "failed"
    assert f"127.0.0.1:{port}" in found
    assert "advertised.listeners" in advice


def test_10_no_right_to_write(visit: Visit) -> None:
    acls = [Acl("User:alice", "DESCRIBE", "topic", "t")]
    with secured(acls=acls) as (cluster, security):
        options = security.client_options("alice", "SCRAM-SHA-256")
        visit(cluster.bootstrap, "--topic", "t", "--transactional-id", "x", status=1, **options)
    status, found, advice = visit.of("write")
    assert (status, visit.of("describe")[0], visit.of("idempotent")[0]) == ("failed", "ok", "skipped")
    assert "TOPIC_AUTHORIZATION_FAILED" in found
    assert "WRITE on topic 't'" in advice
    assert visit.of("transactions")[0] == "failed"


def test_11_one_broker_of_three_is_down(visit: Visit) -> None:
    with running_fake_cluster(3, auto_create_topics_enable=False) as cluster:
        cluster.create_topic("t", partitions=3)
        servers = cluster.bootstrap
        cluster.call(cluster[3].kill)
        visit(servers)
    status, found, _ = visit.of("tcp")
    assert (status, visit.failed) == ("warning", [])
    assert "nothing listens on port" in found


@pytest.mark.parametrize("hours", [-1, 1])
def test_12_a_clock_that_is_off_by_an_hour(
    plain: FakeClusterThread, visit: Visit, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    monkeypatch.setattr(command, "wall_clock", lambda: time.time() + 3600 * hours)
    plain.call(plain.topics["t"].__setattr__, "config", {"message.timestamp.type": "LogAppendTime"})
    now_ms = round(time.time() * 1000)
    plain.fault(ProduceRequest, times=None, edit=lambda response: stamped(response, now_ms))
    visit(plain.bootstrap, "--topic", "t", status=1)
    status, found, advice = visit.of("clock")
    assert status == "failed"
    assert ("ahead of" if hours > 0 else "behind") in found
    assert "NTP" in advice
    plain.end_faults()


def stamped(response: Any, at_ms: int) -> Any:
    """The response of a broker that gives records its own time."""
    from dataclasses import replace

    def each(rows: Any) -> Any:
        return tuple(replace(row, log_append_time_ms=at_ms) for row in rows)

    topics = tuple(replace(topic, partition_responses=each(topic.partition_responses)) for topic in response.responses)
    return replace(response, responses=topics)


def test_a_time_that_brokers_reject(plain: FakeClusterThread, visit: Visit) -> None:
    plain.fault(ProduceRequest, error=ErrorCode.INVALID_TIMESTAMP)
    visit(plain.bootstrap, "--topic", "t", status=1)
    assert "too far from theirs" in visit.of("clock")[1]


# --- and more


def test_a_topic_that_does_not_exist(plain: FakeClusterThread, visit: Visit) -> None:
    visit(plain.bootstrap, "--topic", "other", status=1)
    assert visit.failed == ["describe"]
    assert visit.of("write")[:2] == ("skipped", "The topic can't be described.")


def test_a_name_that_there_is_not(visit: Visit) -> None:
    visit("no-such-host.invalid:9092", status=1)
    status, found, _ = visit.of("name")
    assert status == "failed"
    assert "'no-such-host.invalid' can't be looked up" in found


async def test_an_address_that_drops_packets() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        while True:
            # Until the queue of the server, which accepts none, is full.
            client = waiting.enter_context(socket.socket())
            client.settimeout(0.2)
            try:
                client.connect(full.getsockname())
            except TimeoutError:
                break
        with pytest.raises(TimeoutError):
            await listener_at(full.getsockname(), 0.05)


def test_a_partition_without_a_leader(plain: FakeClusterThread, visit: Visit) -> None:
    plain.call(setattr, plain.topics["t"].partitions[0], "leader", None)
    visit(plain.bootstrap)
    assert visit.of("partitions")[:2] == ("warning", "1 have no leader, such as t-0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "No broker is given."),
        (["a:b"], "'a:b'"),
        (["localhost:1", "--timeout", "0"], "'0' is not a time in seconds"),
        (["localhost:1", "-X", "nonsense=1"], "'nonsense' is not a setting."),
    ],
)
def test_invalid_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("replicas", "in_sync", "advice"),
    [
        ([1, 2, 3], [1], "Start broker 3, which is down."),
        ([1, 2], [1], "Look at the log of broker 2, whose replica is not in sync."),
        ([1], [1], "Give the topic more replicas, or a lower min.insync.replicas."),
    ],
)
def test_a_topic_below_min_insync_replicas(replicas: list[int], in_sync: list[int], advice: str) -> None:
    """A write alone takes seconds, and ends with the name of an error code."""
    nodes = {1: Node(1, "a", 1), 2: Node(2, "b", 1), 3: Node(3, "", -1)}
    starved = PartitionInfo("t", 0, nodes[1], tuple(nodes[i] for i in replicas), tuple(nodes[i] for i in in_sync))
    healthy = PartitionInfo("t", 1, nodes[1], (nodes[1], nodes[2]), (nodes[1], nodes[2]))
    shown: list[Finding] = []
    _check_in_sync(Findings(shown.append), "t", [starved, healthy], 2)
    assert [(one.status, one.advice) for one in shown] == [("failed", advice)]
    assert f"t-0 has 1 of {len(replicas)} replicas in sync, and min.insync.replicas=2 requires 2" in shown[0].found
    _check_in_sync(Findings(shown.append), "t", [healthy], 2)
    assert len(shown) == 1
