"""A session over Spark Connect: the driver is another process, and sink, source and co-partitioning work as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioprod.testing import KafkaCluster
from integration.spark.environments import python_with_connect
from integration.spark.pipelines import check_pipeline


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_connect_session(kafka: KafkaCluster, tmp_path: Path) -> None:
    told = check_pipeline([python_with_connect()], "connect", kafka, tmp_path)
    assert told["stream"] == "format"
