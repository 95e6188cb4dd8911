"""Kafka brokers inside a test, in its event loop: what `FakeCluster` is made of."""

from __future__ import annotations

from aioprod.testing.fake.broker import FakeBroker
from aioprod.testing.fake.cluster import FakeCluster
from aioprod.testing.fake.faults import Fault, Seen
from aioprod.testing.fake.state.cluster_state import FakeState
from aioprod.testing.fake.state.log import FakePartition, StoredBatch
from aioprod.testing.fake.state.topics import FakeTopic

__all__ = ["FakeBroker", "FakeCluster", "FakePartition", "FakeState", "FakeTopic", "Fault", "Seen", "StoredBatch"]
