"""The short form of `make chaos`: three real brokers, a few faults of each mode, and all records read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from integration.chaos.brokers import PROPERTIES
from integration.chaos.faults import FROZEN_ONCE_S
from integration.chaos.modes import MAIN, MODES, SOLO
from integration.chaos.run import Options, Run, chaos, run
from integration.support.figures import Figures
from tests.support.length import by_length

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NORMAL = ("connections cut mid-frame", "leader killed", "leaders moved by reassignment", "rolling restart")[
    : by_length(2, 4)
]


@pytest.fixture(scope="module")
def proxied_cluster_3() -> Iterator[KafkaCluster]:
    """Three brokers, each behind a proxy."""
    with running_cluster(3, proxied=True, **PROPERTIES) as cluster:
        yield cluster


async def judged(cluster: KafkaCluster, figures: Figures, mode: str, *faults: str) -> dict[str, Any]:
    """The figures of a run in which each fault happened once; no record may have had a bad end."""
    found = await chaos(cluster, Options(mode=mode, kafka=cluster.version, minutes=0.0, faults=faults), print)
    for topic in (MAIN, SOLO):
        await cluster.delete_topic(topic)
    return without_flaws(found, figures, mode)


def without_flaws(found: Run, figures: Figures, mode: str) -> dict[str, Any]:
    assert found.figures["flaws"] == {}, found.figures
    figures.add(f"records in chaos, {mode}: no loss, no duplicate, in order", found.figures["sent"])
    for topic, seconds in found.figures["stall_s"].items():
        figures.add(f"s a healthy partition of {topic} stood still in chaos, {mode}", f"{seconds:.2f}")
    return found.figures


async def test_faults_within_the_delivery_deadline(proxied_cluster_3: KafkaCluster, figures: Figures) -> None:
    found = await judged(proxied_cluster_3, figures, "normal", *NORMAL)
    assert found["told"] == {"delivered": found["sent"]}


@pytest.mark.long
async def test_faults_while_log_ins_end(figures: Figures) -> None:
    """Over SASL_SSL, by sessions of three seconds."""
    options = Options(minutes=1.0, faults=NORMAL, mechanism="SCRAM-SHA-512")
    found = without_flaws(await run(options, print), figures, "SASL_SSL")
    assert found["told"] == {"delivered": found["sent"]}


@pytest.mark.long
async def test_batches_expire_in_every_state(proxied_cluster_3: KafkaCluster, figures: Figures) -> None:
    found = await judged(proxied_cluster_3, figures, "hard", "two of three frozen")
    assert found["told"].keys() >= {"delivered", "not sent", "unknown"}
    resolved = found["resolved"]
    assert resolved["stored"] + resolved["absent"] == found["told"]["unknown"], "a later record decided about each"
    figures.add("s from an unknown outcome to its answer in chaos, p99", resolved["p99_s"])


@pytest.mark.long
async def test_one_broker_frozen_until_all_has_expired(proxied_cluster_3: KafkaCluster, figures: Figures) -> None:
    found = await judged(proxied_cluster_3, figures, "frozen", "one frozen")
    case = found["frozen"]
    assert case["stuck"] > 0
    assert case["stuck_not_sent"] + case["stuck_unknown"] == case["stuck"]
    # It takes some batches before nothing leaves any more; after that nothing can be in doubt.
    assert case["unknown_until_s"] < MODES["frozen"].deadline_s / 2
    assert case["after_thaw"] > 0
    assert case["failed_after_thaw"] == 0
    assert found["stall_s"][SOLO] < FROZEN_ONCE_S / 2
