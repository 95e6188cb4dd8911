"""The fake cluster by its old name."""

from __future__ import annotations

from aioprod.testing.fake import FakeBroker, Fault, Seen
from aioprod.testing.fake import FakeCluster as FakeBrokers
from aioprod.testing.fake.broker import ACCEPT_TURNS

__all__ = ["ACCEPT_TURNS", "FakeBroker", "FakeBrokers", "Fault", "Seen"]
