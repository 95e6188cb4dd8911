"""Each PySpark that aioprod supports writes, reads and places rows; the session of the other tests is the newest.

`AIOPROD_PYSPARK` names the versions to try, `4.0,4.1,4.2`; without it the oldest one is.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aioprod.testing import KafkaCluster
from integration.spark.environments import python_with
from integration.spark.pipelines import check_pipeline

VERSIONS = os.environ.get("AIOPROD_PYSPARK", "4.0").split(",")


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_version(version: str, kafka: KafkaCluster, tmp_path: Path) -> None:
    python = python_with(f"pyspark-{version}", f"pyspark=={version}.*")
    told = check_pipeline([python], "classic", kafka, tmp_path)
    assert told["pyspark"].startswith(f"{version}.")
    assert told["stream"] == ("foreachBatch" if version == "4.0" else "format")
