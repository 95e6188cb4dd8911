"""`load`: a bulk load or backfill of a data frame into a topic, each of its chunks exactly once, resumable."""

from __future__ import annotations

from aioprod.spark.loading.dry import DryRun
from aioprod.spark.loading.job import load
from aioprod.spark.loading.report import LoadReport

__all__ = ["DryRun", "LoadReport", "load"]
