"""`aioprod topics`, `groups`, `configs` and `offsets`, with fake brokers."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from aioprod import Member, Producer
from aioprod.cli.__main__ import main
from aioprod.errors import ErrorCode
from aioprod.messages import DescribeLogDirsRequest
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from tests.support.programs import program


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(2, auto_create_topics_enable=False) as cluster:
        cluster.create_topic("orders", partitions=2, retention_ms=5)
        yield cluster


USAGE = 2


class Shell:
    """Runs commands against a cluster, and keeps what they say."""

    def __init__(self, cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster = cluster
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str, status: int = 0) -> str:
        if status == USAGE:
            with pytest.raises(SystemExit) as raised:
                main([*arguments, "-b", self._cluster.bootstrap])
            ended = raised.value.code
        else:
            ended = main([*arguments, "-b", self._cluster.bootstrap])
        self.out, self.err = self._capsys.readouterr()
        assert ended == status, self.err
        return self.out

    def document(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def shell(cluster: FakeClusterThread, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cluster, capsys)


def send(cluster: FakeClusterThread, count: int) -> None:
    async def inside() -> None:
        async with Producer(cluster.bootstrap) as producer:
            for index in range(count):
                await producer.send("orders", b"v", partition=0, timestamp=1000 + index)

    asyncio.run(inside())


# --- topics


def test_topics_are_listed(shell: Shell) -> None:
    assert shell.document("topics", "list") == [{"topic": "orders", "partitions": 2}]
    assert "orders           2" in shell("topics", "list")


def test_a_topic_is_described(cluster: FakeClusterThread, shell: Shell) -> None:
    send(cluster, 3)
    (topic,) = shell.document("topics", "describe", "orders")
    first = topic["partitions"][0]
    assert (first["partition"], first["state"], first["offline"]) == (0, "ok", [])
    assert first["leader"] in first["isr"]
    assert first["bytes"] > 100
    text = shell("topics", "describe")
    assert text.startswith("Topic orders.\n  partition  leader  replicas  in sync  bytes  state\n")


def test_sizes_need_a_right_and_the_rest_does_not(cluster: FakeClusterThread, shell: Shell) -> None:
    cluster.fault(DescribeLogDirsRequest, times=None, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    (topic,) = shell.document("topics", "describe", "orders")
    assert topic["partitions"][0]["bytes"] is None
    cluster.end_faults()


def test_a_partition_without_a_leader_is_marked(cluster: FakeClusterThread, shell: Shell) -> None:
    cluster.call(setattr, cluster.topics["orders"].partitions[1], "leader", None)
    assert "1 of 2 partitions are not as they should be." in shell("topics", "describe", "orders")


def test_a_topic_lives_and_dies(cluster: FakeClusterThread, shell: Shell) -> None:
    created = shell("topics", "create", "clicks", "--partitions", "3", "--config", "retention.ms=7")
    assert created == "Topic 'clicks' is created.\n"
    assert cluster.topics["clicks"].config == {"retention.ms": "7"}
    shell("topics", "create", "clicks", status=1)
    assert "already exists" in shell.err
    assert shell.document("topics", "create", "clicks", "--if-not-exists") == {"topic": "clicks", "created": False}
    assert "From 3 to 6 partitions, 50.0 % of keys move" in shell(
        "topics", "grow", "clicks", "--partitions", "6", "--dry-run"
    )
    assert len(cluster.topics["clicks"].partitions) == 3
    shell("topics", "grow", "clicks", "--partitions", "6", status=1)
    assert "To give topic 'clicks' 6 partitions needs a yes.\nAdd --yes" in shell.err
    assert shell("topics", "grow", "clicks", "--partitions", "6", "--yes") == "Topic 'clicks' has 6 partitions.\n"
    assert len(cluster.topics["clicks"].partitions) == 6
    shell("topics", "delete", "clicks", status=1)
    assert "clicks" in cluster.topics
    assert shell("topics", "delete", "clicks", "nothing", "--if-exists", "--yes") == "Deleted: clicks.\n"
    assert "clicks" not in cluster.topics


class Terminal(io.StringIO):
    """What is typed on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "is_deleted"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_terminal_is_asked(
    cluster: FakeClusterThread, shell: Shell, monkeypatch: pytest.MonkeyPatch, typed: str, is_deleted: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    shell("topics", "delete", "orders", status=0 if is_deleted else 1)
    assert "To delete orders with all records [y/N]" in shell.err
    assert ("orders" not in cluster.topics) == is_deleted


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "describe", "order"],
        ["topics", "delete", "order", "--yes"],
        ["topics", "grow", "order", "--partitions", "3"],
        ["offsets", "order"],
    ],
)
def test_a_topic_that_does_not_exist(shell: Shell, arguments: list[str]) -> None:
    shell(*arguments, status=1)
    assert "Topic 'order' does not exist.\nDid you mean orders?" in shell.err


