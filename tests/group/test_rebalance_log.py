"""What a member logs of rebalances."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Literal

import pytest

from aioprod import Member, TopicPartition
from aioprod._log_rate_limit import LINES_MAX, WINDOW_S
from aioprod.errors import ErrorCode
from aioprod.group.member_log import MemberLog
from aioprod.group.rebalance_log import RebalanceLog, partitions_in_words
from aioprod.messages import JoinGroupRequest, LeaveGroupRequest
from aioprod.testing import FakeCluster

LOGGER = "aioprod.group"


def test_partitions_are_named_by_topic() -> None:
    some = [TopicPartition("b", 3), TopicPartition("a", 2), TopicPartition("a", 0)]
    assert partitions_in_words(some) == "a [0, 2], b [3]"
    many = [TopicPartition("a", index) for index in range(50)]
    assert partitions_in_words(many).endswith("18, 19] and 30 more")
    assert partitions_in_words([]) == ""


def test_lines_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)
    now = 0.0
    log = RebalanceLog(MemberLog("g", ""), lambda: now)
    for index in range(LINES_MAX + 5):
        log.revoked([TopicPartition("a", index)], is_lost=False)
    assert len(caplog.messages) == LINES_MAX
    now = WINDOW_S
    log.assigned([TopicPartition("a", 0)], 1)
    assert caplog.messages[-2:] == [
        "Member of group 'g' has logged 5 more lines about rebalances as DEBUG only",
        "Member of group 'g' is assigned a [0], and owns 1",
    ]


def test_lost_partitions_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    RebalanceLog(MemberLog("g", ""), lambda: 0.0).revoked([TopicPartition("a", 1)], is_lost=True)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "Member of group 'g' has lost a [1]: another member may own them already"


def test_a_line_names_the_client_and_has_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)
    log = RebalanceLog(MemberLog("g%d", "till-1"), lambda: 0.0)
    a1, a2, b0 = TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)
    log.assigned([a1], 1)
    log.assigned([a2, a1], 3)
    log.revoked([a1, b0], is_lost=False)
    names = ("group", "client_id", "topic", "partition")
    one, topic, several = ({name: vars(line)[name] for name in names if name in vars(line)} for line in caplog.records)
    assert several == {"group": "g%d", "client_id": "till-1"}
    assert topic == several | {"topic": "a"}
    assert one == topic | {"partition": 1}
    assert caplog.messages[0] == "Member 'till-1' of group 'g%d' is assigned a [1], and owns 1"
    assert {line.funcName for line in caplog.records} == {"_say"}


def test_nothing_new_is_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    RebalanceLog(MemberLog("g", ""), lambda: 0.0).assigned([], 2)
    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == (
        "DEBUG",
        "Member of group 'g' is assigned nothing new, and owns 2",
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_logs_its_assignment_and_nothing_while_it_reads(
    protocol: Literal["classic", "consumer"], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)
    async with FakeCluster() as brokers:
        brokers.create_topic("a", partitions=2)
        assigned = asyncio.Event()
        async with Member(
            brokers.bootstrap,
            group_id="g",
            topics=["a"],
            group_protocol=protocol,
            on_assigned=lambda partitions: assigned.set(),
        ):
            async with asyncio.timeout(30):
                await assigned.wait()
    told = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert "Member of group 'g' is assigned a [0, 1], and owns 2" in told
    assert "Member of group 'g' has revoked a [0, 1]" in told
    assert len(told) == 4
    assert told[0].startswith("Member of group 'g' is connected to cluster fake-cluster: 1 broker, group.protocol=")
    assert re.fullmatch(r"Member of group 'g' is closed after .+: 0 records returned, 0 commits, 0 failed", told[-1])


async def test_what_ends_without_leaving_its_group_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("a")
        assigned = asyncio.Event()
        member = Member(brokers.bootstrap, group_id="g", topics="a", on_assigned=lambda partitions: assigned.set())
        async with member, asyncio.timeout(30):
            await assigned.wait()
            brokers.fault(LeaveGroupRequest, hold=True)
            await member.close(timeout=0.1)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert line == "Member of group 'g' has ended without leaving it: its partitions wait for session.timeout.ms"


async def test_what_ends_a_member_is_logged_for_a_program_that_does_not_poll(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("a")
        brokers.fault(JoinGroupRequest, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, times=None)
        async with Member(brokers.bootstrap, group_id="g", topics="a"), asyncio.timeout(30):
            while not caplog.records:
                await asyncio.sleep(0.01)
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.getMessage().startswith("Member of group 'g' has failed, and returns no more records: A member of")
