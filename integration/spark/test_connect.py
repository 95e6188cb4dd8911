"""A session over Spark Connect: the driver is another process, and sink, source and co-partitioning work as before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aioprod.testing import KafkaCluster
from integration.spark.pipelines import check_pipeline


@pytest.mark.timeout(600)
def test_a_connect_session(kafka: KafkaCluster, tmp_path: Path) -> None:
    told = check_pipeline([sys.executable], "connect", kafka, tmp_path)
    assert told["stream"] == "format"