def test_arguments_that_are_wrong(shell: Shell) -> None:
    for arguments in (["topics"], ["topics", "nonsense"], ["groups", "lag", "g", "--every", "0"], ["configs", "alter"]):
        shell(*arguments, status=2)
        assert shell.err.startswith(f"aioprod {arguments[0]}")
        assert len(shell.err.splitlines()) == 1


# --- offsets and settings


def test_offsets_at_a_time(cluster: FakeClusterThread, shell: Shell) -> None:
    send(cluster, 5)
    found = {
        at: shell.document("offsets", "orders", "--at", at)["partitions"][0]["offset"] for at in ("earliest", "1003")
    }
    assert found == {"earliest": 0, "1003": 3}
    assert "Topic orders. Offsets at latest." in shell("offsets", "orders")


def test_settings_are_described_and_changed(cluster: FakeClusterThread, shell: Shell) -> None:
    (changed,) = shell.document("configs", "describe", "topic", "orders")
    assert (changed["name"], changed["value"], changed["source"]) == ("retention.ms", "5", "dynamic_topic")
    assert len(shell.document("configs", "describe", "topic", "orders", "--all")) > 5
    assert "more are at their defaults (--all)." in shell("configs", "describe", "topic", "orders")
    assert shell.document("configs", "describe", "broker", "2")
    shell("configs", "alter", "topic", "orders", "--set", "segment.bytes=9", "--dry-run")
    assert "segment.bytes" not in cluster.topics["orders"].config
    said = shell("configs", "alter", "topic", "orders", "--set", "segment.bytes=9", "--reset", "retention.ms")
    assert said == "The settings of topic 'orders' are changed.\n"
    assert cluster.topics["orders"].config == {"segment.bytes": "9"}
    shell("configs", "alter", "topic", "orders", "--set", "segment=9", status=1)
    assert "Unknown topic config name: segment" in shell.err
    shell("configs", "alter", "topic", "orders", status=1)
    assert "Nothing is to be changed." in shell.err


# --- groups


def commit(cluster: FakeClusterThread) -> None:
    async def inside() -> None:
        async with Member(
            cluster.bootstrap, group_id="g", topics=["orders"], client_id="worker", auto_offset_reset="earliest"
        ) as member:
            async with asyncio.timeout(30):
                for _ in range(2):
                    await anext(member)
            await member.commit()

    asyncio.run(inside())


def test_groups_their_members_and_their_lag(cluster: FakeClusterThread, shell: Shell) -> None:
    send(cluster, 5)
    commit(cluster)
    assert shell.document("groups", "list") == [
        {"group": "g", "state": "Empty", "type": "classic", "protocol_type": "consumer"}
    ]
    (group,) = shell.document("groups", "describe", "g")
    assert (group["state"], group["members"]) == ("Empty", [])
    assert "Group g. Empty, classic protocol" in shell("groups", "describe", "g")
    lag = shell.document("groups", "lag", "g")
    assert lag["total"] == 3
    assert {"topic": "orders", "partition": 0, "committed": 2, "lag": 3} in lag["partitions"]
    assert "3 offsets behind in all." in shell("groups", "lag", "g")
    shell("groups", "lag", "other", status=1)
    assert "Group 'other' does not exist." in shell.err
    shell("groups", "describe", "other", status=1)


