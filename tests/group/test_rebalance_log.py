"""What a member logs of rebalances."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

import pytest

from aioprod import Member, TopicPartition
from aioprod._log_rate_limit import LINES_MAX, WINDOW_S
from aioprod.group.rebalance_log import RebalanceLog, partitions_in_words
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
    log = RebalanceLog("g", lambda: now)
    for index in range(LINES_MAX + 5):
        log.revoked([TopicPartition("a", index)], is_lost=False)
    assert len(caplog.messages) == LINES_MAX
    now = WINDOW_S
    log.assigned([TopicPartition("a", 0)], 1)
    assert caplog.messages[-2:] == [
        "5 more lines about rebalances of group 'g' are logged as DEBUG only",
        "Member of group 'g' is assigned a [0], and owns 1",
    ]


def test_lost_partitions_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    RebalanceLog("g", lambda: 0.0).revoked([TopicPartition("a", 1)], is_lost=True)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "Member of group 'g' has lost a [1]: another member may own them already"


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
    assert len(told) == 2
