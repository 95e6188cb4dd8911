"""What the cluster says of itself: its brokers, each as it is reached from here, its controller and its partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from aioprod._words import rate_of
from aioprod.admin import Admin
from aioprod.cli.doctor.findings import Findings
from aioprod.cli.doctor.servers import check_network, limited
from aioprod.cluster import Node
from aioprod.config import ProducerConfig, SessionConfig
from aioprod.errors import AioprodError
from aioprod.net.settings import Address

__all__ = ["check_cluster", "check_distance"]

_TRIES: Final = 5
"""The fastest of so many answers is the round trip: the others waited for something else."""

_ADVERTISED: Final = (
    "This is the address in advertised.listeners: it must be one that can be reached from here. It is "
    "often the name inside of a container or of a private network. Or the broker has gone down a moment ago."
)


async def check_cluster(
    findings: Findings, config: SessionConfig, servers: list[Address], dead: list[Address], timeout_s: float
) -> list[Node]:
    """Look at the brokers, the controller and the partitions; returns the brokers that can be reached.

    Of the addresses that were given `dead` ones failed.
    """
    try:
        async with asyncio.timeout(3 * timeout_s), Admin(config=limited(config, servers, timeout_s)) as admin:
            cluster = await admin.describe_cluster()
            named = ", ".join(f"{node.id} at {node.address}" for node in cluster.nodes)
            findings.add("brokers", "cluster", "ok", f"Cluster {cluster.cluster_id} has {named}.")
            if cluster.controller is None:
                advice = "Topics can't be created or changed meanwhile; look at the controllers' logs."
                findings.add("controller", "cluster", "warning", "There is no controller at the moment.", advice)
            else:
                findings.add(
                    "controller",
                    "cluster",
                    "ok",
                    f"Broker {cluster.controller.id} is the controller, or forwards to it.",
                )
            await _check_partitions(findings, admin, cluster.nodes)
    except (AioprodError, TimeoutError, OSError) as error:
        findings.fail("brokers", "cluster", error)
        return []
    reached: list[Node] = []
    for node in cluster.nodes:
        if (node.host, node.port) in dead:
            # Where it was looked for first: what the cluster advertises is right, and until its session ends a broker
            # that has gone down is still named.
            found = f"The cluster takes broker {node.id} for alive, and {node.address} does not work: see above."
            findings.add("brokers", "cluster", "warning", found, "Look whether it has just gone down.")
        elif (node.host, node.port) in servers or await _check_broker(findings, config, node, timeout_s):
            reached.append(node)
    return reached


async def check_distance(
    findings: Findings, producer: ProducerConfig, config: SessionConfig, nodes: Sequence[Node], timeout_s: float
) -> None:
    """How long an answer of each broker takes, and what a partition carries in that time by a producer's settings."""
    for node in nodes:
        subject = f"broker {node.id}"
        limits = limited(config, [(node.host, node.port)], timeout_s)
        times: list[float] = []
        try:
            async with asyncio.timeout(3 * timeout_s), Admin(config=limits) as admin:
                for _ in range(_TRIES):
                    start = time.perf_counter()
                    await admin.describe_cluster()
                    times.append(time.perf_counter() - start)
        except (AioprodError, TimeoutError, OSError) as error:
            findings.fail("distance", subject, error)
            continue
        findings.add("distance", subject, "ok", _allowed(producer, min(times)))


def _allowed(producer: ProducerConfig, seconds: float) -> str:
    if not producer.batch_size or not producer.acks:
        return f"The round trip takes {seconds * 1000:.1f} ms."
    most = rate_of(producer.max_in_flight_requests_per_connection, producer.batch_size_max, seconds)
    return f"The round trip lets a partition carry {most} at most."


async def _check_broker(findings: Findings, config: SessionConfig, node: Node, timeout_s: float) -> bool:
    """Whether a broker can be reached at the address that the cluster advertises for it."""
    subject = f"broker {node.id}"
    with findings.held() as found:
        is_reached = await check_network(findings, (node.host, node.port), timeout_s)
    if not is_reached:
        reason = next((one.found for one in found if one.status in ("failed", "warning")), "It can't be reached.")
        findings.add("advertised", subject, "failed", f"{node.address}: {reason}", _ADVERTISED)
        return False
    try:
        limits = limited(config, [(node.host, node.port)], timeout_s)
        async with asyncio.timeout(2 * timeout_s), Admin(config=limits):
            findings.add("advertised", subject, "ok", f"It answers at {node.address}, as the cluster advertises it.")
            return True
    except (AioprodError, TimeoutError, OSError) as error:
        findings.fail("advertised", subject, error, _ADVERTISED)
        return False


async def _check_partitions(findings: Findings, admin: Admin, nodes: Sequence[Node]) -> None:
    """Whether all partitions that this client may see have leaders and all of their replicas."""
    up = {node.id for node in nodes}
    topics = await admin.describe_topics(internal=True)
    leaderless: list[str] = []
    behind: list[str] = []
    missing: set[int] = set()
    for topic, partitions in topics.items():
        for info in partitions:
            name = f"{topic}-{info.partition}"
            missing |= {node.id for node in info.replicas} - up
            missing |= {node.id for node in info.offline_replicas}
            if info.leader is None:
                leaderless.append(name)
            elif len(info.in_sync_replicas) < len(info.replicas):
                behind.append(name)
    if missing:
        named = ", ".join(map(str, sorted(missing)))
        advice = "Start it; until then its partitions have fewer replicas, and min.insync.replicas may stop writes."
        found = f"{named} {'is' if len(missing) == 1 else 'are'} down: {len(up)} of {len(up | missing)} brokers are up."
        findings.add("brokers", "cluster", "warning", f"Broker {found}", advice)
    if leaderless:
        found = f"{len(leaderless)} have no leader, such as {leaderless[0]}."
        findings.add("partitions", "cluster", "warning", found, "Records for them wait until a replica is back.")
    if behind:
        found = f"{len(behind)} have replicas that are not in sync, such as {behind[0]}."
        findings.add("partitions", "cluster", "warning", found, "Brokers are down or slow: look at their logs.")
    if not leaderless and not behind:
        findings.add("partitions", "cluster", "ok", f"All topics seen here ({len(topics)}) have leaders and replicas.")