def committed(shell: Shell) -> dict[int, int]:
    return {row["partition"]: row["committed"] for row in shell.document("groups", "lag", "g")["partitions"]}


@pytest.mark.parametrize(
    ("place", "after"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 5, 1: 0}),
        (["--to-time", "1003"], {0: 3, 1: 0}),
        (["--to-offset", "0"], {0: 0, 1: 0}),
        (["--to-offset", "4", "--topic", "orders:0"], {0: 4, 1: 0}),
        (["--shift", "-1", "--topic", "orders:0"], {0: 1, 1: 0}),
        (["--to-latest", "--topic", "orders"], {0: 5, 1: 0}),
    ],
)
def test_offsets_of_a_group_are_reset(
    cluster: FakeClusterThread, shell: Shell, place: list[str], after: dict[int, int]
) -> None:
    send(cluster, 5)
    commit(cluster)
    before = committed(shell)
    assert before == {0: 2, 1: 0}
    planned = shell.document("groups", "reset", "g", *place, "--dry-run")
    assert (planned["group"], planned["reset"]) == ("g", False)
    for row in planned["partitions"]:
        assert row == {
            "topic": "orders",
            "partition": row["partition"],
            "before": before[row["partition"]],
            "after": after[row["partition"]],
        }
    assert "Group g. Nothing was committed.\n  topic   partition  before  after\n" in shell(
        "groups", "reset", "g", *place, "--dry-run"
    )
    shell("groups", "reset", "g", *place, status=1)
    assert "Where its offsets would go:" in shell.err
    assert f"To reset {len(planned['partitions'])} offset" in shell.err
    assert "needs a yes.\nAdd --yes" in shell.err
    assert committed(shell) == before
    assert "Group g. Its offsets are reset." in shell("groups", "reset", "g", *place, "--yes")
    assert committed(shell) == after


def test_offsets_of_a_group_are_deleted(cluster: FakeClusterThread, shell: Shell) -> None:
    send(cluster, 5)
    commit(cluster)
    row = {"topic": "orders", "partition": 0, "committed": 2}
    asked = ("groups", "delete-offsets", "g", "--topic", "orders:0")
    assert shell.document(*asked, "--dry-run") == {"group": "g", "partitions": [row], "deleted": False}
    assert "Group g. Nothing was deleted." in shell(*asked, "--dry-run")
    shell(*asked, status=1)
    assert "To delete 1 offset of group 'g' needs a yes." in shell.err
    assert committed(shell) == {0: 2, 1: 0}
    assert shell(*asked, "--yes") == "Deleted: 1 offset of group 'g'.\n"
    assert committed(shell) == {1: 0}
    for missing, place in (("orders:0", "orders-0"), ("order", "topic 'order'")):
        shell("groups", "delete-offsets", "g", "--topic", missing, "--yes", status=1)
        assert f"Group 'g' has committed nothing for {place}.\nIt has committed for orders." in shell.err
    assert shell.document("groups", "delete-offsets", "g", "--topic", "orders", "--yes")["deleted"]
    shell("groups", "delete-offsets", "g", "--topic", "orders", "--yes", status=1)
    assert "It has committed for nothing." in shell.err


