"""What brokers do to a group at random: the coordinator moves, brokers are killed, requests are lost or fail."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import (
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from aioprod.testing import FakeCluster
from aioprod.wire.schema import AnyRequest

__all__ = ["GROUP_REQUESTS", "break_something"]

GROUP_REQUESTS: Final[tuple[type[AnyRequest], ...]] = (
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)


async def break_something(
    cluster: FakeCluster,
    random: Random,
    requests: Sequence[type[AnyRequest]] = GROUP_REQUESTS,
    others: Sequence[type[AnyRequest]] = (),
) -> str:
    """Do one thing to group "g"; returns what. `requests` of a coordinator are lost or fail, `others` are lost."""
    what = random.choice(["move", "kill", "restart", "drop", "drop", "error"])
    up = sorted(cluster.state.nodes)
    if what == "move":
        cluster.move_coordinator("g", random.choice(up))
    elif what == "kill" and len(up) > 1:
        cluster.state.coordinators.clear()
        await cluster.kill(random.choice(up))
    elif what == "restart":
        await cluster.restart(random.choice(sorted(cluster.brokers)))
    elif what == "drop":
        kind = random.choice([*requests, *others])
        cluster.fault(kind, drop=random.choice(["before", "after"]), times=random.randint(1, 3))
    else:
        errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
        cluster.fault(random.choice(requests), error=random.choice(errors), times=random.randint(1, 3))
    return what
