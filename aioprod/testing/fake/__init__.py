"""Fake Kafka brokers that run in the test's event loop: `FakeCluster` and the objects that tests look into.

`broker.py` has the sockets, `handlers/` answers the requests, `state/` keeps what the brokers of a cluster share, and
`faults.py` says what goes wrong.
"""

from __future__ import annotations

from aioprod.testing.fake.broker import FakeBroker
from aioprod.testing.fake.cluster import FakeCluster
from aioprod.testing.fake.faults import Fault, Seen
from aioprod.testing.fake.state.cluster_state import FakeState
from aioprod.testing.fake.state.log import FakePartition, StoredBatch
from aioprod.testing.fake.state.topics import FakeTopic

__all__ = ["FakeBroker", "FakeCluster", "FakePartition", "FakeState", "FakeTopic", "Fault", "Seen", "StoredBatch"]