def test_groups_are_deleted(cluster: FakeClusterThread, shell: Shell) -> None:
    send(cluster, 5)
    commit(cluster)
    groups = [{"group": "g", "offsets": 2}]
    assert shell.document("groups", "delete", "g", "g", "--dry-run") == {"groups": groups, "deleted": False}
    assert "Groups. Nothing was deleted." in shell("groups", "delete", "g", "--dry-run")
    shell("groups", "delete", "g", status=1)
    assert "To delete g with all that they have committed needs a yes." in shell.err
    shell("groups", "delete", "g", "other", "--yes", status=1)
    assert "Group 'other' does not exist." in shell.err
    assert shell("groups", "delete", "g", "other", "--if-exists", "--yes") == "Deleted: g.\n"
    assert shell.document("groups", "list") == []
    assert shell("groups", "delete", "g", "--if-exists", "--yes") == "Deleted: nothing.\n"


def test_a_group_in_use_is_left_alone(cluster: FakeClusterThread, shell: Shell) -> None:
    send(cluster, 5)
    commit(cluster)
    arguments = ["read", "orders", "--group", "g", "-b", cluster.bootstrap, "--follow"]
    with program(*arguments) as running:
        while [group["state"] for group in shell.document("groups", "list")] != ["Stable"]:
            assert running.poll() is None
        for action in (
            ["reset", "g", "--to-earliest"],
            ["delete-offsets", "g", "--topic", "orders"],
            ["delete", "g"],
        ):
            for options in (["--dry-run"], ["--yes"], []):
                shell("groups", *action, *options, status=1)
                assert shell.err.startswith("aioprod groups: Nothing was ")
                assert "Close its members first" in shell.err
                assert shell.out == ""
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)


@pytest.mark.parametrize(("typed", "is_done"), [("y\n", True), ("n\n", False)])
def test_changes_of_groups_are_asked_for(
    cluster: FakeClusterThread, shell: Shell, monkeypatch: pytest.MonkeyPatch, typed: str, is_done: bool
) -> None:
    send(cluster, 5)
    commit(cluster)
    for action, done in (
        (["reset", "g", "--to-earliest"], {0: 0, 1: 0}),
        (["delete-offsets", "g", "--topic", "orders:1"], {0: 0}),
        (["delete", "g"], {}),
    ):
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        shell("groups", *action, status=0 if is_done else 1)
        assert "[y/N]" in shell.err
        assert ("Nothing was " in shell.err) == (not is_done)
        if is_done and done:
            assert committed(shell) == done
    assert (shell.document("groups", "list") == []) == is_done


def test_wrong_arguments_for_changes_of_groups(shell: Shell) -> None:
    for arguments, said in (
        (["reset", "g"], "one of the arguments"),
        (["reset", "g", "--to-latest", "--shift", "1"], "not allowed with"),
        (["reset", "g", "--to-offset", "-1"], "'-1' is not an offset"),
        (["reset", "g", "--to-offset", "x"], "'x' is not an offset, a whole number from 0 on"),
        (["reset", "g", "--to-latest", "--topic", "orders:x"], "'orders:x' is no topic with partitions"),
        (["reset", "g", "--to-latest", "--topic", ""], "'' is no topic"),
        (["delete-offsets", "g"], "--topic"),
        (["delete"], "GROUP"),
    ):
        shell("groups", *arguments, status=USAGE)
        assert re.search(said, shell.err)
        assert len(shell.err.splitlines()) == 1


def test_lag_is_watched_until_ctrl_c(cluster: FakeClusterThread) -> None:
    send(cluster, 5)
    commit(cluster)
    arguments = ["groups", "lag", "g", "--watch", "--every", "0.1", "--json", "-b", cluster.bootstrap]
    with program(*arguments) as running:
        assert running.stdout is not None
        assert [json.loads(running.stdout.readline())["total"] for _ in range(2)] == [3, 3]
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, b"aioprod groups: interrupted\n")


def test_a_cluster_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            ["topics", "list", "-b", "127.0.0.1:1", "-X", "default.api.timeout.ms=200", "-X", "request.timeout.ms=100"]
        )
        == 1
    )
    assert "127.0.0.1:1" in capsys.readouterr().err
