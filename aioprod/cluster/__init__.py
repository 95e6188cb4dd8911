"""Cluster metadata: an immutable snapshot, and the schedule of its refreshes."""

from __future__ import annotations

from aioprod.cluster.metadata import Metadata, MetadataUpdate
from aioprod.cluster.model import Cluster, Node, PartitionInfo
from aioprod.cluster.names import topic_name_error

__all__ = ["Cluster", "Metadata", "MetadataUpdate", "Node", "PartitionInfo", "topic_name_error"]
