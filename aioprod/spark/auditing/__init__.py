"""`audit`: whether all that a load has promised is in a topic, once, where it should be, and in order."""

from __future__ import annotations

from aioprod.spark.auditing.job import audit
from aioprod.spark.auditing.report import AuditReport, Finding, PartitionAudit

__all__ = ["AuditReport", "Finding", "PartitionAudit", "audit"]
